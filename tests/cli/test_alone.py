"""Two who apply to one repository at the same moment: one after the other."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ags.workspace import alone as module
from ags.workspace import git
from ags.workspace.alone import alone
from tests.cli.desk import Desk
from tests.workspace.repositories import checkout


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """As by another process of ours."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    made = checkout(tmp_path / "project")
    order: list[str] = []

    async def scene() -> None:
        project = await git.find(made.folder)

        async def second() -> None:
            order.append("second comes")
            async with alone(project):
                order.append("second")

        async with alone(project):
            waiting = asyncio.create_task(second())
            while not order:
                await asyncio.sleep(0)
            await asyncio.sleep(0.1)
            order.append("first")
        await waiting

    asyncio.run(scene())
    assert order == ["second comes", "first", "second"]


def test_neither_apply_nor_undo_meets_another_one_half_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    desk.finished()
    before = desk.project.state()
    with held(desk.project.folder / ".git"):
        assert "another apply or undo is under way" in desk.refused("apply", "fix-login")
    assert desk.project.state() == before
    assert desk.ags("apply", "fix-login").code == 0
    applied = desk.project.state()
    with held(desk.project.folder / ".git"):
        assert "another apply or undo is under way" in desk.refused("undo", "fix-login")
    assert desk.project.state() == applied
    assert desk.ags("undo", "fix-login").code == 0
    assert desk.project.state() == before
