"""What a connection has to say before anything is done for it: soon, and in few words.

Anybody on the machine can connect, so none of it may cost those who have a token: neither places,
nor time, nor memory.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ags.server import problems

PATIENCE = 10.0
"""Seconds for a whole head to arrive."""
MOST_HEAD = 64 * 1024
MOST_LINES = 128
MOST_COOKIES = 2 << 20
"""Bytes. Browsers keep 180 cookies of 4 KiB for a host."""
MOST_STRANGERS = 200
"""Connections whose last request was let in by no token; the page's own files need none."""
COOKIE = b"cookie:"


class TooMuch(Exception):
    """No honest client sends such a head."""


class Head:
    """A head as it comes in, without its cookies.

    They are none of ours, as we set none: a browser sends those of every port of this host, and a
    page on another port can set so many that no server would take the request.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self._rest = bytearray()
        """Of the line that is not whole yet."""
        self._searched = 0
        self._lines = 0
        self._dropped = 0
        self._in_cookie = False

    def feed(self, data: bytes) -> bytes | None:
        """All that came, once the head is whole; None until then."""
        self._rest += data
        if not self._lines and self._rest[:1] < b"!":
            return bytes(self._rest)  # no head, whatever follows: h11 says so
        while (end := self._rest.find(b"\n", self._searched) + 1) > 0:
            line = bytes(self._rest[:end])
            del self._rest[:end]
            self._searched = 0
            self._take(line)
            if line in (b"\n", b"\r\n"):
                return bytes(self._kept + self._rest)
        self._shorten()
        return None

    def _take(self, line: bytes) -> None:
        is_more = line[:1] in (b" ", b"\t")  # of the line before
        self._in_cookie = self._in_cookie if is_more else self._is_cookie(line)
        self._lines += 1
        if self._in_cookie:
            self._dropped += len(line)
        else:
            self._kept += line
        self._check(len(self._kept))  # what follows may be a body, which others judge

    def _shorten(self) -> None:
        if self._is_cookie(self._rest):
            self._dropped += len(self._rest) - len(COOKIE)
            del self._rest[len(COOKIE) :]
        self._searched = len(self._rest)
        self._check(len(self._kept) + len(self._rest))

    def _is_cookie(self, line: bytes | bytearray) -> bool:
        return self._lines > 0 and line[: len(COOKIE)].lower() == COOKIE

    def _check(self, size: int) -> None:
        if size > MOST_HEAD or self._lines > MOST_LINES or self._dropped > MOST_COOKIES:
            raise TooMuch


class Place(asyncio.Protocol):
    """A connection among those that there is room for: a stranger's until the gate lets it in."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    since = 0.0
    _left = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.since = self.loop.time()

    @property
    def is_strange(self) -> bool:
        """Those being closed too: over TLS that lasts for as long as the other side likes."""
        return not self._left and "ags.token" not in (getattr(self, "scope", None) or ())

    def leave(self) -> None:
        # Not `close`: over TLS that would wait for the other side again.
        self._left = True
        self.transport.abort()


class Socket(Place, WebSocketsSansIOProtocol):
    """A WebSocket, or what asks to be one."""

    def shutdown(self) -> None:
        if self.handshake_complete and not self.close_sent:
            # Who speaks there is told of the end too, and says why it closes; then nobody waits.
            self.close_timeout = 0.0
        else:
            super().shutdown()


class Prompt(Place, H11Protocol):
    """Closes, without an answer, what takes too long to ask.

    And what strangers hold is never what somebody with a token waits for: where there are too many
    of them, the one who came first goes.
    """

    _deadline: asyncio.TimerHandle | None = None
    _head: Head | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._begin()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            self._begin()
            self._unset_keepalive_if_required()
            # One that was sent before its turn is in the hands of h11 already.
            if not self.conn.trailing_data[0]:
                self._hear(data)
                return
        super().data_received(data)

    def _hear(self, data: bytes) -> None:
        self._head = self._head or Head()
        try:
            whole = self._head.feed(data)
        except TooMuch:
            self._in_time()
            self.logger.warning("A head was too large.")
            self.send_400_response("Invalid HTTP request received.")
            return
        if whole is not None:
            self._head = None
            super().data_received(whole)

    def send_400_response(self, msg: str) -> None:
        """As everything that goes wrong here is told: uvicorn itself would say it in plain text."""
        cause = "it is not HTTP, or its head is too large"
        told = problems.answer(400, "Cannot take the request", detail=cause)
        headers = [*told.raw_headers, (b"connection", b"close")]
        answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (answer, h11.Data(data=bytes(told.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        made = self.transport.get_protocol()
        # Of one with a body or a long line, its parser says nothing and uvicorn waits for ever.
        if isinstance(made, Socket) and not made.handshake_initiated:
            self.send_400_response("Invalid HTTP request received.")

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self._in_time()

    def _begin(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE, self.leave)

    def _in_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self) -> None:
        if len(self.connections) <= MOST_STRANGERS:
            return
        others = (each for each in self.connections if isinstance(each, Place))
        strangers = [each for each in others if each.is_strange]
        if len(strangers) > MOST_STRANGERS:
            self.logger.warning("Too many connections without a token: the oldest is closed.")
            min(strangers, key=lambda each: each.since).leave()
