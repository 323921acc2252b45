"""One request and its answer pass as they are, at once, and end where they end."""

from __future__ import annotations

import base64
import dataclasses

import h11
import pytest

from ags.egress.exchange import Exchange, Moved
from ags.egress.http import HeadReader, RequestHead, forwarded
from ags.egress.inject import Hidden, Placeholder, Redactor, Scanner

OWN = "q7Zt2mXw9LkRb4Vn"


def request(*lines: str, start: str = "GET / HTTP/1.1") -> bytes:
    return "\r\n".join([start, "Host: a.example", *lines, "", ""]).encode()


def head_of(data: bytes) -> RequestHead:
    found = HeadReader().feed(data)
    assert isinstance(found, RequestHead), found
    return found


def exchange(
    data: bytes, *, websocket: bool = False, secret: bytes = b"", scanner: Scanner | None = None
) -> Exchange:
    head = head_of(data)
    return Exchange(
        head,
        forwarded(head, websocket=websocket),
        scanner=scanner,
        redactor=Redactor([secret]) if secret else None,
    )


def key_scanner() -> Scanner:
    return Scanner([Placeholder("key", OWN, OWN)])


def begun(data: bytes, *, websocket: bool = False, secret: bytes = b"") -> Exchange:
    made = exchange(data, websocket=websocket, secret=secret)
    assert made.open().refused is None
    return made


def answer(*lines: str, start: str = "HTTP/1.1 200 OK", body: bytes = b"") -> bytes:
    return "\r\n".join([start, *lines, "", ""]).encode() + body


def received(data: bytes) -> tuple[h11.Request, bytes]:
    """What an origin makes of it, as its only request."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    event, body = server.next_event(), b""
    while isinstance(piece := server.next_event(), h11.Data):
        body += bytes(piece.data)
    assert isinstance(event, h11.Request) and isinstance(piece, h11.EndOfMessage), piece
    assert server.trailing_data[0] == b""
    return event, body


def test_a_request_without_a_body_is_whole_at_once() -> None:
    made = exchange(request("X-Mine: 1", start="GET /x?y HTTP/1.1"))
    event, body = received(made.open().up)
    assert (event.method, event.target, body) == (b"GET", b"/x?y", b"")
    assert (b"X-Mine", b"1") in event.headers.raw_items()


def test_a_head_that_h11_reads_otherwise_is_refused() -> None:
    head = head_of(request("X-Mine: 1"))
    for change in ({"method": "POST"}, {"target": "/y"}, {"headers": head.headers[:1]}):
        other: RequestHead = dataclasses.replace(head, **change)
        moved = Exchange(other, other.headers).open()
        assert moved.refused is not None and moved.up == b""


def test_a_body_with_a_length_ends_where_it_says() -> None:
    made = exchange(request("Content-Length: 5", start="POST / HTTP/1.1"))
    up = made.open().up + made.from_client(b"he").up + made.from_client(b"lloGET / HTTP").up
    assert received(up)[1] == b"hello"
    made.from_origin(answer("Content-Length: 0"))
    assert made.done and made.reusable
    assert made.rest == b"GET / HTTP"


def test_chunks_are_written_anew() -> None:
    made = exchange(request("Transfer-Encoding: chunked", start="POST / HTTP/1.1"))
    up = made.open().up
    for piece in (b"3;ext=\x01\r\nabc\r", b"\n2\r\nde\r\n", b"0\r\n\r\nnext"):
        up += made.from_client(piece).up
    assert b"ext" not in up
    assert received(up)[1] == b"abcde"
    made.from_origin(answer("Content-Length: 0"))
    assert made.rest == b"next"


@pytest.mark.parametrize(
    "data",
    [
        b"x\r\nabc\r\n0\r\n\r\n",
        b"-3\r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"+3\r\nabc\r\n0\r\n\r\n",
        b" 3\r\nabc\r\n0\r\n\r\n",
        b"3\nabc\n0\n\n\r\n",
        b"3;x\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\r\nabcX\n0\r\n\r\n",
        b"\r\nabc\r\n0\r\n\r\n",
        b"fffffffffffffffffffff\r\nabc",
        b"3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
        b"3\r\nabc\r\n0\r\nHost: b.example\r\n\r\n",
        b"3\r\nabc\r\n0\r\nAuthorization: x\r\n\r\n",
        b"3;" + b"x" * 200_000,
    ],
)
def test_chunks_that_two_parsers_would_cut_differently_are_refused(data: bytes) -> None:
    made = exchange(request("Transfer-Encoding: chunked", start="POST / HTTP/1.1"))
    up = made.open().up
    moved = made.from_client(data)
    assert moved.refused is not None
    assert not (up + moved.up).endswith(b"0\r\n\r\n"), "the origin must not take it for complete"
    assert made.from_client(b"more") == Moved(refused=moved.refused)


def test_harmless_trailers_pass() -> None:
    made = exchange(request("Transfer-Encoding: chunked", start="POST / HTTP/1.1"))
    made.open()
    assert made.from_client(b"0\r\nX-Sum: 1\r\n\r\n").up == b"0\r\nX-Sum: 1\r\n\r\n"


def test_a_body_that_stops_short_is_never_completed() -> None:
    made = begun(request("Content-Length: 5", start="POST / HTTP/1.1"))
    made.from_client(b"he")
    assert made.from_client(b"").refused is not None


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_events_pass_unbuffered(size: int) -> None:
    made = begun(request("Accept: text/event-stream"))
    made.from_origin(answer("Content-Type: text/event-stream"))
    event = b"data: hello\n\n"
    for _ in range(3):
        down = b"".join(
            made.from_origin(event[at : at + size]).down for at in range(0, len(event), size)
        )
        assert down.count(b"hello") == 1 or size < len(event)
        assert not made.done
    assert made.from_origin(b"").down == b"0\r\n\r\n"
    assert made.done and made.spent


def test_an_answer_until_the_end_of_the_connection_gets_chunks() -> None:
    made = begun(request())
    down = made.from_origin(answer(body=b"abc")).down
    assert b"Transfer-Encoding: chunked" in down and down.endswith(b"3\r\nabc\r\n")


def test_an_answer_cut_short_is_not_made_whole() -> None:
    made = begun(request())
    made.from_origin(answer("Content-Length: 10", body=b"abc"))
    moved = made.from_origin(b"")
    assert moved.refused is not None and not made.done
    chunked = begun(request())
    chunked.from_origin(answer("Transfer-Encoding: chunked", body=b"3\r\nabc\r\n"))
    assert chunked.from_origin(b"").refused is not None


@pytest.mark.parametrize(
    ("start", "response"),
    [
        ("HEAD / HTTP/1.1", answer("Content-Length: 500")),
        ("HEAD / HTTP/1.1", answer("Transfer-Encoding: chunked")),
        ("GET / HTTP/1.1", answer(start="HTTP/1.1 204 No Content")),
        ("GET / HTTP/1.1", answer("Content-Length: 500", start="HTTP/1.1 304 Not Modified")),
    ],
)
def test_answers_without_a_body_are_done_with_their_head(start: str, response: bytes) -> None:
    made = begun(request(start=start))
    down = made.from_origin(response).down
    assert made.done and made.reusable and down.endswith(b"\r\n\r\n")


def test_what_comes_before_the_answer_passes_too() -> None:
    made = begun(request("Expect: 100-continue", "Content-Length: 2", start="PUT / HTTP/1.1"))
    assert made.from_origin(answer(start="HTTP/1.1 100 Continue")).down.startswith(b"HTTP/1.1 100")
    assert made.from_client(b"ok").up == b"ok"
    made.from_origin(answer(start="HTTP/1.1 103 Early Hints") + answer("Content-Length: 0"))
    assert made.done and made.status == 200


def test_an_old_client_gets_the_last_answer_only() -> None:
    made = begun(request(start="GET / HTTP/1.0"))
    both = answer(start="HTTP/1.1 103 Early Hints") + answer("Content-Length: 2", body=b"ok")
    down = made.from_origin(both).down
    assert b" 103 " not in down and down.endswith(b"\r\n\r\nok")
    assert made.done and not made.reusable


def test_a_redirect_is_handed_on_and_not_followed() -> None:
    made = begun(request())
    away = answer("Location: https://b.example/", "Content-Length: 0", start="HTTP/1.1 302 Found")
    moved = made.from_origin(away)
    assert b"Location: https://b.example/" in moved.down and moved.up == b""


def test_an_answer_before_the_request_is_complete_is_told() -> None:
    made = begun(request("Content-Length: 500", start="POST / HTTP/1.1"))
    made.from_origin(answer("Content-Length: 2", start="HTTP/1.1 413 No", body=b"no"))
    assert made.answer_done and not made.done and not made.reusable


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-x\r\n\r\n",
        answer("Content-Length: 5", "Content-Length: 6", body=b"hello"),
        answer("Transfer-Encoding: gzip, chunked"),
        answer("Content-Length: x"),
        answer(start="HTTP/1.1 101 Switching Protocols"),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000,
    ],
)
def test_an_answer_that_is_not_http_is_refused(response: bytes) -> None:
    made = begun(request())
    assert made.from_origin(response).refused is not None
    assert not made.answered


def test_more_than_was_asked_for_is_not_handed_on() -> None:
    made = begun(request())
    down = made.from_origin(answer("Content-Length: 2", body=b"ok") + answer(body=b"evil")).down
    assert down.endswith(b"\r\n\r\nok")
    assert made.done and made.spent


SOCKET = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: eA==")
SWITCH = answer("Upgrade: WebSocket", "Connection: Upgrade", start="HTTP/1.1 101 Switching")


def test_a_websocket_passes_both_ways_after_the_switch() -> None:
    made = begun(request(*SOCKET), websocket=True)
    assert made.from_client(b"early").up == b""
    moved = made.from_origin(SWITCH + b"first")
    assert moved.up == b"early" and moved.down.endswith(b"\r\n\r\nfirst")
    assert made.switched and made.status == 101
    assert made.from_client(b"GET / HTTP/1.1\n").up == b"GET / HTTP/1.1\n"
    assert made.from_origin(b"\x81\x02hi").down == b"\x81\x02hi"


def test_a_websocket_that_was_not_allowed_cannot_switch() -> None:
    made = begun(request(*SOCKET))
    moved = made.from_origin(SWITCH)
    assert moved.refused is not None and moved.down == b"" and not made.switched


def test_a_switch_to_something_else_is_refused() -> None:
    made = begun(request(*SOCKET), websocket=True)
    other = answer("Upgrade: h2c", "Connection: Upgrade", start="HTTP/1.1 101 Switching")
    moved = made.from_origin(other)
    assert moved.refused is not None and moved.refused.reason == "upgrade"


def test_a_client_that_sends_ahead_without_end_is_stopped() -> None:
    made = begun(request())
    for _ in range(10):
        moved = made.from_client(b"x" * 10_000)
    assert moved.refused is not None and moved.refused.reason == "pipelined"


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("sent", [OWN.encode(), base64.b64encode(b"x:" + OWN.encode() + b"!")])
def test_a_placeholder_in_a_body_passes_unchanged_and_is_noted(size: int, sent: bytes) -> None:
    data = b"key=" + sent + b"&x=1"
    line = f"Content-Length: {len(data)}"
    scanner = key_scanner()
    made = exchange(request(line, start="POST / HTTP/1.1"), scanner=scanner)
    made.open()
    moved = [made.from_client(data[at : at + size]) for at in range(0, len(data), size)]
    assert b"".join(each.up for each in moved) == data
    assert not any(each.refused for each in moved)
    assert scanner.passed == {"key"}


def test_of_an_innocent_body_nothing_is_noted() -> None:
    scanner = key_scanner()
    made = exchange(request("Content-Length: 4", start="POST / HTTP/1.1"), scanner=scanner)
    made.open()
    assert made.from_client(b"q7Zt") == Moved(up=b"q7Zt")
    assert scanner.passed == set()


def test_a_placeholder_in_a_trailer_is_refused() -> None:
    chunked = request("Transfer-Encoding: chunked", start="POST / HTTP/1.1")
    made = exchange(chunked, scanner=key_scanner())
    made.open()
    moved = made.from_client(b"0\r\nX-Sum: " + OWN.encode() + b"\r\n\r\n")
    assert moved.refused is not None and moved.refused.reason == "placeholder"


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_an_echo_of_the_secret_is_covered_wherever_it_stands(size: int) -> None:
    made = begun(request(), secret=b"s3cr3t-value")
    data = answer(
        "Content-Length: 21",
        "X-Echo: is s3cr3t-value",
        start="HTTP/1.1 200 s3cr3t-value",
        body=b"it is s3cr3t-value ok",
    )
    down = b"".join(made.from_origin(data[at : at + size]).down for at in range(0, len(data), size))
    assert b"s3cr3t-value" not in down and down.count(b"*" * 12) == 3
    assert down.endswith(b"\r\n\r\nit is ************ ok") and made.done


def test_a_hidden_header_goes_up_as_it_is_and_is_in_no_refusal() -> None:
    head = head_of(request("X-Key: x"))
    hidden = (head.headers[0], (b"X-Key", Hidden(b"s3cr3t-value")))
    assert b"\r\nX-Key: s3cr3t-value\r\n" in Exchange(head, hidden).open().up
    broken = (head.headers[0], (b"X-Key", Hidden(b"s3cr3t-value\n")))
    moved = Exchange(head, broken).open()
    assert moved.refused is not None and "s3cr3t" not in repr(moved)


def test_a_compressed_answer_is_refused_where_a_secret_went_up() -> None:
    data = answer("Content-Encoding: gzip", "Content-Length: 1", body=b"x")
    assert begun(request()).from_origin(data).refused is None
    moved = begun(request(), secret=b"s3cr3t-value").from_origin(data)
    assert moved.refused is not None and moved.refused.reason == "encoded"
