"""A WebSocket that says everything back."""

from __future__ import annotations

import base64
import hashlib

from tests.internet.site import Guest

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CLOSE, PING, PONG = 8, 9, 10


def accepted(key: str) -> str:
    digest = hashlib.sha1((key + MAGIC).encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


async def echo(guest: Guest, key: str) -> None:
    await guest.send(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: %s\r\n\r\n" % accepted(key).encode()
    )
    kind = 0
    while kind != CLOSE:
        first, data = await _frame(guest)
        kind = first & 15
        if kind == PING:
            first = first & 0xF0 | PONG
        await guest.send(frame(first, data))


async def _frame(guest: Guest) -> tuple[int, bytes]:
    first, size = await guest.exactly(2)
    masked, size = size & 128, size & 127
    if size > 125:
        size = int.from_bytes(await guest.exactly(2 if size == 126 else 8), "big")
    mask = await guest.exactly(4) if masked else bytes(4)
    return first, masked_with(mask, await guest.exactly(size))


def frame(first: int, data: bytes, mask: bytes = b"") -> bytes:
    """`first` is the opcode with the bits above it; a client must mask, a server must not."""
    bit = 128 if mask else 0
    if len(data) < 126:
        size = bytes([bit | len(data)])
    elif len(data) < 1 << 16:
        size = bytes([bit | 126]) + len(data).to_bytes(2, "big")
    else:
        size = bytes([bit | 127]) + len(data).to_bytes(8, "big")
    return bytes([first]) + size + mask + (masked_with(mask, data) if mask else data)


def masked_with(mask: bytes, data: bytes) -> bytes:
    whole = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(data), "big")
