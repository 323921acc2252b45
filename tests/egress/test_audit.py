"""The log of decisions: nothing in it can be changed, added, moved or cut off unnoticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.egress import audit
from ags.egress.audit import MAX_LINE, START, Chain, Line, Verdict, line_of, path_class, verify
from ags.egress.model import Decision, Request

REQUEST = Request("api.example", 443, "tls", "POST", "/v1/messages")
ALLOWED = Decision(True, "allowed", "api.example", "user")


def line(number: int = 0) -> Line:
    done = line_of(1700000000.1234 + number, REQUEST, ALLOWED)
    return replace(done, address="192.0.2.7", sent=number, received=2, seconds=0.5)


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, Chain]:
    """Five lines."""
    chain, file = Chain(), tmp_path / "egress.jsonl"
    file.write_bytes(b"".join(chain.append(line(number)) for number in range(5)))
    return file, chain


def test_a_line_says_what_was_decided_and_what_became_of_it() -> None:
    record = json.loads(Chain().append(line()))
    assert record.pop("hash")
    assert record == {
        "seq": 1,
        "time": 1700000000.123,
        "host": "api.example",
        "port": 443,
        "scheme": "tls",
        "method": "POST",
        "path": "/v1/messages",
        "allowed": True,
        "reason": "allowed",
        "rule": "api.example",
        "layer": "user",
        "address": "192.0.2.7",
        "sent": 0,
        "received": 2,
        "seconds": 0.5,
        "prev": START,
    }


def test_a_log_as_it_was_written_is_whole(log: tuple[Path, Chain]) -> None:
    file, chain = log
    assert verify(file, chain.count, chain.last) == Verdict(True, 5)


def test_a_log_goes_on_where_it_was_left(log: tuple[Path, Chain]) -> None:
    file, chain = log
    resumed = Chain(chain.count, chain.last, file.stat().st_size)
    with file.open("ab") as stream:
        stream.write(resumed.append(line(5)))
    assert verify(file, resumed.count, resumed.last) == Verdict(True, 6)


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("change", ["edit", "remove", "repeat", "blank", "hash", "space"])
def test_the_first_line_that_is_not_as_written_is_named(
    log: tuple[Path, Chain], number: int, change: str
) -> None:
    file, chain = log
    lines = file.read_bytes().splitlines(keepends=True)
    target = lines[number - 1]
    lines[number - 1 : number] = {
        "edit": [target.replace(b"true", b"null")],
        "remove": [],
        "repeat": [target, target],
        "blank": [b"\n", target],
        "hash": [target[:-4] + (b"1" if target[-4:-3] == b"0" else b"0") + target[-3:]],
        "space": [target.replace(b',"host"', b', "host"')],
    }[change]
    file.write_bytes(b"".join(lines))
    verdict = verify(file, chain.count, chain.last)
    assert not verdict.whole
    assert verdict.bad == (number + 1 if change == "repeat" else number)
    assert verdict.lines == verdict.bad - 1


def test_lines_that_changed_places_are_noticed(log: tuple[Path, Chain]) -> None:
    file, chain = log
    first, second, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([second, first, *rest]))
    assert verify(file, chain.count, chain.last).bad == 1


@pytest.mark.parametrize("kept", range(5))
def test_a_cut_tail_is_noticed(log: tuple[Path, Chain], kept: int) -> None:
    file, chain = log
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:kept]))
    cause = f"the tail is cut: {kept} of 5 lines"
    assert verify(file, chain.count, chain.last) == Verdict(False, kept, kept + 1, cause)


@pytest.mark.parametrize("missing", [1, 2, 70, 200])
def test_half_a_last_line_is_noticed(log: tuple[Path, Chain], missing: int) -> None:
    file, chain = log
    file.write_bytes(file.read_bytes()[:-missing])
    assert verify(file, chain.count, chain.last).bad == 5


def test_a_tail_made_anew_is_noticed_by_the_record(log: tuple[Path, Chain]) -> None:
    file, chain = log
    forged = Chain()
    other = replace(line(), host="harmless.example")
    file.write_bytes(b"".join(forged.append(other) for _ in range(5)))
    verdict = verify(file, chain.count, chain.last)
    assert (verdict.whole, verdict.bad) == (False, 5)
    assert verify(file, forged.count, forged.last).whole


def test_added_lines_are_noticed_unless_the_log_is_still_written(log: tuple[Path, Chain]) -> None:
    file, chain = log
    count, last = chain.count, chain.last
    with file.open("ab") as stream:
        stream.write(chain.append(line(5)) + chain.append(line(6))[:-20])
    assert verify(file, count, last).bad == 6
    assert verify(file, count, last, growing=True) == Verdict(True, 6)


def test_a_growing_log_is_still_judged(log: tuple[Path, Chain]) -> None:
    file, chain = log
    file.write_bytes(file.read_bytes() + b'{"seq":6}\n')
    assert verify(file, chain.count, chain.last, growing=True).bad == 6


def test_a_log_that_is_gone_is_noticed_unless_nothing_was_written(tmp_path: Path) -> None:
    assert verify(tmp_path / "none", 0, START) == Verdict(True, 0)
    assert verify(tmp_path / "none", 3, "a" * 64).bad == 1
    assert not verify(tmp_path, 3, "a" * 64).whole
    (tmp_path / "empty").touch()
    assert verify(tmp_path / "empty", 0, START).whole
    assert not verify(tmp_path / "empty", 0, "a" * 64).whole


def test_a_full_log_counts_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_LOG", 3 * MAX_LINE)
    chain = Chain()
    written = b"".join(chain.append(line(number)) for number in range(100))
    assert len(written) < 3 * MAX_LINE
    assert chain.dropped == 100 - chain.count
    assert json.loads(chain.close())["dropped"] == chain.dropped
    assert Chain().close() == b""


@given(st.text(max_size=2000), st.text(max_size=2000), st.floats(), st.integers(0, 1 << 64))
def test_whatever_is_in_it_a_line_is_one_short_line_of_ascii(
    host: str, rule: str, time: float, sent: int
) -> None:
    written = Chain().append(
        Line(time, host, 1, host, host, host, False, rule, rule, rule, host, sent)
    )
    assert len(written) < MAX_LINE
    assert written.count(b"\n") == 1
    assert written.isascii()
    assert audit._checked(written, 1, START) is not None


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/", "/"),
        ("/v1/messages", "/v1/messages"),
        ("/v1/messages?key=secret", "/v1/messages"),
        ("/v1/messages#secret", "/v1/messages"),
        ("/repos/ada/engine-2/issues/7", "/repos/ada/*/..."),
        ("/backend-api/codex/responses", "/backend-api/codex/responses"),
        ("/bot12345:AAbbCC/send", "/*/send"),
        ("/a/sk-ant-api03-abcdef0123456789", "/a/*"),
        ("/" + "x" * 500, "/*"),
        ("/%73ecret", "/*"),
        ("*", "/"),
    ],
)
def test_of_a_path_only_its_class_is_kept(path: str, kept: str) -> None:
    assert path_class(path) == kept
    request = replace(REQUEST, path=path)
    assert line_of(0, request, ALLOWED).path == kept
