from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.callers import person, root, user, workspace
from tests.people import Person

__all__ = ("person", "root", "user", "workspace")

Inside = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def inside(person: Person, workspace: Path) -> Inside:
    """Runs a script of bash in a sandbox on the workspace; it must end well unless told."""

    def run(
        script: str, *flags: str, code: int = 0, **more: object
    ) -> subprocess.CompletedProcess[str]:
        where = {"cwd": workspace, **more}
        done = person.ags("exec", *flags, "--", "bash", "-euc", script, **where)  # type: ignore[arg-type]
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run
