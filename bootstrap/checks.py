"""bin/ags-test: every check there is, or with arguments only pytest with those."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

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
    try:
        outcomes = {} if arguments else {name: _stage(name, argv, env) for name, argv in STAGES}
        # pytest comes last, so that its counts are the last line; it shows the others above that.
        shown = {"AGS_CHECKS": "\n".join(summary(outcomes))} if outcomes else {}
        cache = ("-o", f"cache_dir={sys.prefix}/cache/pytest")
        tests = _python(("pytest", *cache, *(arguments or SIDE_BY_SIDE)), env | shown)
    except KeyboardInterrupt:
        return 130
    return tests or int(any(outcomes.values()))


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


def summary(outcomes: Mapping[str, int]) -> list[str]:
    return [f"{name}: {'FAILED' if code else 'ok'}" for name, code in outcomes.items()]


def _stage(name: str, argv: Sequence[str], env: Mapping[str, str]) -> int:
    begun = time.monotonic()
    code = _python(argv, env)
    verdict = f"FAILED with exit code {code}" if code else "ok"
    print(f"{name}: {verdict} ({time.monotonic() - begun:.1f} s)", file=sys.stderr, flush=True)
    return code


def _python(argv: Sequence[str], env: Mapping[str, str]) -> int:
    return subprocess.run(
        (sys.executable, "-I", "-m", *argv), env=dict(env), check=False
    ).returncode
