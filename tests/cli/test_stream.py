"""Events as a person reads them: every kind, and whatever an agent puts into one."""

from __future__ import annotations

import asyncio
import io
from typing import Any, get_args

import hypothesis
import pytest
from hypothesis import strategies as st

from ags.cli.stream import follow
from ags.egress.asks import Outcome
from ags.events import KINDS, Event, Writer
from ags.logtext import OUTCOMES, Stream
from ags.paint import Paint, cells
from tests.cli.desk import HOSTILE, Desk, is_harmless
from tests.runs.examples import create


def rendered(*told: tuple[str, dict[str, Any]], width: int = 80, on: bool = False) -> list[str]:
    stream = Stream(Paint(on), width)
    lines = []
    for seq, (kind, fields) in enumerate(told, 1):
        lines += stream.render(Event(seq, 0.0, kind, fields))  # type: ignore[arg-type]
    return lines + stream.finish()


def test_messages_are_text_with_room_around_them() -> None:
    assert rendered(
        ("message", {"text": "I look.\nThen I act."}),
        ("tool_call", {"tool": "read", "input": "a.py"}),
        ("tool_result", {"tool": "read", "ok": True, "output": "3 lines"}),
        ("tool_call", {"tool": "run", "input": {"command": "make test"}}),
        ("tool_result", {"tool": "run", "ok": False, "output": "no rule"}),
        ("message", {"text": "Done."}),
    ) == [
        "I look.",
        "Then I act.",
        "",
        "● read  a.py",
        "  └ 3 lines",
        "● run  make test",
        "  ✗ no rule",
        "",
        "Done.",
    ]


def test_a_long_answer_is_shortened_and_says_so() -> None:
    lines = rendered(("tool_result", {"output": "\n".join(map(str, range(20)))}))
    assert lines[0] == "  └ 0" and lines[-1] == "    … 14 more lines" and len(lines) == 7


def test_a_call_fits_on_one_line_of_the_terminal() -> None:
    (line,) = rendered(("tool_call", {"tool": "edit", "input": {"text": "漢\n" * 200}}), width=60)
    assert cells(line) <= 60 and line.endswith("…")


def test_output_stays_as_it_is() -> None:
    text = "  two  spaces\tand a tab  "
    assert rendered(("output", {"text": text}), ("output", {"text": ""})) == [text, ""]


def test_a_programs_own_colours_are_left_out() -> None:
    assert rendered(("output", {"text": "\x1b[1;31mred\x1b[0m\x1b[K"})) == ["red"]


def test_a_sequence_that_appears_once_another_is_left_out_is_not_obeyed() -> None:
    assert rendered(("output", {"text": "\x1b\x1b[0m[31m"})) == ["\\x1b[31m"]


def progress(*texts: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple(("output", {"text": text, "end": "\r"}) for text in texts)


def test_of_a_progress_bar_the_last_state_is_shown() -> None:
    assert rendered(*progress("10%", "50%"), ("output", {"text": "100%"})) == ["100%"]
    assert rendered(*progress("10%", "50%")) == ["50%"]
    assert rendered(*progress("50%"), ("message", {"text": "x"})) == ["50%", "", "x"]
    assert rendered(*progress("99%"), ("output", {"text": ""})) == ["99%"]


def test_the_states_of_a_run_and_how_it_ended() -> None:
    assert rendered(
        ("status", {"state": "running"}),
        ("system", {"text": "the work is stored", "files": 2, "insertions": 3, "deletions": 1,
                    "branch": "agent--x", "commit": "abc"}),
        ("status", {"state": "stopped", "exit_code": 143, "stopped_by": "stopped by you"}),
    ) == [
        "── running",
        "── the work is stored: +3 −1 in 2 files, on agent--x",
        "── stopped, exit code 143, stopped by you",
    ]  # fmt: skip


def test_an_error_of_ours_says_what_why_and_what_to_do() -> None:
    error = {"what": "start", "cause": "no room\non the disk", "hint": "make room"}
    assert rendered(("system", {"text": "cannot start", "subject": "/x", "error": error})) == [
        "── cannot start (/x)",
        "   why: no room",
        "        on the disk",
        "   try: make room",
    ]


def test_a_refused_request_names_host_and_reason() -> None:
    refused = {"allowed": False, "host": "a.example", "port": 443, "reason": "not-listed"}
    assert rendered(("egress", refused)) == ["── network: a.example refused (not-listed)"]
    told = refused | {"port": 8080, "method": "GET", "path": "/x\x1b[2J"}
    (line,) = rendered(("egress", told))
    assert line.startswith("── network: a.example:8080 GET /x") and "\x1b" not in line


def test_tokens_and_their_price_are_one_line() -> None:
    used = {"input": 10, "output": 5, "cost_usd": 0.02192}
    assert rendered(("usage", used)) == ["── tokens: 10 input, 5 output, $0.0219"]
    assert rendered(("usage", {"input": "ten", "output": None})) == []


def test_only_calls_that_were_refused_are_told_as_hooks() -> None:
    refused = {"tool": "Bash", "decision": "deny", "by": ["guard"], "reason": "it deletes all"}
    assert rendered(("hook", refused)) == ["── Bash refused by guard: it deletes all"]
    assert rendered(("hook", {"tool": "Bash", "decision": "allow", "by": []})) == []


def test_an_ask_comes_with_the_way_to_answer_it_and_then_with_the_answer() -> None:
    ask = {"id": "jkd1", "host": "a.example", "port": 443, "scheme": "tls", "method": "GET"}
    assert rendered(("ask", {**ask, "path": "/x", "outcome": "asked", "waiting": 0})) == [
        "── asks for GET https://a.example:443/x: `ags allow jkd1`, `ags deny jkd1`"
    ]
    assert rendered(("ask", {**ask, "method": "", "path": None, "outcome": "deny"})) == [
        "── https://a.example:443: denied"
    ]


def test_every_outcome_of_an_ask_has_words() -> None:
    assert set(OUTCOMES) == set(get_args(Outcome)) - {"asked"}


def test_kinds_without_a_form_of_their_own_are_one_line() -> None:
    assert rendered(("ask", {"text": "may it?"})) == ["── asks: may it?"]  # from no ags we know
    assert rendered(("from-the-future", {"a": 1})) == ["── from-the-future: a 1"]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("on", [True, False])
def test_nothing_of_an_agents_is_obeyed_by_the_terminal(kind: str, on: bool) -> None:
    names = ("text", "tool", "input", "output", "state", "stopped_by", "subject", "branch", HOSTILE)
    deep: dict[str, Any] = {name: {"a": [HOSTILE], HOSTILE: HOSTILE} for name in names}
    error = {"cause": HOSTILE, "hint": HOSTILE}
    for fields in (dict.fromkeys(names, HOSTILE), deep, {"error": error, "text": HOSTILE}):
        lines = rendered((kind, dict(fields)), on=on)
        assert all(is_harmless(line) and "\n" not in line for line in lines), lines


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["text", "tool", "input", "output", "ok", "end", "stream", "state", "exit_code", "stopped_by",
     "subject", "error", "files", "insertions", "deletions", "branch"]
)  # fmt: skip


@hypothesis.given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)) | st.text(),
                                     st.dictionaries(NAMES | st.text(), JSON))))  # fmt: skip
def test_whatever_an_event_holds_it_becomes_harmless_lines(
    told: list[tuple[str, dict[str, Any]]],
) -> None:
    for line in rendered(*told):
        assert is_harmless(line) and "\n" not in line


def test_following_ends_with_the_run_and_misses_nothing(desk: Desk) -> None:
    out = io.StringIO()
    held = create(desk.state)

    async def at_work() -> None:
        writer = Writer(held.run_dir / "events.jsonl")
        for number in range(5):
            writer.write("output", text=f"line {number}")
            await asyncio.sleep(0.03)
        writer.write("output", text="100%", end="\r")
        writer.close()
        held.close()

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(follow(held.run_dir, out), at_work()), 60)

    asyncio.run(both())
    assert out.getvalue().splitlines() == [*(f"line {number}" for number in range(5)), "100%"]
