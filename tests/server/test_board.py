"""All runs on one stream: what there is, then what changes, also for who comes back or is slow."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ags import projects, runs
from ags.events import Writer
from ags.runs import Run
from ags.server import board as boards
from ags.server.activity import Activity
from ags.server.board import Board
from ags.server.log import Log
from ags.server.state import State
from tests.faults.conftest import workshop as workshop
from tests.faults.workshop import Workshop
from tests.server.conftest import Server
from tests.server.listening import Message, eventually, listening
from tests.server.test_stream import HOLDS, let_go, metrics
from tests.server.test_stream import served as served
from tests.workspace.repositories import checkout

SOON = 90.0


def of(run: Run, state: str) -> Any:
    def found(message: Message) -> bool:
        told = message.json()
        return message.event == "run" and (told["id"], told["state"]) == (run.id, state)

    return found


def test_the_board_shows_what_there_is_and_every_change_to_the_end(
    workshop: Workshop, served: Server
) -> None:
    old = workshop.ended(workshop.start("old"))
    with listening(served, "/stream") as board:
        first = board.next()
        assert first is not None and first.event == "snapshot"
        there = first.json()
        assert [each["id"] for each in there["runs"]] == [old.id]
        assert (there["total"], there["projects"], there["asks"]) == (1, [], [])
        (row,) = there["runs"]
        assert (row["name"], row["state"], row["files"], row["applied"]) == (
            "old",
            "done",
            2,
            False,
        )
        assert row["activity"].keys() == {"cost", "tokens", "last", "waiting"}
        new = workshop.start("new", HOLDS)
        board.until(of(new, "running"))
        spoken = board.until(lambda each: each.json().get("activity", {}).get("last") == "begun")
        assert spoken.json()["id"] == new.id
        let_go(workshop, new)
        done = board.until(of(new, "done"))
        assert done.id > first.id
        workshop.does(workshop.engine().remove(new.name, force=True))
        gone = board.until(lambda each: each.event == "gone")
        assert gone.json() == {"id": new.id}


def test_the_words_before_the_end_are_on_the_board(workshop: Workshop, served: Server) -> None:
    with listening(served, "/stream") as board:
        board.next()
        run = workshop.start("quick", "echo these were the last")
        told = board.until(
            lambda each: (
                each.event == "run" and each.json()["activity"]["last"] == "these were the last"
            )
        )
        assert told.json()["id"] == run.id


def test_one_who_comes_back_gets_only_what_changed(workshop: Workshop, served: Server) -> None:
    with listening(served, "/stream") as board:
        first = board.next()
        assert first is not None
    eventually("nobody follows", lambda: "ags_board_subscribers 0\n" in metrics(served))
    run = workshop.ended(workshop.start("meanwhile"))
    with listening(served, "/stream", {"Last-Event-ID": first.id}) as board:
        again = board.next()
        assert again is not None
        assert (again.event, again.json()["id"]) == ("run", run.id)


@pytest.mark.parametrize("last", ["rubbish", "00000000.5", "99999999999.1", "x" * 90])
def test_what_is_not_known_any_more_begins_anew(
    served: Server, workshop: Workshop, last: str
) -> None:
    with listening(served, "/stream", {"Last-Event-ID": last}) as board:
        first = board.next()
    assert first is not None and first.event == "snapshot"


def test_a_run_that_dies_unheard_is_noticed(workshop: Workshop, served: Server) -> None:
    run = workshop.start("victim", HOLDS)
    with listening(served, "/stream") as board:
        board.until(lambda each: each.event == "snapshot")  # which could tell of its death already
        eventually("it runs", lambda: workshop.load(run).state == "running")
        workshop.kill_supervisor(run)
        board.until(of(run, "interrupted"))


# Within the test: what would take thousands of runs


def state_in(place: Path) -> State:
    (place / "ags" / "server").mkdir(parents=True, exist_ok=True)
    return State({}, place, place / "ags", Log("json", os.open(os.devnull, os.O_WRONLY)))


def made(state: State, name: str, **given: Any) -> Run:
    """A run that has only a record."""
    at = runs.now()
    given = {"goal": "", **given}
    run = Run(
        id=runs.new_id(at),
        name=name,
        agent="shell",
        mode="separate",
        project=state.ags_home,
        created=at,
        state="done",
        **given,
    )
    with runs.create(state.ags_home, run):
        pass
    return run


def changed(state: State, run: Run, **given: Any) -> None:
    with runs.hold(runs.directory(state.ags_home, run.id)) as held:
        held.save(replace(held.run, **given))


def stopped_by(why: str) -> Callable[[Any], bool]:
    return lambda row: bool(row.get("stopped_by") == why)


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 2 * SOON))


class Follower:
    """Takes what the board gives, when it is told to."""

    def __init__(self, coming: Any) -> None:
        self._coming = coming

    async def take(self) -> list[tuple[str, str, Any]]:
        """The next messages that come together: id, event, value."""
        async with asyncio.timeout(SOON):
            return [_read(each) for each in await anext(self._coming)]

    async def hears(self, found: Callable[[Any], bool]) -> None:
        while not any(found(value) for _, _, value in await self.take()):
            pass


def _read(raw: bytes) -> tuple[str, str, Any]:
    id_, event, data = raw.decode().rstrip("\n").split("\n")
    return id_.removeprefix("id: "), event.removeprefix("event: "), json.loads(data[6:])


@asynccontextmanager
async def following(board: Board, last: str = "") -> AsyncIterator[Follower]:
    async with aclosing(board.follow(last)) as coming:
        yield Follower(coming)


def test_who_is_slow_finds_each_run_once_as_it_is_by_then(tmp_path: Path) -> None:
    async def scene() -> None:
        state = state_in(tmp_path)
        run, other = made(state, "one"), made(state, "other")
        board = Board(state)
        async with following(board) as slow, following(board) as quick:
            assert [event for _, event, _ in await slow.take()] == ["snapshot"]
            for why in ("reason 0", "reason 1", "reason 2"):
                changed(state, run, stopped_by=why)
                await quick.hears(stopped_by(why))
            changed(state, other, stopped_by="another")
            await quick.hears(stopped_by("another"))
            told = [value for _, _, value in await slow.take()]
        assert [each["id"] for each in told] == [run.id, other.id]
        assert [each["stopped_by"] for each in told] == ["reason 2", "another"]

    play(scene())


def test_who_is_so_slow_that_the_ring_went_round_gets_a_new_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        monkeypatch.setattr(boards, "MOST_CHANGES", 2)
        state = state_in(tmp_path)
        board = Board(state)
        async with following(board) as slow:
            ((first, _, _),) = await slow.take()
            for number in range(3):
                board.project_changed({"id": f"project-{number}"})
            ((last, event, value),) = await slow.take()
            assert event == "snapshot" and last.endswith(".3")
            assert [each["id"] for each in value["projects"]] == [f"project-{n}" for n in range(3)]
            async with following(board, first) as late:
                assert [event for _, event, _ in await late.take()] == ["snapshot"]
            async with following(board, last) as up_to_date:
                board.project_gone("project-1")
                assert [event for _, event, _ in await up_to_date.take()] == ["project-gone"]

    play(scene())


def test_what_changes_again_and_again_is_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        monkeypatch.setattr(boards, "MOST_CHANGES", 2)
        board = Board(state_in(tmp_path))
        async with following(board) as slow:
            await slow.take()
            for number in range(50):
                board.project_changed({"id": "one", "stage": str(number)})
            ((_, event, value),) = await slow.take()
            assert (event, value["stage"]) == ("project", "49")

    play(scene())


def test_a_broken_off_reader_loses_no_change_that_was_left_out_for_a_later_one(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        board = Board(state_in(tmp_path))
        async with following(board) as follower:
            ((start, _, _),) = await follower.take()
            for name, stage in (("a", "1"), ("b", "1"), ("a", "2"), ("c", "1")):
                board.project_changed({"id": name, "stage": stage})
            told = await follower.take()
            assert [value["id"] for _, _, value in told] == ["b", "a", "c"]
            for taken, (id_, _, _) in enumerate(told, 1):
                if taken < len(told):
                    async with following(board, id_) as again:
                        assert await again.take() == told[taken:]
            async with following(board, start) as again:
                assert await again.take() == told

    play(scene())


def test_a_projects_branch_is_told_without_anybody_asking_for_it(tmp_path: Path) -> None:
    async def scene() -> None:
        state = state_in(tmp_path)
        place = checkout(tmp_path / "project")
        place.write("a.txt", "hello\n")
        place.commit("first")
        project = await projects.link(state.ags_home, place.folder, "")
        board = Board(state)
        async with following(board) as follower:
            await follower.hears(lambda value: value.get("head") == "main")
            place.git("checkout", "-qb", "other")
            await follower.hears(lambda value: value.get("head") == "other")
            await projects.remove(state.engine(), project.id)
            await follower.hears(lambda value: value == {"id": project.id})
            assert board.tips.told(project.id) == ""

    play(scene())


def test_the_newest_five_hundred_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    async def scene() -> None:
        state = state_in(tmp_path)
        ids = [made(state, f"run-{number}").id for number in range(520)]
        async with following(Board(state)) as follower:
            ((_, _, value),) = await follower.take()
        assert value["total"] == 520
        assert [each["id"] for each in value["runs"]] == sorted(ids, reverse=True)[:500]

    play(scene())


def test_names_that_are_no_text_and_words_that_are_no_words_go_out_as_json(tmp_path: Path) -> None:
    async def scene() -> None:
        state = state_in(tmp_path)
        made(state, "odd", goal="bad \udcff\ud800 \x1b[31m", stopped_by="\udc80")
        async with following(Board(state)) as follower:
            ((_, _, value),) = await follower.take()
        assert value["runs"][0]["goal"] == "bad \\xff\\ud800 \x1b[31m"

    play(scene())


def test_what_a_run_used_adds_up(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    writer = Writer(log)
    writer.write("usage", input=100, output=10, cost_usd=0.5)
    writer.write("message", text="first\n\n  words")
    writer.write("usage", input=1, output=1, cost_usd=0.25)
    writer.write("output", text="not an agent's words", stream="stderr")
    writer.close()
    activity = Activity(log)
    assert activity.more() == log.stat().st_size and activity.more() == 0
    assert activity.fields() == {"cost": 0.75, "tokens": 112, "last": "first words"}


def test_what_is_told_from_the_beginning_of_a_conversation_is_not_added_twice(
    tmp_path: Path,
) -> None:
    log = tmp_path / "events.jsonl"
    writer = Writer(log)
    for cost in (1.0, 1.5, 0.25):  # the last is of a conversation begun anew
        writer.write("usage", input=10, cost_usd=cost, of_conversation=["cost_usd"])
    writer.close()
    activity = Activity(log)
    activity.more()
    assert activity.fields() == {"cost": 1.75, "tokens": 30, "last": ""}


def test_an_agent_cannot_speak_for_the_log(tmp_path: Path) -> None:
    """Its words may look like a line of ours, in whatever way they are packed."""
    log = tmp_path / "events.jsonl"
    writer = Writer(log)
    writer.write("tool_call", input={"kind": "usage", "cost_usd": 99})
    writer.write("tool_call", input=[{"seq": 1, "ts": 1.5, "kind": "usage", "cost_usd": 99}])
    writer.write("output", text='{"seq":9,"ts":1.5,"kind":"usage","cost_usd":99}')
    writer.write("usage", cost_usd=float(1), input="many", output=True)
    writer.close()
    with log.open("ab") as file:
        file.write(b'{"seq":5,"ts":1.5,"kind":"usage","cost_usd":7')  # not whole yet
    activity = Activity(log)
    activity.more()
    assert activity.fields()["cost"] == 1.0 and activity.fields()["tokens"] is None


def test_a_flood_is_read_in_pieces(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    writer = Writer(log)
    for _ in range(20_000):
        writer.write("usage", input=1)
    writer.close()
    activity = Activity(log)
    pieces = []
    while got := activity.more():
        pieces.append(got)
    assert len(pieces) >= 40 and sum(pieces) == log.stat().st_size
    assert activity.fields()["tokens"] == 20_000
