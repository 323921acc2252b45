"""A request head has one meaning or is refused."""

from __future__ import annotations

import json

import h11
import pytest

from ags.egress.http import (
    MOST_HEAD,
    MOST_HEADERS,
    HeadReader,
    RequestHead,
    bad_gateway,
    bad_request,
    forwarded,
    is_websocket,
    misdirected,
    origin_target,
    refusal,
    request_of,
    upgrade_required,
)
from ags.egress.model import Decision, Request
from ags.egress.wire import NeedMore, Refused


def head(*lines: str, start: str = "GET /a?q=1 HTTP/1.1", host: str = "a.example") -> bytes:
    hosts = [f"Host: {host}"] if host else []
    return "\r\n".join([start, *hosts, *lines, "", ""]).encode("latin-1")


def accepted(data: bytes) -> RequestHead:
    found = HeadReader().feed(data)
    assert isinstance(found, RequestHead), found
    return found


def reason(data: bytes) -> str:
    found = HeadReader().feed(data)
    assert isinstance(found, Refused), found
    assert found.detail
    return found.reason


def test_a_plain_request_is_read() -> None:
    raw = head("X-One:  two \t", "x-one:", "Accept: */*")
    found = accepted(raw)
    assert (found.method, found.target, found.form) == ("GET", "/a?q=1", "origin")
    assert (found.host, found.port, found.path, found.query) == ("a.example", None, "/a", "?q=1")
    assert found.version == "1.1" and found.raw == raw
    assert found.headers[1:] == ((b"X-One", b"two"), (b"x-one", b""), (b"Accept", b"*/*"))
    assert found.all(b"x-one") == (b"two", b"") and found.first(b"none") is None
    assert request_of(found, 443, "tls") == Request("a.example", 443, "tls", "GET", "/a")


def test_what_follows_the_head_is_kept_apart() -> None:
    reader = HeadReader()
    assert reader.feed(head("Content-Length: 4")[:-1]) == NeedMore()
    assert isinstance(reader.feed(b"\nbody"), RequestHead)
    assert reader.rest == b"body"


@pytest.mark.parametrize(
    ("start", "host", "form", "path", "port"),
    [
        ("GET http://a.example HTTP/1.1", "a.example", "absolute", "/", None),
        ("GET http://A.example:80/x?y HTTP/1.1", "a.example", "absolute", "/x", 80),
        ("GET HTTPS://a.example/x HTTP/1.1", "a.example:443", "absolute", "/x", None),
        ("CONNECT a.example:443 HTTP/1.1", "a.example", "authority", "", 443),
        ("CONNECT a.example:443 HTTP/1.1", "a.example:443", "authority", "", 443),
        ("OPTIONS * HTTP/1.1", "a.example", "asterisk", "*", None),
        ("GET /x HTTP/1.0", "a.example.:8080", "origin", "/x", 8080),
        ("GET //b.example/x HTTP/1.1", "a.example", "origin", "//b.example/x", None),
        ("GET /a{b}|c\\d HTTP/1.1", "a.example", "origin", "/a{b}|c\\d", None),
    ],
)
def test_every_form_of_target_is_read(
    start: str, host: str, form: str, path: str, port: int | None
) -> None:
    found = accepted(head(start=start, host=host))
    assert (found.form, found.host, found.path, found.port) == (form, "a.example", path, port)


def test_addresses_are_in_their_one_spelling() -> None:
    assert accepted(head(host="[0:0::1]:8080")).host == "::1"
    assert accepted(head(host="0x7f.1")).host == "127.0.0.1"


SMUGGLING = [
    (b"GET / HTTP/1.1\nHost: a.example\r\n\r\n", "bare-lf"),
    (b"GET / HTTP/1.1\r\nHost: a.example\n\r\n", "bare-lf"),
    (b"GET / HTTP/1.1\r\nHost: a.example\r\n\n", "bare-lf"),
    (b"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n", "bare-cr"),
    (b"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\r\r\n\r\n", "bare-cr"),
    (b"GET /\rx HTTP/1.1\r\nHost: a.example\r\n\r\n", "bare-cr"),
    (head("X: a", " folded"), "obs-fold"),
    (head("X: a", "\tfolded"), "obs-fold"),
    (head("Transfer-Encoding:", " chunked"), "obs-fold"),
    (b"GET / HTTP/1.1\r\n Host: a.example\r\n\r\n", "obs-fold"),
    (head("Content-Length: 5", "Transfer-Encoding: chunked"), "length-and-chunks"),
    (head("Transfer-Encoding: chunked", "Content-Length: 0"), "length-and-chunks"),
    (head("Content-Length: 5", "Content-Length: 5"), "duplicate"),
    (head("Content-Length: 5", "content-length: 6"), "duplicate"),
    (head("Host: a.example"), "duplicate"),
    (head("HOST: b.example"), "duplicate"),
    (head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), "duplicate"),
    (head("Authorization: a", "Authorization: b"), "duplicate"),
    (head("Content-Length : 5"), "space-colon"),
    (head("Content-Length\t: 5"), "space-colon"),
    (head("Transfer-Encoding : chunked"), "space-colon"),
    (head("Transfer-Encoding: xchunked"), "transfer-encoding"),
    (head("Transfer-Encoding: chunked, identity"), "transfer-encoding"),
    (head("Transfer-Encoding: identity, chunked"), "transfer-encoding"),
    (head("Transfer-Encoding: gzip, chunked"), "transfer-encoding"),
    (head("Transfer-Encoding: chunked;q=1"), "transfer-encoding"),
    (head('Transfer-Encoding: "chunked"'), "transfer-encoding"),
    (head("Transfer-Encoding:"), "transfer-encoding"),
    (head("Transfer-Encoding: \x0bchunked"), "control"),
    (head("Transfer-Encoding: chunked\x00"), "control"),
    (head("Transfer-Encoding: chunked", start="GET / HTTP/1.0"), "transfer-encoding"),
    (head("Transfer_Encoding: chunked"), "look-alike"),
    (head("Content_Length: 3"), "look-alike"),
    (head("Content-Length: +5"), "content-length"),
    (head("Content-Length: -5"), "content-length"),
    (head("Content-Length: 0x5"), "content-length"),
    (head("Content-Length: 5, 5"), "content-length"),
    (head("Content-Length: 5 5"), "content-length"),
    (head("Content-Length: 05"), "content-length"),
    (head("Content-Length: 1_0"), "content-length"),
    (head("Content-Length: "), "content-length"),
    (head("Content-Length: \xb2"), "content-length"),
    (head("Content-Length: 9999999999999999999"), "content-length"),
    (head("X: a\x00b"), "control"),
    (head("X: a\x01b"), "control"),
    (head("X: a\x7fb"), "control"),
    (head("X\x00: a"), "control"),
    (head("no colon here"), "header"),
    (head(": empty"), "header"),
    (head("X(y): z"), "header"),
    (head("X\xe9: z"), "header"),
    (head("X y: z"), "header"),
    (head("Connection: close, Content-Length", "Content-Length: 5"), "connection"),
    (head("Connection: Host"), "connection"),
    (head("Expect: 200-maybe"), "expect"),
    (head(host=""), "host-absent"),
    (head(start="GET / HTTP/1.0", host=""), "host-absent"),
    (head(host="a.example, b.example"), "host"),
    (head(host="user@a.example"), "host"),
    (head(host="a.example/x"), "host"),
    (head(host="a..example"), "host"),
    (head(host="b\xfccher.example"), "host"),
    (head(host="a.example:"), "port"),
    (head(host="a.example:0"), "port"),
    (head(host="a.example:080"), "port"),
    (head(host="a.example:65536"), "port"),
    (head(host="a.example:80:80"), "host"),
    (head(host="::1:80"), "host"),
    (head(host="a.example:x"), "port"),
    (head(start="GET http://b.example/ HTTP/1.1"), "host-mismatch"),
    (head(start="GET http://a.example:8080/ HTTP/1.1"), "host-mismatch"),
    (head(start="GET http://a.example@b.example/ HTTP/1.1"), "host"),
    (head(start="GET http:///x HTTP/1.1"), "host"),
    (head(start="GET ftp://a.example/ HTTP/1.1"), "target"),
    (head(start="GET a.example HTTP/1.1"), "target"),
    (head(start="GET * HTTP/1.1"), "target"),
    (head(start="GET /#x HTTP/1.1"), "target"),
    (head(start="GET /\xe9 HTTP/1.1"), "target"),
    (head(start="CONNECT a.example HTTP/1.1"), "port"),
    (head(start="CONNECT b.example:443 HTTP/1.1"), "host-mismatch"),
    (head(start="CONNECT a.example:443 HTTP/1.1", host="a.example:80"), "host-mismatch"),
    (head(start="CONNECT /x HTTP/1.1"), "host"),
    (head(start="GET /"), "http-0.9"),
    (head(start="GET / HTTP/0.9"), "version"),
    (head(start="GET / HTTP/2.0"), "version"),
    (head(start="GET / HTTP/1.2"), "version"),
    (head(start="GET / http/1.1"), "version"),
    (head(start="GET / HTTP/1.1 "), "request-line"),
    (head(start="GET  / HTTP/1.1"), "request-line"),
    (head(start="GET\t/ HTTP/1.1"), "http-0.9"),
    (head(start="GET / x HTTP/1.1"), "request-line"),
    (head(start="GeT / HTTP/1.1"), "request-line"),
    (head(start="GET"), "request-line"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http-2"),
    (b"\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "not-http"),
    (b"get / HTTP/1.1\r\n", "not-http"),
    (b"\x16\x03\x01", "not-http"),
    (b"\x05\x01\x00", "not-http"),
    (b"G" + b"E" * 100_000, "too-large"),
    (head("X: " + "y" * 40_000), "too-large"),
    (head(*["X: y"] * (MOST_HEADERS + 1)), "too-large"),
    (head(*["X: " + "y" * 1000] * 80), "too-large"),
]


@pytest.mark.parametrize(("data", "expected"), SMUGGLING)
def test_what_could_be_read_in_two_ways_is_refused(data: bytes, expected: str) -> None:
    assert reason(data) == expected


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5",),
        ("Content-Length: 0",),
        ("Transfer-Encoding: chunked",),
        ("transfer-encoding: Chunked",),
        ("Expect: 100-Continue", "Content-Length: 5"),
        ("Connection: keep-alive, X-Mine",),
        ("X: caf\xe9\ttab",),
        ("Cookie: a=1", "Cookie: b=2"),
        ("X_Mine: 1",),
    ],
)
def test_the_honest_twins_are_taken_by_us_and_by_h11_alike(lines: tuple[str, ...]) -> None:
    found = accepted(head(*lines, start="POST /x HTTP/1.1"))
    server = h11.Connection(h11.SERVER)
    server.receive_data(found.raw)
    event = server.next_event()
    assert isinstance(event, h11.Request)
    assert (event.method, event.target) == (b"POST", b"/x")
    assert [name for name, _ in event.headers.raw_items()] == [name for name, _ in found.headers]


def test_an_endless_head_is_bounded() -> None:
    reader = HeadReader()
    fed = 0
    while isinstance(reader.feed(b"GET / HTTP/1.1\r\n" if not fed else b"X: y\r\n"), NeedMore):
        fed += 1
    assert fed <= MOST_HEADERS + 1 and fed * 6 < MOST_HEAD


def test_a_request_belongs_to_its_connection() -> None:
    inner = accepted(head(host="A.example"))
    assert misdirected(inner, "a.example", 443, "tls") is None
    assert misdirected(accepted(head(host="a.example:443")), "a.example", 443, "tls") is None


@pytest.mark.parametrize(
    ("start", "host"),
    [
        ("GET / HTTP/1.1", "b.example"),
        ("GET / HTTP/1.1", "a.example:8443"),
        ("GET / HTTP/1.1", "a.example.b.example"),
        ("GET http://a.example/ HTTP/1.1", "a.example"),
        ("GET https://b.example/ HTTP/1.1", "b.example"),
        ("CONNECT a.example:443 HTTP/1.1", "a.example"),
    ],
)
def test_a_request_for_elsewhere_is_refused(start: str, host: str) -> None:
    assert misdirected(accepted(head(start=start, host=host)), "a.example", 443, "tls")


def test_an_origin_never_gets_the_absolute_form_nor_what_was_for_the_proxy() -> None:
    found = accepted(
        head(
            "Proxy-Connection: keep-alive",
            "Proxy-Authorization: Basic eA==",
            start="GET http://A.EXAMPLE.:8080/x?y=1 HTTP/1.1",
            host="a.example:8080",
        )
    )
    assert origin_target(found) == "/x?y=1"
    assert forwarded(found, websocket=False) == ((b"Host", b"a.example:8080"),)


def test_the_host_goes_up_as_it_was_judged() -> None:
    host = forwarded(accepted(head(host="A.Example.:80")), websocket=False)
    assert host == ((b"Host", b"a.example:80"),)
    literal = forwarded(accepted(head(host="[0::1]:80")), websocket=False)
    assert literal == ((b"Host", b"[::1]:80"),)


SOCKET = ("Upgrade: WebSocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Key: eA==")


def test_a_websocket_is_known_and_passes_only_where_allowed() -> None:
    found = accepted(head(*SOCKET))
    assert is_websocket(found)
    assert forwarded(found, websocket=True) == found.headers
    names = dict(forwarded(found, websocket=False))
    assert b"Upgrade" not in names and names[b"Connection"] == b"keep-alive"


@pytest.mark.parametrize(
    ("start", "lines"),
    [
        ("GET / HTTP/1.1", ("Upgrade: h2c", *SOCKET[1:])),
        ("GET / HTTP/1.1", ("Upgrade: websocket, h2c", *SOCKET[1:])),
        ("POST / HTTP/1.1", SOCKET),
        ("GET / HTTP/1.0", SOCKET),
        ("GET / HTTP/1.1", (SOCKET[0], SOCKET[2])),
        ("GET / HTTP/1.1", SOCKET[:2]),
        ("GET / HTTP/1.1", (*SOCKET, "Content-Length: 5")),
    ],
)
def test_any_other_upgrade_is_left_out_even_where_websockets_are_allowed(
    start: str, lines: tuple[str, ...]
) -> None:
    found = accepted(head(*lines, "HTTP2-Settings: AAMAAABk", start=start))
    assert not is_websocket(found)
    names = {name.lower() for name, _ in forwarded(found, websocket=True)}
    assert not names & {b"upgrade", b"http2-settings"}


def parsed(data: bytes, method: str = "GET") -> tuple[h11.Response, bytes]:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    response, body = client.next_event(), b""
    while isinstance(event := client.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(response, h11.Response) and isinstance(event, h11.EndOfMessage)
    assert client.their_state is h11.MUST_CLOSE or client.their_state is h11.CLOSED
    assert client.trailing_data[0] == b""
    return response, body


NO = Decision(False, "not-listed", "", "")
HINT = "The person can run: ags policy add a.example"


def test_a_refusal_says_who_why_and_what_to_do() -> None:
    wanted = Request("a.example", 443, "tls", "GET", "/x")
    response, body = parsed(refusal(wanted, NO, HINT))
    assert response.status_code == 403
    error = json.loads(body)["error"]
    assert "ags" in error["refused_by"] and error["reason"] == "not-listed"
    assert "GET https://a.example:443/x" in error["message"] and HINT in error["message"]


def test_a_refusal_names_the_rule_that_spoke() -> None:
    decision = Decision(False, "denied", "*.example", "user")
    _, body = parsed(refusal(Request("a.example", 80, "http"), decision, HINT, text=True))
    assert b"rule '*.example' of user" in body and b"http://a.example:80" in body


def test_a_refusal_repeats_no_control_bytes() -> None:
    wanted = Request("a.example", 80, "http", "GET", "/\x1b[2J\r\nX: y" + "z" * 5000)
    for text in (True, False):
        _, body = parsed(refusal(wanted, NO, HINT, text=text))
        assert b"\x1b" not in body and len(body) < 2500


def test_a_refusal_of_a_head_request_has_no_body() -> None:
    _, body = parsed(refusal(Request("a.example", 80, "http", "HEAD", "/"), NO, HINT), "HEAD")
    assert body == b""


def test_the_other_answers_are_whole_responses() -> None:
    response, body = parsed(bad_request(Refused("bare-lf", "a line ends oddly")))
    assert response.status_code == 400 and b"bare-lf" in body
    response, body = parsed(bad_gateway("a.example did not answer"))
    assert response.status_code == 502 and b"did not answer" in body
    response, _ = parsed(upgrade_required())
    assert response.status_code == 426 and dict(response.headers)[b"upgrade"] == b"HTTP/1.1"
