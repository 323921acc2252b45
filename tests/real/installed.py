"""The five programs, installed once by `ags update-agents` for all workers of a test run."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from tests.once import once
from tests.people import ROOT, Person

AGENTS = ("claude", "codex", "gemini", "opencode", "pi")


def installed() -> AbstractContextManager[Path]:
    """A state folder that has them."""
    return once("real", _install)


def _install(place: Path) -> None:
    """From the registry of this machine's own npm settings: the one step that needs a network."""
    command = (sys.executable, "-m", "ags.cli.main", "update-agents", *AGENTS)
    environ = {**os.environ, "AGS_HOME": str(place), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def give(place: Path, agent: str, person: Person) -> None:
    """Put one agent into a person's state, by links to the same files: they are never changed."""
    state = person.home / ".ags"
    (state / "agents").mkdir(mode=0o700, parents=True)
    target = state / "agents" / agent
    subprocess.run(("cp", "-al", place / "agents" / agent, target), check=True)
    # Folders and the lock are the person's own; other files keep the owner that all links share.
    (target / ".lock").unlink()
    (target / ".lock").touch(mode=0o600)
    own = ("-type", "d", "-o", "-name", ".lock", "-o", "-type", "l")
    command = ("chown", "-h", f"{person.uid}:{person.gid}", "{}", "+")
    subprocess.run(("find", state, "(", *own, ")", "-exec", *command), check=True)
