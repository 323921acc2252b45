"""One request and its answer between a client inside and an origin, as bytes in and bytes out.

h11 keeps the state on both sides, and writes anew whatever passes: where a body ends is said once,
in one way. Nothing is kept back, cached or followed. For the next request on a connection make the
next `Exchange`; its head has to be judged first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import h11

from ags.egress.http import (
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

# After a body these would change what was judged before it.
_NOT_AFTER = frozenset(
    (
        *(b"authorization", b"connection", b"content-encoding", b"content-length", b"cookie"),
        *(b"content-type", b"expect", b"host", b"proxy-authorization", b"range", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade"),
    )
)


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
        self._origin = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * MOST_HEAD)
        self._up: list[bytes] = []
        self._down: list[bytes] = []
        self._refused: Refused | None = None
        self.answered = False
        """The answer has begun: no other can be given."""
        self.switched = False
        """Both sides left HTTP: what is fed passes as it is, but for the redactor."""
        self.received = 0
        """Bytes of the request's body so far."""
        self.sent = 0
        """Bytes of the answer's body so far."""
        self.status: int | None = None

    @property
    def done(self) -> bool:
        """Request and answer are complete."""
        over = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
        return self.answer_done and self._client.their_state in over

    @property
    def answer_done(self) -> bool:
        """The answer is complete, perhaps before its request was."""
        return self._client.our_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)

    @property
    def reusable(self) -> bool:
        """Both connections may carry another request."""
        states = {*self._client.states.values(), *self._origin.states.values()}
        return states == {h11.DONE} and not self._origin.trailing_data[0]

    @property
    def rest(self) -> bytes:
        """Once done: what the client has sent beyond its request."""
        return self._client.trailing_data[0] if self.done else b""

    def open(self) -> Moved:
        return self._guarded("client", self._open)

    def from_client(self, data: bytes) -> Moved:
        """Empty data is the end of what the client sends."""
        return self._guarded("client", lambda: self._from_client(data))

    def from_origin(self, data: bytes) -> Moved:
        """Empty data is the end of what the origin sends."""
        return self._guarded("origin", lambda: self._from_origin(data))

    def _guarded(self, side: str, step: Callable[[], None]) -> Moved:
        if self._refused is None:
            try:
                step()
            except _Bad as bad:
                self._refused = bad.refused
            except h11.ProtocolError:
                # Its message may quote what was sent, a secret for instance.
                self._refused = Refused("protocol", f"what the {side} sent is not HTTP/1.1")
        moved = Moved(b"".join(self._up), b"".join(self._down), self._refused)
        self._up.clear()
        self._down.clear()
        return moved

    def _open(self) -> None:
        self._client.receive_data(self._head.raw)
        self._check_agreement(self._client.next_event())
        request = h11.Request(
            method=self._head.method,
            target=origin_target(self._head),
            headers=list(self._headers),
        )
        self._send_up(request)
        self._pump_up()

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
            self._up.append(data)
            return
        self._client.receive_data(data)
        self._pump_up()
        in_body = self._client.their_state is h11.SEND_BODY
        if not in_body and len(self._client.trailing_data[0]) > MOST_HEAD:
            raise _Bad("pipelined", "too much follows a request that has no answer yet")

    def _pump_up(self) -> None:
        while True:
            event = self._client.next_event()
            if isinstance(event, h11.Data):
                self._body_up(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._send_up(h11.EndOfMessage(headers=self._trailers(event)))
            else:
                return

    def _body_up(self, data: bytes) -> None:
        if found := self._scanner.feed(data):
            raise _Bad("placeholder", f"the placeholder of the secret {found} is in the body")
        self.received += len(data)
        self._send_up(h11.Data(data=data))

    def _trailers(self, event: h11.EndOfMessage) -> list[Header]:
        trailers = event.headers.raw_items()
        for name, value in trailers:
            if name.lower() in _NOT_AFTER:
                raise _Bad("trailer", "a header that must come first comes after the body")
            if found := self._scanner.look(name + b": " + value):
                raise _Bad("placeholder", f"the placeholder of the secret {found} is in a trailer")
        return list(trailers)

    def _send_up(self, event: h11.Event) -> None:
        self._up.append(self._origin.send(event) or b"")

    def _send_down(self, event: h11.Event) -> None:
        self._down.append(self._client.send(event) or b"")

    def _from_origin(self, data: bytes) -> None:
        if self.switched:
            self._pass_down(data)
            return
        self._origin.receive_data(data)
        while True:
            event = self._origin.next_event()
            if isinstance(event, h11.InformationalResponse):
                self._inform(event)
            elif isinstance(event, h11.Response):
                self._answer(event)
            elif isinstance(event, h11.Data):
                self._body_down(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._end_down(event)
            else:
                return

    def _pass_down(self, data: bytes) -> None:
        if self._redactor is None:
            self._down.append(data)
        else:
            self._down.append(self._redactor.feed(data) if data else self._redactor.end())

    def _inform(self, event: h11.InformationalResponse) -> None:
        switching = event.status_code == 101
        if switching and not self._may_switch(event):
            raise _Bad("upgrade", "the origin changed to a protocol that was not asked for")
        # A client of HTTP/1.0 takes the first answer for the last.
        if switching or self._head.version == "1.1":
            self._send_down(
                h11.InformationalResponse(
                    status_code=event.status_code,
                    headers=list(self._covered(event)),
                    reason=event.reason,
                )
            )
        if switching:
            self._switch()

    def _may_switch(self, event: h11.InformationalResponse) -> bool:
        answered = tokens(tuple(event.headers.raw_items()), b"upgrade")
        return is_websocket(self._head) and answered == (b"websocket",)

    def _switch(self) -> None:
        self.switched = self.answered = True
        self.status = 101
        self._up.append(self._client.trailing_data[0])
        if early := self._origin.trailing_data[0]:
            self._pass_down(early)

    def _covered(
        self, event: h11.Response | h11.InformationalResponse | h11.EndOfMessage
    ) -> Headers:
        items = tuple(event.headers.raw_items())
        return self._redactor.headers(items) if self._redactor else items

    def _answer(self, event: h11.Response) -> None:
        encodings = tokens(tuple(event.headers.raw_items()), b"content-encoding")
        if self._redactor and not {b"identity"}.issuperset(encodings):
            raise _Bad("encoded", "the answer is compressed, so a secret in it would not be seen")
        self.answered = True
        self.status = event.status_code
        reason = self._redactor.whole(event.reason) if self._redactor else event.reason
        headers = list(self._covered(event))
        self._send_down(h11.Response(status_code=event.status_code, headers=headers, reason=reason))

    def _body_down(self, data: bytes) -> None:
        self.sent += len(data)
        if shown := self._redactor.feed(data) if self._redactor else data:
            self._send_down(h11.Data(data=shown))

    def _end_down(self, event: h11.EndOfMessage) -> None:
        if self._redactor and (shown := self._redactor.end()):
            self._send_down(h11.Data(data=shown))
        self._send_down(h11.EndOfMessage(headers=list(self._covered(event))))


def _plain(headers: Iterable[Header]) -> list[Header]:
    """Names in lower case; h11 writes the one transfer encoding there is in lower case, too."""
    folded = b"transfer-encoding"
    pairs = ((name.lower(), value) for name, value in headers)
    return [(name, value.lower() if name == folded else value) for name, value in pairs]
