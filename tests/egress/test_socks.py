"""The proxy's own port: what a client wants, or an answer that turns it away."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from ags.egress.http import RequestHead
from ags.egress.socks import (
    ESTABLISHED,
    NO_ADDRESS,
    NO_COMMAND,
    NOT_ALLOWED,
    Connect,
    Forward,
    ProxyReader,
    Say,
    Step,
    Turned,
    socks_reply,
)
from ags.egress.wire import NeedMore

GREETING = b"\x05\x01\x00"


def named(name: bytes, port: int = 443) -> bytes:
    return b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2)


def literal(address: str, port: int = 443) -> bytes:
    packed = ipaddress.ip_address(address).packed
    kind = b"\x01" if len(packed) == 4 else b"\x04"
    return b"\x05\x01\x00" + kind + packed + port.to_bytes(2)


def asked(request: bytes) -> Step:
    reader = ProxyReader()
    assert reader.feed(GREETING) == Say(b"\x05\x00")
    return reader.feed(request)


def turned(step: Step) -> Turned:
    assert isinstance(step, Turned), step
    assert step.refused.detail
    return step


@pytest.mark.parametrize(
    ("request_", "host"),
    [
        (named(b"API.example."), "api.example"),
        (named(b"10.0.0.5"), "10.0.0.5"),
        (named(b"0x7f.1"), "127.0.0.1"),
        (literal("198.18.0.7"), "198.18.0.7"),
        (literal("2001:db8::1"), "2001:db8::1"),
        (literal("::ffff:10.0.0.5"), "10.0.0.5"),
    ],
)
def test_socks_names_and_addresses_are_in_their_one_spelling(request_: bytes, host: str) -> None:
    assert asked(request_) == Connect(host, 443, "socks")


def test_greeting_and_request_may_come_together() -> None:
    reader = ProxyReader()
    assert reader.feed(GREETING + named(b"a.example") + b"\x16\x03") == Say(b"\x05\x00")
    assert reader.feed(b"") == Connect("a.example", 443, "socks")
    assert reader.rest == b"\x16\x03"


def test_greeting_and_request_may_come_byte_by_byte() -> None:
    reader = ProxyReader()
    data = b"\x05\x03\x02\x01\x00" + named(b"a.example")
    steps = [reader.feed(data[at : at + 1]) for at in range(len(data))]
    assert [step for step in steps if step != NeedMore()] == [
        Say(b"\x05\x00"),
        Connect("a.example", 443, "socks"),
    ]


@pytest.mark.parametrize(
    ("request_", "reason", "code"),
    [
        (b"\x05\x02\x00\x01\x0a\0\0\x05\x01\xbb", "socks-command", NO_COMMAND),
        (b"\x05\x03\x00\x01\x0a\0\0\x05\x01\xbb", "socks-command", NO_COMMAND),
        (b"\x05\x01\x00\x02\x0a\0\0\x05\x01\xbb", "socks-address", NO_ADDRESS),
        (b"\x05\x01\x01\x01\x0a\0\0\x05\x01\xbb", "socks", 1),
        (b"\x04\x01\x00\x01\x0a\0\0\x05\x01\xbb", "socks", 1),
        (named(b"a.example", 0), "port", NOT_ALLOWED),
        (named(b""), "host", NOT_ALLOWED),
        (named(b"a\0.example"), "host", NOT_ALLOWED),
        (named(b"a.example\r\nX: y"), "host", NOT_ALLOWED),
        (named("bücher.example".encode()), "host", NOT_ALLOWED),
        (named(b"user@a.example"), "host", NOT_ALLOWED),
        (named(b"a.example:443"), "host", NOT_ALLOWED),
        (named(b"x" * 255), "host", NOT_ALLOWED),
    ],
)
def test_other_socks_requests_are_turned_away(request_: bytes, reason: str, code: int) -> None:
    found = turned(asked(request_))
    assert found.refused.reason == reason and found.answer == socks_reply(code)


def test_socks_with_a_password_is_turned_away() -> None:
    found = turned(ProxyReader().feed(b"\x05\x01\x02"))
    assert found.answer == b"\x05\xff"


def test_socks4_is_turned_away() -> None:
    assert turned(ProxyReader().feed(b"\x04\x01\x01\xbb\x0a\0\0\x05\0")).refused.reason


def test_a_tunnel_by_http_keeps_what_follows() -> None:
    reader = ProxyReader()
    data = b"CONNECT A.example:443 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n\x16\x03"
    assert reader.feed(data[:20]) == NeedMore()
    assert reader.feed(data[20:]) == Connect("a.example", 443, "http")
    assert reader.rest == b"\x16\x03"
    reader.feed(b"\x01")
    assert reader.rest == b"\x16\x03\x01"


def test_a_plain_request_in_the_absolute_form_is_forwarded() -> None:
    reader = ProxyReader()
    step = reader.feed(b"GET http://a.example:8080/x HTTP/1.1\r\nHost: a.example:8080\r\n\r\nbody")
    assert isinstance(step, Forward) and isinstance(step.head, RequestHead)
    assert (step.head.host, step.port, step.head.path) == ("a.example", 8080, "/x")
    assert reader.rest == b"body"
    plain = ProxyReader().feed(b"GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n")
    assert isinstance(plain, Forward) and plain.port == 80


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "not-proxied"),
        (b"GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "scheme"),
        (b"GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "host-mismatch"),
        (b"CONNECT a.example:0 HTTP/1.1\r\nHost: a.example\r\n\r\n", "port"),
        (b"CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n", "port"),
        (b"CONNECT u@a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", "host"),
        (
            b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n",
            "connect-body",
        ),
        (b"CONNECT a.example:443 HTTP/1.1\nHost: a.example\n\n", "bare-lf"),
        (b"\x16\x03\x01\x02\x00", "not-http"),
    ],
)
def test_other_http_requests_are_turned_away_with_an_answer(data: bytes, reason: str) -> None:
    found = turned(ProxyReader().feed(data))
    assert found.refused.reason == reason
    assert found.answer.startswith(b"HTTP/1.1 400 ") and reason.encode() in found.answer


def test_nothing_is_held_once_turned_away() -> None:
    reader = ProxyReader()
    first = reader.feed(b"\0")
    assert all(reader.feed(b"x" * 1000) == first for _ in range(100)) and reader.rest == b""


def test_replies_are_what_clients_wait_for() -> None:
    reply = socks_reply(0)
    assert reply[:2] == b"\x05\0" and socket.inet_ntoa(reply[4:8]) == "0.0.0.0"
    assert len(reply) == 10
    assert ESTABLISHED.endswith(b"\r\n\r\n") and b" 200 " in ESTABLISHED
