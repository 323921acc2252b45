"""The five programs, installed once by `ags update-agents` for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.people import ROOT

AGENTS = ("claude", "codex", "gemini", "opencode", "pi")
DONE = "done"


@contextmanager
def installed() -> Iterator[Path]:
    """A state folder that has them. The first worker fills it, and the last one out removes it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    place = Path(f"/tmp/ags-real-{run}")
    place.mkdir(mode=0o700, exist_ok=True)
    using = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fcntl.flock(using, fcntl.LOCK_SH)
            if not (place / DONE).exists():
                _install(place)
                (place / DONE).touch()
        yield place
        _leave(place, using)
    finally:
        os.close(using)


def _install(place: Path) -> None:
    """From the registry of this machine's own npm settings: the one step that needs a network."""
    command = (sys.executable, "-m", "ags.cli.main", "update-agents", *AGENTS)
    environ = {**os.environ, "AGS_HOME": str(place), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def _leave(place: Path, using: int) -> None:
    try:
        fcntl.flock(using, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    shutil.rmtree(place)


def give(place: Path, agent: str, state: Path) -> None:
    """Put one agent into a state folder, by links to the same files: they are never changed."""
    (state / "agents").mkdir(mode=0o700, parents=True)
    source, target = place / "agents" / agent, state / "agents" / agent
    subprocess.run(("cp", "-al", source, target), check=True)
