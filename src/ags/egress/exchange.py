"""One request and its answer between a client inside and an origin, as bytes in and bytes out.

A request is read twice, by `http` and by h11, which have to agree; an answer by `answer`. Whatever
passes is written anew: where a body ends is said once, in one way. Nothing is kept back, cached or
followed. For the next request on a connection make the next `Exchange`; its head has to be judged
first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal

import h11

from ags.egress.answer import AnswerHead, AnswerReader, BadAnswer, Body, Counted, Endless, body_of
from ags.egress.frames import Frames
from ags.egress.http import (
    FIELDS,
    MOST_HEAD,
    Header,
    Headers,
    RequestHead,
    is_websocket,
    origin_target,
    tokens,
)
from ags.egress.inject import Redactor, Scanner
from ags.egress.wire import Refused
from ags.frozen import frozen

MOST_INFORMED = 256
"""Answers before the answer: an origin that works for an hour may say so every now and then."""

# After a body these would change what was judged before it.
_NOT_AFTER = frozenset(
    (
        *(b"authorization", b"connection", b"content-encoding", b"content-length", b"cookie"),
        *(b"content-type", b"expect", b"host", b"proxy-authorization", b"range", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade", b"set-cookie", b"location"),
    )
)
# These tell of one connection, and the client has another.
_OF_THE_HOP = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding"))
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_ASKING = (h11.IDLE, h11.SEND_BODY, h11.ERROR)
_EXTENSIONS = b"sec-websocket-extensions"
_SENDABLE = re.compile(rb"[A-Z][A-Z-]* [\x21-\x7e]+ HTTP/1\.1\r\n" + FIELDS + rb"\r\n")


@frozen
class Moved:
    """Bytes for the one side, for the other, and why to close both once these are sent."""

    up: bytes = b""
    down: bytes = b""
    refused: Refused | None = None


class _Bad(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        self.refused = Refused(reason, detail)


class Exchange:
    """Begin with `open`; then feed what comes from either side until `done` or `switched`.

    `headers` are what goes up in place of the head's own (see `http.forwarded`, `inject.swap`).
    """

    def __init__(
        self,
        head: RequestHead,
        headers: Headers,
        *,
        scanner: Scanner | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._head, self._headers = head, headers
        self._scanner, self._redactor = scanner or Scanner(()), redactor
        self._client = h11.Connection(h11.SERVER, max_incomplete_event_size=2 * MOST_HEAD)
        self._origin = AnswerReader()
        self._body: Body | None = None
        self._chunks_up = bool(head.all(b"transfer-encoding"))
        self._chunks_down = False
        self._frames: Frames | None = None
        self._informed = 0
        self._lasting = head.version == "1.1" and b"close" not in tokens(
            head.headers, b"connection"
        )
        """The client has not said that its connection ends with this."""
        self._up: list[bytes] = []
        self._down: list[bytes] = []
        self._refused: Refused | None = None
        self.fault: Literal["client", "origin"] = "client"
        """Whose, if it was refused."""
        self.answered = False
        """The answer has begun: no other can be given."""
        self.answer_done = False
        """The answer is complete, perhaps before its request was."""
        self.switched = False
        """Both sides left HTTP: what is fed passes as it is, but for scanner and redactor."""
        self.received = 0
        """Bytes of the request's body so far."""
        self.sent = 0
        """Bytes of the answer's body so far."""
        self.status: int | None = None
        self.spent = False
        """The connection to the origin can carry no other request."""

    @property
    def asked(self) -> bool:
        """The request is complete."""
        return self._client.their_state not in _ASKING

    @property
    def done(self) -> bool:
        """Request and answer are complete."""
        return self.answer_done and self.asked

    @property
    def reusable(self) -> bool:
        """The client's connection may carry another request; see `spent` for the origin's."""
        ended = self._client.their_state in (h11.MUST_CLOSE, h11.CLOSED)
        return self.done and self._lasting and not ended

    @property
    def rest(self) -> bytes:
        """Once done: what the client has sent beyond its request."""
        return self._client.trailing_data[0] if self.done else b""

    def open(self, rest: bytes = b"") -> Moved:
        """`rest` is what has come after the head so far."""
        return self._guarded("client", lambda: self._open(rest))

    def from_client(self, data: bytes) -> Moved:
        """Empty data is the end of what the client sends."""
        return self._guarded("client", lambda: self._from_client(data))

    def from_origin(self, data: bytes) -> Moved:
        """Empty data is the end of what the origin sends."""
        return self._guarded("origin", lambda: self._from_origin(data))

    def _guarded(self, side: Literal["client", "origin"], step: Callable[[], None]) -> Moved:
        if self._refused is None:
            self.fault = side
            try:
                step()
            except (_Bad, BadAnswer) as bad:
                self._refused = bad.refused
            except h11.ProtocolError:
                # Its message may quote what was sent, a secret for instance.
                self._refused = Refused("protocol", f"what the {side} sent is not HTTP/1.1")
        moved = Moved(b"".join(self._up), b"".join(self._down), self._refused)
        self._up.clear()
        self._down.clear()
        return moved

    def _open(self, rest: bytes) -> None:
        self._client.receive_data(self._head.raw)
        self._check_agreement(self._client.next_event())
        if is_websocket(self._head) and not self._scanner.idle:
            self._frames = Frames(self._scanner, self._scanner.another())
        self._up.append(self._head_up())
        if rest:
            self._client.receive_data(rest)
        self._pump_up()

    def _head_up(self) -> bytes:
        first = f"{self._head.method} {origin_target(self._head)} HTTP/1.1\r\n".encode()
        raw = first + _lines(self._headers) + b"\r\n"
        if not _SENDABLE.fullmatch(raw):
            raise _Bad("protocol", "a header of the request cannot be sent")
        return raw

    def _check_agreement(self, event: object) -> None:
        """Our reading of the head and h11's have to be the same."""
        head = self._head
        if isinstance(event, h11.Request):
            theirs = (event.method, event.target, event.http_version)
            ours = (head.method.encode(), head.target.encode(), head.version.encode())
            if theirs == ours and _plain(event.headers.raw_items()) == _plain(head.headers):
                return
        raise _Bad("protocol", "the head of the request has more than one reading")

    def _from_client(self, data: bytes) -> None:
        if self.switched:
            self._pass_up(data)
            return
        self._client.receive_data(data)
        self._pump_up()

    def _pump_up(self) -> None:
        while True:
            event = self._client.next_event()
            if isinstance(event, h11.Data):
                self._body_up(bytes(event.data))
                continue
            if isinstance(event, h11.EndOfMessage):
                self._end_up(event)
            break
        in_body = self._client.their_state is h11.SEND_BODY
        if not in_body and len(self._client.trailing_data[0]) > MOST_HEAD:
            raise _Bad("pipelined", "too much follows a request that has no answer yet")

    def _pass_up(self, data: bytes) -> None:
        if self._frames and (refused := self._frames.feed(data)):
            raise _Bad(refused.reason, refused.detail)
        self._up.append(data)

    def _body_up(self, data: bytes) -> None:
        self._scanner.feed(data)
        self.received += len(data)
        self._up.append(_chunk(data) if self._chunks_up else data)

    def _end_up(self, event: h11.EndOfMessage) -> None:
        trailers = self._trailers(event)
        if self._chunks_up:
            self._up.append(b"0\r\n" + _lines(trailers) + b"\r\n")

    def _trailers(self, event: h11.EndOfMessage) -> list[Header]:
        trailers = event.headers.raw_items()
        for name, value in trailers:
            if name.lower() in _NOT_AFTER:
                raise _Bad("trailer", "a header that must come first comes after the body")
            if found := self._scanner.look(name + b": " + value):
                raise _Bad("placeholder", f"the placeholder of the secret {found} is in a trailer")
        return list(trailers)

    def _from_origin(self, data: bytes) -> None:
        if self.switched:
            self._pass_down(data)
        elif not data:
            self._origin_ended()
        elif self._body is not None:
            self._body_down(self._body, data)
        else:
            self._head_down(data)

    def _head_down(self, data: bytes) -> None:
        while (head := self._origin.feed(data)) is not None:
            data = b""
            if head.status >= 200:
                self._answer(head)
                return
            self._inform(head)
            if self.switched:
                return

    def _origin_ended(self) -> None:
        self.spent = True
        if self.answer_done:
            return
        if not isinstance(self._body, Endless):
            raise _Bad("cut", "the origin hung up before its answer was complete")
        self._end_down(())

    def _pass_down(self, data: bytes) -> None:
        if self._redactor is None:
            self._down.append(data)
        else:
            self._down.append(self._redactor.feed(data) if data else self._redactor.end())

    def _inform(self, head: AnswerHead) -> None:
        self._informed += 1
        if self._informed > MOST_INFORMED:
            raise _Bad("too-many", "the origin announces an answer without end")
        switching = head.status == 101
        if switching and not self._may_switch(head):
            raise _Bad("upgrade", "the origin changed to a protocol that was not asked for")
        # A client of HTTP/1.0 takes the first answer for the last.
        if switching or self._head.version == "1.1":
            kept = [h for h in head.headers if h[0].lower() not in _FRAMING]
            self._write_head(head, kept)
        if switching:
            self._switch()

    def _may_switch(self, head: AnswerHead) -> bool:
        offered = any(name.lower() == b"upgrade" for name, _ in self._headers)
        # With an extension frames may be compressed, and an echo of the secret would not be seen.
        if self._redactor and tokens(head.headers, _EXTENSIONS):
            return False
        answered = tokens(head.headers, b"upgrade")
        return offered and is_websocket(self._head) and answered == (b"websocket",)

    def _switch(self) -> None:
        self.switched = self.answered = True
        self.status = 101
        self._pass_up(self._client.trailing_data[0])
        if early := self._origin.rest:
            self._pass_down(early)

    def _write_head(self, head: AnswerHead, headers: Iterable[Header]) -> None:
        reason, shown = head.reason, tuple(headers)
        if self._redactor:
            reason, shown = self._redactor.whole(reason), self._redactor.headers(shown)
        first = b"HTTP/1.1 %d %s\r\n" % (head.status, reason)
        self._down.append(first + _lines(shown) + b"\r\n")

    def _answer(self, head: AnswerHead) -> None:
        encodings = tokens(head.headers, b"content-encoding")
        if self._redactor and not {b"identity"}.issuperset(encodings):
            raise _Bad("encoded", "the answer is compressed, so a secret in it would not be seen")
        self._body = body_of(head, self._head.method)
        self.answered = True
        self.status = head.status
        self._write_head(head, self._framed(head, self._body))
        self._body_down(self._body, self._origin.rest)

    def _framed(self, head: AnswerHead, body: Body) -> list[Header]:
        """The headers, with the end of the body and of the connection told in our words."""
        words = tokens(head.headers, b"connection")
        self.spent = head.version != "1.1" or b"close" in words
        dropped = _OF_THE_HOP | _FRAMING if head.status == 204 else _OF_THE_HOP
        kept = [h for h in head.headers if h[0].lower() not in dropped]
        said = [word for word in words if word not in (b"close", b"keep-alive")]
        if not self._lasting:
            said.append(b"close")
        if said:
            kept.append((b"Connection", b", ".join(said)))
        # A client of HTTP/1.0 knows no chunks; it takes the end of the connection for the body's.
        self._chunks_down = not isinstance(body, Counted) and self._head.version == "1.1"
        if self._chunks_down:
            kept.append((b"Transfer-Encoding", b"chunked"))
        return kept

    def _body_down(self, body: Body, data: bytes) -> None:
        if self.answer_done:
            self.spent = True  # more than was asked for, and nobody's answer
            return
        read = body.feed(data)
        self.sent += len(read)
        if shown := self._redactor.feed(read) if self._redactor else read:
            self._down.append(_chunk(shown) if self._chunks_down else shown)
        if body.wrong:
            raise _Bad(body.wrong.reason, body.wrong.detail)
        if body.ended:
            self.spent = self.spent or bool(body.rest)
            self._end_down(body.trailers)

    def _end_down(self, trailers: Headers) -> None:
        if self._redactor:
            if shown := self._redactor.end():
                self._down.append(_chunk(shown) if self._chunks_down else shown)
            trailers = self._redactor.headers(trailers)
        if any(name.lower() in _NOT_AFTER for name, _ in trailers):
            raise _Bad("trailer", "a header that must come first comes after the answer's body")
        if self._chunks_down:
            self._down.append(b"0\r\n" + _lines(trailers) + b"\r\n")
        self.answer_done = True


def _lines(headers: Iterable[Header]) -> bytes:
    return b"".join([b"%s: %s\r\n" % header for header in headers])


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _plain(headers: Iterable[Header]) -> list[Header]:
    """Names in lower case; h11 writes the one transfer encoding there is in lower case, too."""
    folded = b"transfer-encoding"
    pairs = ((name.lower(), value) for name, value in headers)
    return [(name, value.lower() if name == folded else value) for name, value in pairs]
