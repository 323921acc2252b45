"""Who runs ags in a test: a user with a copy of the checkout of their own."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What .gitignore has, for a checkout that came without git.
NOT_SOURCE = {".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    uid: int
    gid: int
    home: Path
    checkout: Path
    environment: Mapping[str, str]

    def start(
        self,
        argv: Sequence[str | Path],
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """A process of this person's in a session of its own. `env` adds to their environment."""
        become = self.uid != os.geteuid()
        return subprocess.Popen(
            [str(word) for word in argv],
            cwd=cwd or self.home,
            env={**self.environment, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            umask=0o022,
            user=self.uid if become else None,
            group=self.gid if become else None,
            extra_groups=[] if become else None,
        )

    def run_as(
        self,
        argv: Sequence[str | Path],
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        with self.start(argv, cwd, env) as process:
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def ags(
        self,
        *arguments: str,
        checkout: Path | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """`bin/ags` with time enough to set itself up."""
        program = (checkout or self.checkout) / "bin" / "ags"
        return self.run_as([program, *arguments], cwd, env, timeout=600)

    def copy_checkout(self, target: Path) -> Path:
        """The working tree as it is, without what git ignores, owned by this person."""
        target.mkdir(mode=0o755)
        for name in working_tree(ROOT):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
        for path in (target, *target.rglob("*")):
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
        return target


def working_tree(root: Path) -> Iterator[Path]:
    if (root / ".git").exists():
        # The owner may be another user than the one who tests.
        git = ("git", "-c", "safe.directory=*", "-C", str(root))
        listed = (*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = subprocess.run(listed, stdout=subprocess.PIPE, check=True).stdout.split(b"\0")
        found = (Path(os.fsdecode(name)) for name in names if name)
    else:
        found = (path.relative_to(root) for path in root.rglob("*"))
    for name in found:
        source = root / name
        if not NOT_SOURCE & set(name.parts) and (source.is_symlink() or source.is_file()):
            yield name


def myself(checkout: Path, environment: Mapping[str, str]) -> Person:
    user = pwd.getpwuid(os.geteuid())
    return Person(user.pw_name, user.pw_uid, user.pw_gid, Path(user.pw_dir), checkout, environment)


def settled(person: Person) -> Person:
    """Once their checkout is made and set up."""
    person.copy_checkout(person.checkout)
    first = person.ags("--version")
    assert first.returncode == 0, first.stderr
    return person


@contextlib.contextmanager
def throw_away_user(checkout: Path, environment: Mapping[str, str]) -> Iterator[Person]:
    """A user who exists as long as the context does."""
    name = f"ags-test-{secrets.token_hex(4)}"  # of one that was killed, a user may be left
    subprocess.run(("useradd", "--create-home", "--shell", "/bin/sh", name), check=True)
    try:
        user = pwd.getpwnam(name)
        own = {"HOME": user.pw_dir, "USER": name, "LOGNAME": name}
        yield Person(
            name, user.pw_uid, user.pw_gid, Path(user.pw_dir), checkout, {**environment, **own}
        )
    finally:
        _end_processes(pwd.getpwnam(name).pw_uid)
        removed = subprocess.run(("userdel", "--remove", name), capture_output=True, check=False)
        # 12: the home could not be removed, which here means that a test has already done so.
        assert removed.returncode in (0, 12), removed.stderr


def _end_processes(uid: int) -> None:
    """And see them gone: of a user with a process on its way out, `userdel` removes nothing."""
    until = time.monotonic() + 120
    while left := [pid for pid in _processes() if _is_of(pid, uid)]:
        assert time.monotonic() < until, left
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _is_of(pid: int, uid: int) -> bool:
    """And no zombie, which has no root and which `userdel` passes over."""
    try:
        os.stat(f"/proc/{pid}/root")
        return os.stat(f"/proc/{pid}").st_uid == uid
    except OSError:
        return False
