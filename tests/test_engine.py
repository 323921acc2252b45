"""Who may tend a run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ags import engine, runs
from ags.engine import Engine
from ags.errors import AgsError
from ags.runs import Held, State
from tests.runs.examples import create


def made(ags_home: Path, *, is_over: bool) -> Held:
    held = create(ags_home, "one")
    states: tuple[State, ...] = ("preparing", "running", "collecting", "done")
    for state in states if is_over else states[:2]:
        held.save(runs.moved(held.run, state, runs.now()))
    return held


def test_a_run_that_has_ended_is_waited_for_until_its_supervisor_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk has the record later than others can read it."""
    monkeypatch.setattr(engine, "LEAVING", 0.0)

    async def scene() -> None:
        leaving = made(tmp_path, is_over=True)
        taking = asyncio.create_task(Engine({}, tmp_path, tmp_path).hold("one"))
        for _ in range(5):
            await asyncio.sleep(engine.FIRST_LOOK)
        assert not taking.done()
        leaving.close()
        (await taking).close()

    asyncio.run(scene())


def test_a_run_at_work_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LEAVING", 0.0)
    with made(tmp_path, is_over=False), pytest.raises(AgsError, match="at work"):
        asyncio.run(Engine({}, tmp_path, tmp_path).hold("one"))
