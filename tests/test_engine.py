"""Who may tend a run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ags import engine, runs
from ags.engine import Engine, Wish
from ags.errors import AgsError, Unfit
from ags.model import Limits
from ags.runs import Held, State, registry
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


def test_who_changes_the_list_of_runs_for_long_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, ags_home, work = (tmp_path / name for name in ("home", "ags", "work"))
    work.mkdir()
    one = Engine({}, home, ags_home, supervisor=lambda *_: ("/bin/true",))
    wish = Wish("two", "", "shell", work, Limits(), mode="inplace")
    with create(ags_home, "one") as held:
        (held.run_dir / "run.json").write_text("{")

    async def scene() -> None:
        with registry._registry(ags_home):
            waiting = [
                asyncio.create_task(one.remove("one", force=True)),
                asyncio.create_task(one.start(wish)),
            ]
            for _ in range(5):
                await asyncio.sleep(engine.FIRST_LOOK)
            assert not any(task.done() for task in waiting)
        await asyncio.gather(*waiting)

    asyncio.run(scene())
    assert runs.names(ags_home) == ["two"]
    monkeypatch.setattr(engine, "CHANGING", 0.0)
    with registry._registry(ags_home), pytest.raises(AgsError, match="another ags") as caught:
        asyncio.run(one.remove("two"))
    assert "let that one go on" in caught.value.hint and runs.names(ags_home) == ["two"]


def test_nobody_is_told_nothing(tmp_path: Path) -> None:
    made(tmp_path, is_over=True).close()
    told = Engine({}, tmp_path, tmp_path).tell
    for text in ("", " \n"):
        with pytest.raises(Unfit, match="it is empty"):
            asyncio.run(told("one", text))
    with pytest.raises(AgsError, match="its workspace is gone"):
        asyncio.run(told("one", "go on"))
