"""Makes the virtual environment that ags runs in: complete, or not there at all."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from ags.errors import AgsError
from bootstrap import install
from bootstrap.place import Environment, choose_base
from bootstrap.progress import INTERVAL, Progress
from bootstrap.start import ROOT, STAMP, stamp

TAIL_LINES = 15


def set_up(called: str, kind: str) -> str:
    """The directory of an environment that is current; ends the program if there can be none."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        if called == "ags-test" and importlib.util.find_spec("ensurepip") is None:
            from bootstrap import packages

            packages.provide()
        environment = Environment(Path(ROOT), choose_base(Path(ROOT), os.environ), kind)
        ensure(environment, Progress(sys.stderr, called))
    except AgsError as error:
        print(f"{called}: cannot {error.what} ({error.subject})", file=sys.stderr)
        print(f"  why: {error.cause}\n  try: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    return str(environment.prefix)


def _end(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def ensure(environment: Environment, progress: Progress) -> None:
    """Returns with the environment current, whatever state an earlier attempt left it in."""
    if environment.current:
        return
    try:
        environment.base.mkdir(parents=True, exist_ok=True)
        with _locked(environment, progress) as lock:
            if not environment.current:
                _build(environment, progress, lock)
    except OSError as error:
        raise _unwritable(environment, error) from error


def _unwritable(environment: Environment, error: OSError) -> AgsError:
    hint = "set XDG_CACHE_HOME to a directory you can write to, then try again"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "the disk is full: make room, then try again"
    subject = error.filename or environment.base
    return AgsError(install.WHAT, subject=subject, cause=error.strerror or str(error), hint=hint)


@contextmanager
def _locked(environment: Environment, progress: Progress) -> Iterator[int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(environment.lock, flags, 0o600)
    try:
        if not _try_lock(lock):
            with progress.step("waiting for another set-up of the same checkout") as tick:
                while not _try_lock(lock):
                    tick()
                    time.sleep(INTERVAL)
        yield lock
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _build(environment: Environment, progress: Progress, lock: int) -> None:
    new, final = environment.unfinished, environment.prefix
    for leftover in (new, environment.replaced):
        if leftover.exists():
            shutil.rmtree(leftover)
    environment.log.write_bytes(b"")
    progress.say(f"first use, or other requirements than before: setting up {final}")
    for title, argv in _steps(environment):
        _run(environment, progress, title, argv, lock)
    _check_installed(environment)
    (environment.packages / "ags.pth").write_text(f"{environment.root / 'src'}\n")
    _rename_in_scripts(new, final)
    (new / STAMP).write_bytes(stamp(str(environment.root), environment.kind))
    if final.exists():
        final.rename(environment.replaced)
    new.rename(final)
    shutil.rmtree(environment.replaced, ignore_errors=True)


def _steps(environment: Environment) -> Iterator[tuple[str, tuple[str, ...]]]:
    new = str(environment.unfinished)
    isolated = (f"{new}/bin/python", "-I")
    pip = install.pip()
    count = len(install.pinned(environment.requirements))
    yield (
        "creating a virtual environment",
        (sys.executable, "-I", "-m", "venv", "--without-pip", new),
    )
    yield (
        f"installing {count} pinned packages",
        (*isolated, pip, *install.pip_arguments(environment)),
    )
    yield "compiling", (*isolated, "-m", "compileall", *install.compile_arguments(environment))


def _run(
    environment: Environment, progress: Progress, title: str, argv: Sequence[str], lock: int
) -> None:
    with progress.step(title) as tick, environment.log.open("ab") as log:
        # The lock goes along: should we be killed, it is held until the child has ended as well.
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=install.child_environment(os.environ),
            pass_fds=(lock,),
        )
        try:
            while not _ended(child):
                tick()
        except BaseException:
            child.kill()
            child.wait()
            raise
        if child.returncode != 0:
            raise _failed(environment, title, child.returncode)


def _ended(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(INTERVAL)
    except subprocess.TimeoutExpired:
        return False
    return True


def _failed(environment: Environment, title: str, code: int) -> AgsError:
    text = environment.log.read_text(errors="replace")
    tail = "".join(f"\n    {line}" for line in text.splitlines()[-TAIL_LINES:])
    hint = install.hint_for(text, shutil.disk_usage(environment.base).free)
    return AgsError(
        install.WHAT,
        subject=environment.prefix,
        cause=f"{title} failed with exit code {code}{tail}",
        hint=f"{hint}; all of its output is in {environment.log}",
    )


def _check_installed(environment: Environment) -> None:
    # A `target` or `prefix` in the person's pip settings sends packages elsewhere, with success.
    missing = install.pinned(environment.requirements) - install.installed(environment.packages)
    if missing:
        raise AgsError(
            install.WHAT,
            subject=environment.prefix,
            cause=f"pip put {', '.join(sorted(missing))} somewhere else",
            hint="take `target`, `prefix` and `root` out of your pip settings (pip config list)",
        )


def _rename_in_scripts(old: Path, new: Path) -> None:
    """Scripts name the directory they were made in; they are to work in the final one."""
    for script in (old / "bin").iterdir():
        if script.is_symlink():
            continue
        content = script.read_bytes()
        if b"\0" not in content:
            script.write_bytes(content.replace(os.fsencode(old), os.fsencode(new)))
