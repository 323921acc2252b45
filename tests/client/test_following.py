"""A run's events, each once, whatever becomes of the connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ags.client import Broken, Client, Refused, following
from ags.errors import AgsError, Missing
from tests.client.scripted import (
    END,
    TOKEN,
    Answers,
    Scripted,
    problem,
    reply,
    scripted,
    sent,
    stream,
)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FIRST_PAUSE", 0.001)


def seqs(server: Scripted, after: int = 0) -> list[int]:
    events = Client(server.url, TOKEN).events("fix-login", after, patience=60)
    return [event["seq"] for event in events]


def last_ids(server: Scripted) -> list[str | None]:
    return [each.headers.get("last-event-id") for each in server.asked]


def test_events_come_until_the_run_has_ended() -> None:
    with scripted(stream(b"retry: 1000\n\n", sent(1), b": beat\n\n", sent(2), END)) as server:
        assert seqs(server) == [1, 2]
    request = server.asked[0]
    assert request.target == "/api/v1/runs/fix-login/stream"
    assert request.headers["accept"] == "text/event-stream"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


def test_what_came_before_is_not_asked_for() -> None:
    with scripted(stream(sent(8), END)) as server:
        assert seqs(server, after=7) == [8]
    assert last_ids(server) == ["7"]


def test_cut_in_the_middle_of_an_event_it_goes_on_with_that_event() -> None:
    whole = sent(2, text="x" * 100)
    with scripted(stream(sent(1), whole[:40]), stream(whole[40:]), stream(whole, END)) as server:
        assert seqs(server) == [1, 2]
    assert last_ids(server) == [None, "1", "1"]


def test_cut_anywhere_nothing_is_lost_and_nothing_comes_twice() -> None:
    whole = b"".join(sent(seq) for seq in range(1, 4)) + END
    for cut in range(0, len(whole), 7):
        done = whole[:cut].count(b"\n\n")
        rest = b"".join(sent(seq) for seq in range(done + 1, 4)) + END
        with scripted(stream(whole[:cut]), stream(rest)) as server:
            assert seqs(server) == [1, 2, 3], cut


def test_a_server_that_begins_anew_does_not_repeat_itself_here() -> None:
    with scripted(stream(sent(1), sent(2)), stream(sent(1), sent(2), sent(3), END)) as server:
        assert seqs(server) == [1, 2, 3]


def test_chunks_that_break_off_are_gone_on_from() -> None:
    def chunked(*parts: bytes) -> bytes:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked"
        return head + b"\r\n\r\n" + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts)

    broken = chunked(sent(1), sent(2))[:-10]
    with scripted(broken, chunked(sent(2), END)) as server:
        assert seqs(server) == [1, 2]


def test_a_server_that_is_just_being_started_anew_is_waited_for() -> None:
    answers: list[Answers | bytes] = [
        stream(sent(1)),
        b"",
        problem(503, title="Cannot follow"),
        reply(b"<html>", 502, "text/html"),
        stream(sent(2), END),
    ]
    with scripted(*answers) as server:
        assert seqs(server) == [1, 2]
    assert last_ids(server) == [None, "1", "1", "1", "1"]


def test_nobody_is_waited_for_without_end() -> None:
    with scripted(stream(sent(1)), last=False) as server:
        events = Client(server.url, TOKEN).events("fix-login", patience=0.2)
        assert next(events)["seq"] == 1
        with pytest.raises(Broken):
            next(events)


def test_a_stream_that_always_ends_at_once_is_given_up() -> None:
    with scripted(stream(), last=True) as server, pytest.raises(Broken, match="ends at once"):
        list(Client(server.url, TOKEN).events("fix-login", patience=0.2))


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422])
def test_a_refusal_is_not_waited_out(status: int) -> None:
    answers = (stream(sent(1)), problem(status, title="Cannot follow"))
    with scripted(*answers) as server, pytest.raises(AgsError, match="cannot follow"):
        seqs(server)
    assert len(server.asked) == 2


def test_a_run_that_is_removed_meanwhile_is_missing() -> None:
    gone = stream(sent(1), b"event: gone\ndata: {}\n\n")
    with scripted(gone) as server, pytest.raises(Missing, match="it was removed"):
        seqs(server)


@pytest.mark.parametrize(
    "event",
    [
        b"id: 1\ndata: nonsense\n\n",
        b"id: 1\ndata: []\n\n",
        b'id: 1\ndata: {"seq": "1", "ts": 1, "kind": "x"}\n\n',
        b"id: 1\ndata: " + b"[" * 100_000 + b"\n\n",
    ],
)
def test_what_is_no_event_is_an_error(event: bytes) -> None:
    with scripted(stream(event)) as server, pytest.raises(AgsError, match="no event"):
        seqs(server)


def test_an_event_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MOST", 1 << 20)

    def flood(connection: socket.socket) -> None:
        connection.sendall(stream(b"data: "))
        while True:
            connection.sendall(b"x" * 65536)

    with scripted(flood) as server, pytest.raises(Refused, match="larger than"):
        seqs(server)


def test_a_stream_of_another_kind_is_refused() -> None:
    with scripted(reply({})) as server, pytest.raises(Refused, match="not events"):
        seqs(server)


def test_the_board_tells_what_changes_and_goes_on_where_it_was() -> None:
    def told(*pairs: tuple[str, str, str]) -> Iterator[bytes]:
        return (f"id: {i}\nevent: {e}\ndata: {d}\n\n".encode() for i, e, d in pairs)

    first = stream(*told(("l.0", "snapshot", '{"runs": []}'), ("l.1", "run", '{"id": "a"}')))
    second = stream(*told(("l.2", "gone", '{"id": "a"}')))
    with scripted(first, second) as server:
        board = Client(server.url, TOKEN).board(patience=60)
        found = [next(board) for _ in range(3)]
        del board
    assert [each["event"] for each in found] == ["snapshot", "run", "gone"]
    assert found[2]["data"] == {"id": "a"}
    assert [each.target for each in server.asked] == ["/api/v1/stream"] * 2
    assert last_ids(server) == [None, "l.1"]
