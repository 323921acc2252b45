"""Enough of PostgreSQL's protocol for psql to connect and to be told its own question."""

from __future__ import annotations

import struct

from tests.internet.site import Arrival, Guest, Site

WANTS_ENCRYPTION = (80877103, 80877104)
TEXT = 25


async def speak(site: Site, guest: Guest) -> None:
    while True:
        body = await guest.exactly(int.from_bytes(await guest.exactly(4), "big") - 4)
        if int.from_bytes(body[:4], "big") not in WANTS_ENCRYPTION:
            break
        await guest.send(b"N")
    ready = _message(b"Z", b"I")
    await guest.send(
        _message(b"R", bytes(4))
        + _message(b"S", b"server_version\x0015.0\0")
        + _message(b"S", b"client_encoding\x00UTF8\0")
        + ready
    )
    while (kind := await guest.exactly(1)) != b"X":
        body = await guest.exactly(int.from_bytes(await guest.exactly(4), "big") - 4)
        if kind == b"Q":
            question = body.rstrip(b"\0")
            site.arrivals.append(Arrival(body, "Q", question.decode(), [], guest.number, None))
            await guest.send(_row(question) + ready)


def _row(value: bytes) -> bytes:
    column = b"echo\0" + struct.pack(">IhIhih", 0, 0, TEXT, -1, -1, 0)
    return (
        _message(b"T", struct.pack(">h", 1) + column)
        + _message(b"D", struct.pack(">hI", 1, len(value)) + value)
        + _message(b"C", b"SELECT 1\0")
    )


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


async def echo(site: Site, guest: Guest) -> None:
    """Plain bytes, said back as they come."""
    while guest.buffer or await guest.fill():
        await guest.send(guest.take(len(guest.buffer)))
