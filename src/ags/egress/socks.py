"""The proxy's own port, for programs that were told about it by hand: SOCKS5 and HTTP.

Bytes in, steps out; no sockets. Which of the two a client speaks shows in its first byte. SOCKS is
without authentication and only for CONNECT: nothing binds, and UDP goes nowhere.
"""

from __future__ import annotations

import ipaddress
from typing import Literal

from ags.egress.hosts import BadHost, canonical_host
from ags.egress.http import HeadReader, RequestHead, bad_request
from ags.egress.wire import NeedMore, Refused
from ags.frozen import frozen

_VERSION = 5
_NO_AUTHENTICATION, _NOT_ACCEPTABLE = 0, 0xFF
_CONNECT = 1
_V4, _NAME, _V6 = 1, 3, 4

FAILED, NOT_ALLOWED, NO_COMMAND, NO_ADDRESS = 1, 2, 7, 8

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@frozen
class Say:
    """Send this to the client, then feed on, with empty data if nothing came."""

    data: bytes


@frozen
class Connect:
    """A tunnel is wanted. What it carries is judged when it comes."""

    host: str
    """Canonical. A name that the client asked our DNS for may come as its made address."""
    port: int
    via: Literal["socks", "http"]


@frozen
class Forward:
    """A plain request in the absolute form."""

    head: RequestHead
    port: int


@frozen
class Turned:
    """Send the answer and close."""

    refused: Refused
    answer: bytes = b""


Step = NeedMore | Say | Connect | Forward | Turned


def socks_reply(code: int) -> bytes:
    """The address in it means nothing, and clients know that."""
    return bytes((_VERSION, code, 0, _V4, 0, 0, 0, 0, 0, 0))


class _Turn(Exception):
    def __init__(self, reason: str, detail: str, answer: bytes = b"") -> None:
        self.turned = Turned(Refused(reason, detail), answer)


class ProxyReader:
    """Collects what a client of the proxy's port wants, up to the first byte of what it carries."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._head: HeadReader | None = None
        self._greeted = False
        self._result: Connect | Forward | Turned | None = None

    @property
    def rest(self) -> bytes:
        """What came after the request: of the tunnel, or of the body."""
        return bytes(self._held) if isinstance(self._result, Connect | Forward) else b""

    def feed(self, data: bytes) -> Step:
        """Once it is not NeedMore or Say, it stays that."""
        if isinstance(self._result, Turned):
            return self._result
        self._held += data
        if self._result is not None:
            return self._result
        try:
            step = self._read()
        except _Turn as turn:
            step = turn.turned
        if isinstance(step, Connect | Forward | Turned):
            self._result = step
        return step

    def _read(self) -> Step:
        if not self._held and self._head is None:
            return NeedMore()
        if self._head is None and (self._greeted or self._held[0] == _VERSION):
            return self._request() if self._greeted else self._greeting()
        return self._http()

    def _take(self, count: int) -> bytes:
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken

    def _greeting(self) -> Step:
        if len(self._held) < 2 or len(self._held) < 2 + self._held[1]:
            return NeedMore()
        offered = self._take(2 + self._held[1])[2:]
        if _NO_AUTHENTICATION not in offered:
            none = bytes((_VERSION, _NOT_ACCEPTABLE))
            raise _Turn("socks-login", "the proxy's port takes no name and password", none)
        self._greeted = True
        return Say(bytes((_VERSION, _NO_AUTHENTICATION)))

    def _request(self) -> Step:
        length = _request_length(self._held)
        if length is None or len(self._held) < length:
            return NeedMore()
        request = self._take(length)
        port = int.from_bytes(request[-2:])
        if not port:
            raise _Turn("port", "port 0 is none", socks_reply(NOT_ALLOWED))
        return Connect(_socks_host(request[3], request[4:-2]), port, "socks")

    def _http(self) -> Step:
        self._head = self._head or HeadReader()
        found = self._head.feed(self._take(len(self._held)))
        if isinstance(found, NeedMore):
            return found
        if isinstance(found, Refused):
            raise _Turn(found.reason, found.detail, bad_request(found))
        self._held += self._head.rest
        return _wanted(found)


def _request_length(start: bytearray) -> int | None:
    """Of a SOCKS request, once its first bytes say so."""
    if start and start[0] != _VERSION:
        raise _Turn("socks", "this is not SOCKS5", socks_reply(FAILED))
    if len(start) > 1 and start[1] != _CONNECT:
        raise _Turn("socks-command", "SOCKS is only for CONNECT", socks_reply(NO_COMMAND))
    if len(start) > 2 and start[2] != 0:
        raise _Turn("socks", "this is not SOCKS5", socks_reply(FAILED))
    if len(start) < 5:
        return None
    sizes = {_V4: 4, _V6: 16, _NAME: 1 + start[4]}
    if start[3] not in sizes:
        raise _Turn("socks-address", "an unknown kind of address", socks_reply(NO_ADDRESS))
    return 4 + sizes[start[3]] + 2


def _socks_host(kind: int, address: bytes) -> str:
    try:
        if kind != _NAME:
            return canonical_host(str(ipaddress.ip_address(address)))
        return canonical_host(address[1:].decode("ascii"))
    except (BadHost, UnicodeDecodeError):
        detail = "the host in the SOCKS request is not one"
        raise _Turn("host", detail, socks_reply(NOT_ALLOWED)) from None


def _wanted(head: RequestHead) -> Connect | Forward:
    if head.form == "authority" and head.port is not None:
        if head.all(b"content-length") or head.all(b"transfer-encoding"):
            raise _refusal("connect-body", "CONNECT has no body")
        return Connect(head.host, head.port, "http")
    if head.form != "absolute":
        raise _refusal("not-proxied", "this port is a proxy; requests to it name a whole address")
    if head.scheme != "http":
        raise _refusal("scheme", "a proxy is asked for https by CONNECT")
    return Forward(head, head.port or 80)


def _refusal(reason: str, detail: str) -> _Turn:
    return _Turn(reason, detail, bad_request(Refused(reason, detail)))
