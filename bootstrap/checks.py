"""bin/ags-test: every check there is, or with arguments only pytest with those."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from bootstrap import packages
from bootstrap.start import ROOT

STAGES = (
    ("ruff check", ("ruff", "check", ".")),
    ("ruff format", ("ruff", "format", "--check", ".")),
    ("mypy", ("mypy", "--strict")),
)

# A file at a time, so that what a file sets up once is set up once, and in our own order: long ones
# first (tests/conftest.py). One more than there are processors: much of what tests do is to wait.
SIDE_BY_SIDE = (
    "-n", str(min((os.cpu_count() or 1) + 1, 5)), "--dist", "loadfile", "--no-loadscope-reorder",
)  # fmt: skip


def main() -> int:
    packages.provide()
    arguments = [from_root(argument, Path.cwd()) for argument in sys.argv[1:]]
    os.chdir(ROOT)
    env = {**os.environ, **caches(Path(sys.prefix))}
    # Workers would obey it, and make the bytecode of all tests anew at each run.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        return _pytest(arguments, env) if arguments else everything(env)
    except KeyboardInterrupt:
        return 130


def everything(env: Mapping[str, str]) -> int:
    """pytest ends last, so that its counts are the last line; what the others said is above it."""
    told, tell = os.pipe()
    with ThreadPoolExecutor() as beside:
        others = beside.submit(_others, tell, env)
        try:
            tests = _pytest(SIDE_BY_SIDE, {**env, "AGS_CHECKS": f"/dev/fd/{told}"}, (told,))
        finally:
            os.close(told)
        return tests or others.result()


def from_root(argument: str, cwd: Path) -> str:
    """A test named from another directory is found from the root of the checkout as well."""
    path, separator, test = argument.partition("::")
    if argument.startswith("-") or cwd == Path(ROOT) or not (cwd / path).exists():
        return argument
    return f"{cwd / path}{separator}{test}"


def caches(prefix: Path) -> Mapping[str, str]:
    """In the environment, since the checkout may be read-only, and is nobody's dustbin."""
    names = {
        "RUFF_CACHE_DIR": "ruff",
        "MYPY_CACHE_DIR": "mypy",
        "HYPOTHESIS_STORAGE_DIRECTORY": "hypothesis",
    }
    return {name: str(prefix / "cache" / directory) for name, directory in names.items()}


def _others(tell: int, env: Mapping[str, str]) -> int:
    ended = [_stage(name, argv, env) for name, argv in STAGES]
    # Nobody listens if pytest could not even begin.
    with suppress(BrokenPipeError), open(tell, "w") as pipe:
        pipe.write("".join(said for _, said in ended))
    return int(any(code for code, _ in ended))


def _stage(name: str, argv: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
    begun = time.monotonic()
    done = _python(argv, env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    verdict = f"FAILED with exit code {done.returncode}" if done.returncode else "ok"
    said = done.stdout if done.returncode else ""
    return done.returncode, f"{said}{name}: {verdict} ({time.monotonic() - begun:.1f} s)\n"


def _pytest(words: Sequence[str], env: Mapping[str, str], kept: Sequence[int] = ()) -> int:
    cache = ("-o", f"cache_dir={sys.prefix}/cache/pytest")
    return _python(("pytest", *cache, *words), env, pass_fds=kept).returncode


def _python(
    argv: Sequence[str],
    env: Mapping[str, str],
    **more: Any,  # noqa: ANN401
) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-I", "-m", *argv)
    return subprocess.run(words, env=dict(env), check=False, **more)
