"""What is shown: widths, colours, times, JSON."""

from __future__ import annotations

import io
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from ags.paint import (
    Paint,
    as_json,
    cells,
    columns,
    cut,
    exact_time,
    first_line,
    paint_for,
    short_time,
)
from tests.cli.desk import is_harmless


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢字", 4, "漢字"), ("漢字x", 4, "漢…"), ("x", 0, "")],
)
def test_a_text_is_cut_by_what_it_takes_on_the_screen(text: str, room: int, shown: str) -> None:
    assert cut(text, room) == shown


@hypothesis.given(st.text(), st.integers(1, 50))
def test_of_any_text_one_harmless_line_is_left_that_fits(text: str, room: int) -> None:
    line = first_line(text, room)
    assert cells(line) <= room and is_harmless(line) and "\n" not in line
    assert len(line) <= 4 * room + 1


@hypothesis.given(st.recursive(st.text() | st.integers(), lambda x: st.lists(x) | st.tuples(x)))
def test_json_is_ascii_and_holds_no_half_character(value: object) -> None:
    text = as_json({"value": value})
    assert text.isascii() and is_harmless(text)
    json.dumps(json.loads(text), ensure_ascii=False).encode()


def test_bytes_that_are_no_text_become_visible_in_json() -> None:
    assert json.loads(as_json(["a\udcff"])) == ["a\\xff"]


def test_colours_as_asked_for() -> None:
    file = io.StringIO()
    assert paint_for(file, {}) == Paint(False)
    assert paint_for(file, {}, "always")("x", "red", "bold") == "\x1b[31;1mx\x1b[0m"
    assert paint_for(file, {}, "never")("x", "red") == "x"
    assert Paint(True)("") == "" and Paint(True)("x") == "x"


@pytest.mark.parametrize(
    ("given", "expected"), [("77", 77), ("0", 200), ("wide", 200), ("", 200), ("-3", 200)]
)
def test_a_width_that_is_given_counts_if_it_is_one(given: str, expected: int) -> None:
    assert columns(io.StringIO(), {"COLUMNS": given}) == expected


def test_times_are_short_or_exact() -> None:
    assert [short_time(t) for t in (0, 59.9, 60, 7200, 200_000)] == ["0s", "59s", "1m", "2h", "2d"]
    assert [exact_time(t) for t in (0.24, 5, 3723)] == ["0.2 s", "5 s", "1 h 2 min 3 s"]
