"""Server-sent events: bytes in, events out, in whatever pieces they come."""

from __future__ import annotations

import re

from ags.frozen import frozen

_BREAK = re.compile(rb"\r\n|\n|\r")


@frozen
class Sent:
    """One event. Its id is that of the last one which had any."""

    event: str
    data: str
    id: str


class Parser:
    """An event that was not finished when the bytes end is none: it will be sent again."""

    def __init__(self, most: int, last_id: str = "") -> None:
        """`most` is what one event may take."""
        self._most = most
        self._id = last_id
        self._event = ""
        self._data: list[bytes] = []
        self._begun: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._first = True

    def feed(self, piece: bytes) -> list[Sent]:
        """The events that are complete now; ValueError if one is too large."""
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if piece:
            self._after_cr = piece.endswith(b"\r")
        *whole, rest = _BREAK.split(piece)
        found = [sent for each in whole if (sent := self._line(each)) is not None]
        self._keep(rest)
        return found

    def _keep(self, rest: bytes) -> None:
        if rest:
            self._size += len(rest)
            self._check_size()
            self._begun.append(rest)

    def _line(self, end: bytes) -> Sent | None:
        self._keep(end)
        line = b"".join(self._begun)
        self._begun.clear()
        if self._first:
            line, self._first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        self._field(name, value.removeprefix(b" "))
        return None

    def _field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._data.append(value)
            return
        if name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        if not self._data:
            self._size = len(value)  # comments without end are no event without end

    def _dispatch(self) -> Sent | None:
        data, event = self._data, self._event or "message"
        self._data, self._event, self._size = [], "", 0
        if not data:
            return None
        return Sent(event, b"\n".join(data).decode("utf-8", "replace"), self._id)

    def _check_size(self) -> None:
        if self._size > self._most:
            raise ValueError(f"an event is larger than {self._most} bytes")
