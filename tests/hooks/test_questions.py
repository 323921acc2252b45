"""What hooks leave to the person: held until they answer, and a no without an answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.hooks import person, wire
from ags.hooks.call import MOST_NAME, BadCall, read
from ags.hooks.channel import Channel
from ags.hooks.decide import Bench, Decider
from ags.hooks.model import Ground, ToolCall, Verdict
from ags.hooks.questions import (
    MOST,
    MOST_A_MINUTE,
    MOST_SHOWN,
    Change,
    Kind,
    Questions,
    shown,
)
from tests.hooks.test_channel import called, play, refused
from tests.hooks.test_person import script

ASKING = (Verdict(False, "sure?", "pre-bash", asks=True),)
CALL = ToolCall("claude", "Bash", "bash", "make deploy")
ASK = """echo '{"hookSpecificOutput": {"permissionDecision": "ask",
    "permissionDecisionReason": "sure?"}}'"""


class Scene:
    """Calls that a hook asks about, and all that became of them."""

    def __init__(self, patience: float = 600) -> None:
        self.changes: list[Change] = []
        self.now = 0.0
        self.questions = Questions(
            patience=patience, clock=lambda: self.now, on_change=self.changes.append
        )
        self.left = asyncio.Event()

    def ask(self, call: ToolCall = CALL) -> asyncio.Task[Verdict]:
        return asyncio.create_task(self.questions.ask(call, ASKING, self.left))

    async def waiting(self, count: int = 1) -> str:
        """The id of the last one."""
        while len(found := self.questions.pending()) < count:
            await asyncio.sleep(0)
        return found[-1].id

    @property
    def outcomes(self) -> list[str]:
        return [each.outcome for each in self.changes]


@pytest.mark.parametrize(("kind", "allowed"), [("once", True), ("deny", False)])
def test_a_call_waits_for_the_person_and_goes_by_their_word(kind: Kind, allowed: bool) -> None:
    async def scene() -> None:
        one = Scene()
        asked = one.ask()
        id_ = await one.waiting()
        assert not asked.done()
        answered = one.questions.answer(id_, kind)
        assert (answered.about, answered.reason, answered.by) == (
            "make deploy",
            "sure?",
            "pre-bash",
        )
        assert one.questions.pending() == ()
        verdict = await asked
        assert verdict.allowed is allowed and verdict.by == "pre-bash"
        assert allowed or "says no" in verdict.reason
        assert one.outcomes == ["asked", kind]

    play(scene())


def test_an_answer_holds_for_one_call_alone() -> None:
    async def scene() -> None:
        one = Scene()
        first, second = one.ask(), one.ask()
        await one.waiting(2)
        one.questions.answer(one.questions.pending()[0].id, "once")
        assert (await first).allowed and not second.done()
        one.questions.answer(await one.waiting(), "deny")
        assert not (await second).allowed

    play(scene())


def test_without_an_answer_it_is_a_no() -> None:
    async def scene() -> None:
        one = Scene(patience=0.01)
        verdict = await one.ask()
        assert not verdict.allowed and "did not answer in time" in verdict.reason
        assert one.outcomes == ["asked", "time-out"]

    play(scene())


def test_one_that_nobody_waits_for_any_more_is_not_asked_any_more() -> None:
    async def scene() -> None:
        one = Scene()
        asked, other = one.ask(), one.ask()
        id_ = await one.waiting(2)
        one.left.set()
        assert not (await asked).allowed and not (await other).allowed
        assert one.outcomes == ["asked", "asked", "gone", "gone"]
        with pytest.raises(AgsError, match="answer this"):
            one.questions.answer(id_, "once")

    play(scene())


def test_a_run_that_ends_takes_its_questions_along() -> None:
    async def scene() -> None:
        one = Scene()
        asked = one.ask()
        await one.waiting()
        asked.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asked
        assert one.outcomes == ["asked", "gone"] and one.questions.pending() == ()

    play(scene())


def test_a_flood_of_questions_is_bounded() -> None:
    async def scene() -> None:
        one = Scene()
        asked = [one.ask() for _ in range(MOST)]
        await one.waiting(MOST)
        verdict = await one.ask()
        assert not verdict.allowed and "too much" in verdict.reason
        for each in one.questions.pending():
            one.questions.answer(each.id, "once")
        assert all([(await each).allowed for each in asked])

    play(scene())


def test_a_person_is_asked_so_often_a_minute_and_again_in_the_next() -> None:
    async def scene() -> None:
        one = Scene()
        for _ in range(MOST_A_MINUTE):
            asked = one.ask()
            one.questions.answer(await one.waiting(), "deny")
            await asked
        assert "too much" in (await one.ask()).reason
        one.now += 61
        asked = one.ask()
        one.questions.answer(await one.waiting(), "once")
        assert (await asked).allowed

    play(scene())


def test_what_is_too_long_to_be_judged_is_a_no() -> None:
    async def scene() -> None:
        one = Scene()
        quotes = 2
        for text in ("x" * (MOST_SHOWN - quotes + 1), "\U0001f600" * (MOST_SHOWN // 12 + 1)):
            long = ToolCall("claude", "Bash", "bash", text)
            assert "too long" in (await one.ask(long)).reason and one.changes == []
        asked = one.ask(ToolCall("claude", "Bash", "bash", "x" * (MOST_SHOWN - quotes)))
        one.questions.answer(await one.waiting(), "once")
        assert (await asked).allowed

    play(scene())


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (CALL, "make deploy"),
        (ToolCall("pi", "bash", "bash", "ls", cwd="/w/src", raw={"workdir": "src"}), "(in /w/src)"),
        (ToolCall("pi", "edit", "write", paths=("a", "b\nc")), '"a"\n"b\\nc"'),
        (ToolCall("pi", "fetch", "other", raw={"url": "https://a.example"}), "https://a.example"),
        (ToolCall("pi", "edit", "write"), "{}"),
    ],
)
def test_a_person_sees_what_the_call_is_about(call: ToolCall, about: str) -> None:
    assert about in shown(call)


def test_a_tool_whose_name_nobody_would_read_is_no_tool() -> None:
    said = {"tool_input": {"command": "ls"}}
    assert read("claude", "PreToolUse", {**said, "tool_name": "x" * MOST_NAME})
    with pytest.raises(BadCall):
        read("claude", "PreToolUse", {**said, "tool_name": "x" * (MOST_NAME + 1)})


# The whole way: from the socket inside, by a real hook, to the person


@contextlib.asynccontextmanager
async def listening(place: Path) -> AsyncIterator[Scene]:
    one = Scene()
    noted: list[object] = []
    hooks = person.find(place / "hooks", ())
    bench = Bench("run-1", Ground("/work/space", "/home/me"), place, hooks, patience=60)
    made = await Channel.open(place, Decider(bench, noted.append, one.questions.ask).hear)
    try:
        yield one
    finally:
        await made.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "hooks").mkdir(mode=0o700)
    script(tmp_path / "hooks", "pre-bash", ASK)
    return tmp_path


async def said(place: Path, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(place / wire.SOCKET)
    writer.write(data)
    return reader, writer


@pytest.mark.parametrize("kind", ["once", "deny"])
def test_a_hook_leaves_a_call_to_the_person(place: Path, kind: Kind) -> None:
    async def scene() -> None:
        async with listening(place) as one:
            reader, writer = await said(place, called("make deploy"))
            one.questions.answer(await one.waiting(), kind)
            answer = await reader.read()
            writer.close()
            assert answer == wire.ALLOW if kind == "once" else "says no" in refused(answer)

    play(scene())


def test_what_another_hook_or_the_guard_refuses_nobody_is_asked_about(place: Path) -> None:
    async def scene() -> None:
        script(place / "hooks", "pre-any", "if grep -q forbidden; then exit 2; fi")
        async with listening(place) as one:
            for command in ("rm -rf /", "forbidden"):
                reader, writer = await said(place, called(command))
                refused(await reader.read())
                writer.close()
            assert one.changes == []
            _, writer = await said(place, called("make deploy"))
            await one.waiting()
            writer.close()

    play(scene())


def test_an_agent_that_hangs_up_is_not_asked_for(place: Path) -> None:
    async def scene() -> None:
        async with listening(place) as one:
            _, writer = await said(place, called("make deploy"))
            await one.waiting()
            writer.close()
            while one.questions.pending():
                await asyncio.sleep(0.01)
            assert one.outcomes == ["asked", "gone"]

    play(scene())
