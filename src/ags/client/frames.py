"""Frames of a WebSocket (RFC 6455), from a client's side: bytes in, values out."""

from __future__ import annotations

import os
import struct
from collections.abc import Awaitable, Callable

from ags.frozen import frozen
from ags.model import MIB

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MOST = 1 * MIB
"""Bytes of a message; the server sends at most 64 KiB."""
MOST_CONTROL = 125


class Violation(Exception):
    """What came is no frame, or none that may come."""


@frozen
class Frame:
    kind: int
    data: bytes
    final: bool = True


def encode(kind: int, data: bytes, mask: bytes | None = None) -> bytes:
    """A client's frames are masked, each with numbers of its own."""
    key = os.urandom(4) if mask is None else mask
    size = len(data)
    if size < 126:
        head = struct.pack(">BB", 0x80 | kind, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | kind, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | kind, 0x80 | 127, size)
    return head + key + _masked(data, key)


def _masked(data: bytes, key: bytes) -> bytes:
    stream = (key * (len(data) // 4 + 1))[: len(data)]
    mixed = int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")
    return mixed.to_bytes(len(data), "little")


async def read(exactly: Callable[[int], Awaitable[bytes]]) -> Frame:
    """The next one, by a function that gives as many bytes as it is asked for."""
    first, second = await exactly(2)
    kind, size = first & 0x0F, second & 0x7F
    if first & 0x70 or second & 0x80 or kind not in (*range(3), *range(8, 11)):
        raise Violation("a frame that may not come")
    if kind >= CLOSE and (size > MOST_CONTROL or not first & 0x80):
        raise Violation("a control frame in parts")
    if size >= 126:
        size = int.from_bytes(await exactly(2 if size == 126 else 8), "big")
    if size > MOST:
        raise Violation(f"a frame of {size} bytes")
    return Frame(kind, await exactly(size), bool(first & 0x80))


class Messages:
    """Puts the parts of a message together."""

    def __init__(self) -> None:
        self._kind: int | None = None
        self._parts = bytearray()

    def take(self, frame: Frame) -> Frame | None:
        """The message that is complete now, or None. Not for control frames."""
        if (frame.kind == CONTINUATION) != (self._kind is not None):
            raise Violation("a part of a message out of turn")
        self._kind = frame.kind if self._kind is None else self._kind
        if len(self._parts) + len(frame.data) > MOST:
            raise Violation("a message without end")
        self._parts += frame.data
        if not frame.final:
            return None
        whole = Frame(self._kind, bytes(self._parts))
        self._kind = None
        self._parts.clear()
        return whole
