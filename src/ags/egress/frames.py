"""A client's WebSocket frames, searched for placeholders as they pass."""

from __future__ import annotations

from ags.egress.inject import Scanner
from ags.egress.wire import Refused

_CONTROL = 8
_KNOWN = frozenset((0, 1, 2, 8, 9, 10))
_MOST_CONTROL = 125


class Frames:
    """A client masks its frames, so a placeholder is not visible in the bytes it sends.

    Only the head of a frame is ever held; what it carries is unmasked piece by piece. A message may
    go on in the next frame with a ping between the two, so each kind has its own scanner. What a
    frame carries is never a reason to refuse it; bytes that are no frame are refused.
    """

    def __init__(self, messages: Scanner, control: Scanner) -> None:
        self._scanners = (messages, control)
        self._scanner = messages
        self._head = b""
        self._left = 0
        self._mask = bytes(4)

    def feed(self, data: bytes) -> Refused | None:
        """Why this piece must not go on, and nothing after it."""
        data, self._head = self._head + data, b""
        at = 0
        while at < len(data):
            if not self._left:
                size = _head_size(data, at)
                if size == 0:
                    return _no_frame()
                if size is None or len(data) - at < size:
                    self._head = data[at:]
                    return None
                if refused := self._begin(data[at : at + size]):
                    return refused
                at += size
            piece = data[at : at + self._left]
            at += len(piece)
            self._look(piece)
        return None

    def _begin(self, head: bytes) -> Refused | None:
        kind, control = head[0] & 15, bool(head[0] & _CONTROL)
        self._left = int.from_bytes(head[2:-4]) if len(head) > 6 else head[1] & 127
        self._mask = head[-4:]
        self._scanner = self._scanners[control]
        whole = head[0] & 0x80 and self._left <= _MOST_CONTROL
        if kind not in _KNOWN or self._left >> 63 or (control and not whole):
            return _no_frame()
        return None

    def _look(self, piece: bytes) -> None:
        self._left -= len(piece)
        self._scanner.feed(unmasked(self._mask, piece))
        turn = len(piece) % 4
        self._mask = self._mask[turn:] + self._mask[:turn]


def _no_frame() -> Refused:
    return Refused("protocol", "what the client sent is no WebSocket frame")


def _head_size(data: bytes, at: int) -> int | None:
    """None if it is not known yet, zero if there is no mask, without which nobody may send."""
    if len(data) - at < 2:
        return None
    if not data[at + 1] & 0x80:
        return 0
    return {126: 8, 127: 14}.get(data[at + 1] & 127, 6)


def unmasked(mask: bytes, data: bytes) -> bytes:
    if mask == bytes(4):
        return data
    whole = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(whole)).to_bytes(len(data))
