"""An event and its line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ags.events import LINE, Event
from ags.events.event import encode, parse

plain = st.characters(codec="utf-8")
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(plain),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(plain), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(["text", "stream", "tool", "input", "a", "b"])


@given(st.dictionaries(names, values))
def test_an_event_reads_back_as_it_was(fields: dict[str, Any]) -> None:
    floats = json.loads(json.dumps(fields))
    assert parse(encode(7, 12.5, "output", fields)) == Event(7, 12.5, "output", floats)


@given(st.dictionaries(names, st.text(st.characters(max_codepoint=0x9F)) | st.text()))
def test_a_line_is_one_line_of_text_without_control_characters(fields: dict[str, str]) -> None:
    line = encode(1, 1.0, "output", fields)
    text = line.decode()  # raises if it is not UTF-8
    assert text.endswith("\n")
    assert not [c for c in text[:-1] if ord(c) < 0x20 or 0x80 <= ord(c) < 0xA0]


def test_half_a_surrogate_pair_becomes_visible_text() -> None:
    event = parse(encode(1, 1.0, "output", {"text": "a\udc80b"}))
    assert event is not None and event.fields["text"] == "a\\udc80b"


def test_fields_cannot_pose_as_the_head() -> None:
    line = encode(5, 1.0, "output", {"seq": 99, "kind": "status", "ts": 0})
    assert parse(line) == Event(5, 1.0, "output", {})
    assert line.count(b'"seq"') == 1


@pytest.mark.parametrize(
    "text", ["x" * 200_000, "\x00" * 200_000, "é" * 70_000, "😀" * 30_000, "a\n" * 40_000]
)
def test_an_over_long_event_is_cut_and_says_by_how_much(text: str) -> None:
    line = encode(1, 1.0, "output", {"text": text, "stream": "stdout"})
    event = parse(line)
    assert LINE - 16 <= len(line) <= LINE
    assert event is not None and event.fields["stream"] == "stdout"
    kept = event.fields["text"]
    assert text.startswith(kept) and event.fields["cut"] == {"text": len(text) - len(kept)}


def test_of_several_long_fields_the_largest_is_cut_first() -> None:
    fields = {"a": "a" * 50_000, "b": "b" * 60_000, "c": {"deep": ["c" * 40_000]}}
    line = encode(1, 1.0, "tool_call", fields)
    event = parse(line)
    assert event is not None and len(line) <= LINE
    assert event.fields["cut"].keys() == {"a", "b"} and event.fields["b"] == ""
    assert event.fields["c"] == fields["c"]


@settings(max_examples=40)
@given(st.dictionaries(names, st.text(max_size=10).map(lambda text: text * 20_000)))
def test_no_line_is_longer_than_the_cap(fields: dict[str, str]) -> None:
    line = encode(1, 1.0, "output", fields)
    assert len(line) <= LINE and parse(line) is not None


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}, nested(100_000)])
def test_what_json_cannot_say_is_told_and_hurts_nobody(value: object) -> None:
    event = parse(encode(1, 1.0, "usage", {"value": value}))
    assert event is not None and "Error" in event.fields["unwritable"]


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"1", b'{"seq":1}', b"\xff", b'{"seq":true,"ts":1,"kind":"output"}',
     b'{"seq":1,"ts":"x","kind":"output"}', b"[" * 100_000],
)  # fmt: skip
def test_a_damaged_line_is_no_event(line: bytes) -> None:
    assert parse(line) is None
