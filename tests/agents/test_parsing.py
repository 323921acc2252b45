"""What real agents printed, as events; and whatever else could come, without an exception.

`recorded/` has what each one printed when it thought, wrote a file, ran a command, was denied one
by the hooks and had one fail; and, as `-failed`, when its model refused the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.agents import agent
from ags.agents.base import OWN, Heard
from ags.events.event import encode, parse

RECORDED = Path(__file__).parent / "recorded"
REAL = ("claude", "codex", "gemini", "opencode", "pi")
ANSWERS = 5
INPUT, OUTPUT = 1200, 34
"""Tokens that each of the model's answers claimed."""
HELLO = "/home/person/project/hello.txt"
LINES = [
    (name, line)
    for name in REAL
    for kind in ("", "-failed")
    for line in (RECORDED / f"{name}{kind}.jsonl").read_text().splitlines()
]


def heard(name: str, *, failed: bool = False) -> list[Heard]:
    text = (RECORDED / f"{name}{'-failed' if failed else ''}.jsonl").read_text()
    return [agent(name).parse(line) for line in text.splitlines()]


def told(all_heard: list[Heard], kind: str) -> list[Mapping[str, object]]:
    return [said.fields for each in all_heard for said in each.said if said.kind == kind]


def last_word(all_heard: list[Heard]) -> str | None:
    return [each.failure for each in all_heard if each.failure is not None][-1]


@pytest.mark.parametrize("name", REAL)
def test_what_it_says_is_told_once(name: str) -> None:
    assert [m["text"] for m in told(heard(name), "message")] == ["I write.", "All done."]


@pytest.mark.parametrize("name", tuple(name for name in REAL if name != "gemini"))
def test_what_it_thinks_is_told_where_it_prints_it(name: str) -> None:
    assert [t["text"] for t in told(heard(name), "thinking")] == ["Let me see."]


@pytest.mark.parametrize("name", REAL)
def test_every_call_has_its_result(name: str) -> None:
    everything = heard(name)
    calls, results = told(everything, "tool_call"), told(everything, "tool_result")
    # Codex does not print what its hooks denied.
    assert len(calls) == (3 if name == "codex" else 4)
    assert [call["id"] for call in calls] == [result["id"] for result in results]
    assert all(call["tool"] and call["input"] for call in calls)


@pytest.mark.parametrize("name", REAL)
def test_a_file_edit_says_which_file(name: str) -> None:
    files = [call.get("files") for call in told(heard(name), "tool_call")]
    assert files[0] == [HELLO] and not any(files[1:])


@pytest.mark.parametrize("name", REAL)
def test_what_a_command_printed_is_in_its_result(name: str) -> None:
    assert str(told(heard(name), "tool_result")[1]["output"]).strip() == "hi"


@pytest.mark.parametrize("name", tuple(name for name in REAL if name != "codex"))
def test_a_denied_call_failed_and_says_why(name: str) -> None:
    denied = told(heard(name), "tool_result")[2]
    assert denied["ok"] is False and "the test forbids it" in str(denied["output"])


@pytest.mark.parametrize("name", tuple(name for name in REAL if name != "gemini"))
def test_a_command_that_fails_is_a_call_that_failed(name: str) -> None:
    """Gemini calls it a success; its output has the code."""
    results = told(heard(name), "tool_result")
    assert (results[1]["ok"], results[-1]["ok"]) == (True, False)


@pytest.mark.parametrize("name", REAL)
def test_the_tokens_add_up(name: str) -> None:
    used = told(heard(name), "usage")
    # Gemini has asked its router as well.
    answers = ANSWERS + (name == "gemini")
    assert sum(each["input"] for each in used) == INPUT * answers  # type: ignore[misc]
    assert sum(each["output"] for each in used) == OUTPUT * answers  # type: ignore[misc]


@pytest.mark.parametrize("name", ("claude", "opencode", "pi"))
def test_those_that_know_the_price_tell_it(name: str) -> None:
    assert all(each["cost_usd"] > 0 for each in told(heard(name), "usage"))  # type: ignore[operator]


def test_codex_counts_the_whole_conversation_and_that_is_said() -> None:
    (used,) = told(heard("codex"), "usage")
    assert used["of_conversation"] == ["input", "output", "cached"]


def test_a_price_of_the_whole_conversation_is_told_apart() -> None:
    line = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "total_cost_usd": 0.02,
        "usage": {"input_tokens": 1200, "output_tokens": 34},
        "modelUsage": {"some-model": {"inputTokens": 2400}},
    }
    (used,) = agent("claude").parse(json.dumps(line)).said
    assert used.fields["of_conversation"] == ["cost_usd"]
    assert "of_conversation" not in told(heard("claude"), "usage")[0]


@pytest.mark.parametrize("name", REAL)
def test_the_conversation_has_an_id_to_go_on_with(name: str) -> None:
    sessions = {each.session for each in heard(name)} - {""}
    assert len(sessions) == 1


@pytest.mark.parametrize("name", REAL)
def test_it_went_well_says_the_last_word(name: str) -> None:
    assert last_word(heard(name)) == ""


@pytest.mark.parametrize("name", ("claude", "pi"))
def test_the_final_answer_is_known_where_it_is_told(name: str) -> None:
    assert [each.answer for each in heard(name) if each.answer] == ["All done."]


@pytest.mark.parametrize("name", REAL)
def test_a_model_that_refuses_is_a_failure_with_its_reason(name: str) -> None:
    """Pi ends with exit code 0 then, and Claude calls it a success."""
    everything = heard(name, failed=True)
    assert "invalid key" in str(last_word(everything))
    assert any(
        "invalid key" in str(m["text"]) for m in told(everything, "message") if m.get("error")
    )


@pytest.mark.parametrize(("name", "line"), LINES)
def test_what_agents_print_is_never_just_output(name: str, line: str) -> None:
    assert not told([agent(name).parse(line)], "output")


def test_an_answer_after_failures_is_what_counts() -> None:
    broken = '{"type":"message_end","message":{"role":"assistant","stopReason":"error"}}'
    fine = '{"type":"message_end","message":{"role":"assistant","stopReason":"stop"}}'
    assert last_word([agent("pi").parse(line) for line in (broken, fine)]) == ""
    assert last_word([agent("pi").parse(line) for line in (fine, broken)])


def test_a_retry_that_was_given_up_is_a_failure() -> None:
    line = '{"type":"auto_retry_end","success":false,"attempt":3,"finalError":"overloaded"}'
    assert agent("pi").parse(line).failure == "overloaded"


def test_files_in_a_patch_are_known() -> None:
    patch = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: b c.py\n*** End Patch"
    state = {"status": "completed", "input": {"patchText": patch}, "output": "done"}
    line = json.dumps({"type": "tool_use", "part": {"tool": "apply_patch", "state": state}})
    assert told([agent("opencode").parse(line)], "tool_call")[0]["files"] == ["a.py", "b c.py"]


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(
    "session", ["--help", "../../x", "a b", "x" * 129, "a\nb", "", 7, None, ["a"], "é"]
)
def test_an_id_that_could_be_read_as_something_else_is_none(name: str, session: object) -> None:
    keys = ("session_id", "thread_id", "sessionID", "id")
    for kind in ("system", "thread.started", "init", "step_start", "session"):
        line = json.dumps({"type": kind, **dict.fromkeys(keys, session)})
        assert agent(name).parse(line).session == ""


def check(name: str, line: str) -> Heard:
    """It is readable, ours alone to speak for, and can be written and read back."""
    found = agent(name).parse(line)
    for said in found.said:
        assert said.kind in OWN
        written = parse(encode(1, 0.0, said.kind, said.fields))
        assert written is not None and "unwritable" not in written.fields
    assert found.failure is None or isinstance(found.failure, str)
    assert isinstance(found.session, str) and isinstance(found.answer, str)
    return found


@pytest.mark.parametrize("name", REAL)
@given(line=st.text())
def test_any_text_is_read(name: str, line: str) -> None:
    check(name, line)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, '{"a":' * 100_000, "null", "1e999", '"type"', "{}", '{"type":[]}', "9" * 5000,
     '{"type":"\ud800"}', '{"type":{}}', "\x00", "\x1b[2J", "{" + "x" * 1_000_000],
)  # fmt: skip
def test_hostile_lines_are_read(name: str, line: str) -> None:
    check(name, line)


def test_infinite_and_missing_numbers_count_nothing() -> None:
    for number in ("1e999", "NaN", "-Infinity", "-5", "true", '"7"', "9" * 400):
        usage = '{"input_tokens":%s,"output_tokens":%s}' % (number, number)  # noqa: UP031
        line = f'{{"type":"turn.completed","usage":{usage}}}'
        assert check("codex", line).said == ()


def places(value: Any) -> list[tuple[Any, Any]]:
    """Where in a JSON value something else could be put."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            found += [(value, key), *places(each)]
    return found


MORE_KEYS = ("error", "finalError", "query", "server", "tool", "arguments", "notebook_path")
SEEN_KEYS = {key for _, line in LINES for _, key in places(json.loads(line))}
KEYS = sorted({*MORE_KEYS, *(key for key in SEEN_KEYS if isinstance(key, str))})
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
TYPES = st.sampled_from(sorted({
    "mcp_tool_call", "web_search", "extension_error", "auto_retry_end", "reasoning", "api_retry",
    *(str(json.loads(line)["type"]) for _, line in LINES),
}))  # fmt: skip


def values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    return st.recursive(
        SCALARS | TYPES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
        max_leaves=12,
    )


@pytest.mark.parametrize("name", REAL)
@given(kind=TYPES, rest=st.dictionaries(st.sampled_from(KEYS), values(st.sampled_from(KEYS))))
def test_any_object_with_known_names_is_read(name: str, kind: str, rest: dict[str, object]) -> None:
    check(name, json.dumps({**rest, "type": kind}))


@given(data=st.data(), recorded=st.sampled_from(LINES))
def test_real_lines_with_anything_in_the_place_of_any_value_are_read(
    data: st.DataObject, recorded: tuple[str, str]
) -> None:
    name, line = recorded
    whole = json.loads(line)
    spots = list(places(whole))
    holder, key = data.draw(st.sampled_from(spots))
    holder[key] = data.draw(values(st.text(max_size=5)))
    check(name, json.dumps(whole))


@given(recorded=st.sampled_from(LINES), share=st.floats(0, 1))
def test_a_line_that_was_cut_off_is_output(recorded: tuple[str, str], share: float) -> None:
    name, line = recorded
    cut = line[: int(share * (len(line) - 1))]
    (said,) = check(name, cut).said
    assert (said.kind, said.fields["text"]) == ("output", cut)


def test_a_number_without_end_in_a_tools_input_does_not_spoil_the_event() -> None:
    part = '{"type":"tool_use","id":"a","name":"Read","input":{"offset":1e999,"path":"x"}}'
    (said,) = check("claude", f'{{"type":"assistant","message":{{"content":[{part}]}}}}').said
    assert said.fields["input"] == {"offset": None, "path": "x"}


@pytest.mark.parametrize("name", ("claude", "gemini", "opencode", "pi"))
def test_why_it_failed_is_told_once(name: str) -> None:
    """Codex says it anew with each try."""
    everything = heard(name, failed=True)
    texts = [str(m["text"]) for m in told(everything, "message")]
    assert [text for text in texts if "invalid key" in text] == [last_word(everything)]
