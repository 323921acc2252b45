"""A sandbox that is not wanted any more while it starts: nobody of it is left waiting."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from pathlib import Path

import pytest

from ags.backends import bwrap
from ags.backends.base import Streams
from ags.backends.bubblewrap import Bubblewrap
from tests.box import Box

LONG = 120.0


@pytest.fixture
def box(tmp_path: Path) -> Box:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Box(workspace, tmp_path / "home")


def instead_of_bwrap(box: Box, script: str) -> None:
    program = box.workspace.parent / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    box.backend = Bubblewrap(str(program))


async def launch(box: Box, printed: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    await box.backend.launch(box.plan("true"), Streams(nothing, printed, printed))


def begun(reading: int) -> None:
    assert select.select([reading], [], [], LONG)[0]
    assert os.read(reading, 64) == b"begun\n"


def all_ended(reading: int) -> None:
    """Whoever is left of it holds the other end."""
    assert select.select([reading], [], [], LONG)[0], "somebody is left waiting"
    assert os.read(reading, 64) == b""


def test_one_who_is_killed_before_bwrap_has_said_anything(box: Box) -> None:
    """As happens to a supervisor: bwrap then finds nobody who hears it."""
    real = bwrap.wheel()
    assert real is not None
    waits = 'while kill -0 "$PPID" 2>/dev/null; do /bin/sleep 0.01; done'
    instead_of_bwrap(box, f'echo begun; {waits}; exec {real} "$@"')
    reading, writing = os.pipe()
    starter = os.fork()
    if starter == 0:
        try:
            asyncio.run(launch(box, writing))
        finally:
            os._exit(1)
    os.close(writing)
    begun(reading)
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    all_ended(reading)


def test_one_who_thinks_better_of_it(box: Box) -> None:
    """Whom bwrap has forked and not let go yet does not see its end."""
    instead_of_bwrap(box, "/bin/sleep 86400 & echo begun; wait")
    reading, writing = os.pipe()

    async def scene() -> None:
        task = asyncio.create_task(launch(box, writing))
        await asyncio.to_thread(begun, reading)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    os.close(writing)
    all_ended(reading)
