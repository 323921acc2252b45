"""Runs at work, with a supervisor and a sandbox of their own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from tests.cli.desk import Desk

PATIENCE = 90.0


@contextlib.contextmanager
def started(desk: Desk, script: str, name: str = "fix-login") -> Iterator[None]:
    """A run of the shell whose script says `at work` once it is; it does not outlive the test."""
    project = str(desk.project.folder)
    said = desk.ags("start", "--detach", "--agent", "shell", "--project", project, name, script)
    assert said.code == 0, said.err
    try:
        wait_for(desk, name, "at work")
        yield
    finally:
        desk.ags("stop", "--now", name)


def wait_for(desk: Desk, name: str, text: str) -> None:
    until = time.monotonic() + PATIENCE
    while text not in (shown := desk.ags("logs", name).out):
        assert time.monotonic() < until, shown
        time.sleep(0.05)
