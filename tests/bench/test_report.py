"""What a program and a person get to read."""

from __future__ import annotations

import io
import json

from rich.console import Console

from bench.measure import Missing, Peer, Row, Series, at_most
from bench.report import HEAD, json_line, show

MEASURED = Row(
    *("start", "launch", Series((1.0, 2.0, 3.0))),
    peer=Peer("bwrap", Series((1.0,))),
    mark=at_most(3, "≤ 3 ×"),
    note="97 [steps]",
)
ABSENT = Row(
    *("start", "launch", Series((1.0, 2.0, 3.0))),
    peer=Peer("docker run", Missing("not installed")),
    mark=at_most(0.1, "≤ 1/10"),
)
ALONE = Row("verbs", "imported", Series((115,)), unit="modules")


def test_a_row_is_one_json_object_on_one_line() -> None:
    line = json_line(MEASURED)
    assert "\n" not in line
    assert json.loads(line) == {
        "bench": "start",
        "case": "launch",
        "ours": 2.0,
        "ours_spread": [1.5, 2.5],
        "peer": "bwrap",
        "peer_value": 1.0,
        "peer_spread": [1.0, 1.0],
        "unit": "ms",
        "ratio": 2.0,
        "mark": "≤ 3 ×",
        "met": True,
        "note": "97 [steps]",
    }


def test_every_row_has_the_same_keys() -> None:
    assert json.loads(json_line(ALONE)).keys() == json.loads(json_line(MEASURED)).keys()
    assert json.loads(json_line(ABSENT)).keys() == json.loads(json_line(MEASURED)).keys()


def test_a_peer_that_is_not_there_is_named_as_missing_in_json() -> None:
    told = json.loads(json_line(ABSENT))
    assert told["peer"] == "docker run"
    assert told["note"] == "missing: not installed"
    assert [told[key] for key in ("peer_value", "peer_spread", "ratio", "met")] == [None] * 4


def shown(console: Console) -> str:
    show((MEASURED, ABSENT, ALONE), console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_outside_a_terminal_the_table_is_plain_lines() -> None:
    lines = shown(Console(file=io.StringIO(), width=20)).splitlines()
    assert lines[0].split() == " ".join(HEAD).split()
    assert len(lines) == 4
    assert "docker run  missing" in lines[2]
    assert "missing: not installed" in lines[2]
    assert "unknown" in lines[2]
    assert "115 modules" in lines[3]


def test_on_a_terminal_the_table_says_the_same() -> None:
    text = shown(Console(file=io.StringIO(), force_terminal=True, width=300))
    assert "missing: not installed" in text
    assert "2.00 ×" in text
    assert "97 [steps]" in text
    assert "yes" in text
