"""A run's terminal, over a WebSocket of the server's."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import struct
from collections.abc import AsyncIterator

from ags.client import frames
from ags.client.errors import Broken, Refused
from ags.client.frames import BINARY, CLOSE, PING, PONG, TEXT, Frame, Messages, Violation
from ags.client.link import MOST_PROBLEM, Link
from ags.errors import AgsError, Missing
from ags.frozen import frozen
from ags.model import KIB, MIB

PROTOCOL = "ags.v1"
MOST_HEAD = 64 * KIB
MOST_TYPED = 64 * KIB
MOST_WAITING = 1 * MIB
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
NORMAL, WRONG = 1000, 1002
REFUSED, UNKNOWN = 4000, 4404


@frozen
class End:
    """How a terminal's program ended."""

    code: int | None
    """None where nobody is left to say."""
    reason: str = ""


class Terminal:
    """Several can look at one, and type."""

    def __init__(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._link = link
        self._reader = reader
        self._writer = writer
        self._messages = Messages()
        self._ended: End | None = None
        writer.transport.set_write_buffer_limits(high=MOST_WAITING)

    async def read(self) -> bytes | End:
        """The next output, or how it ended."""
        try:
            while self._ended is None:
                frame = await frames.read(self._reader.readexactly)
                if frame.kind >= CLOSE:
                    self._control(frame)
                elif message := self._messages.take(frame):
                    if message.kind == BINARY:
                        return message.data
                    self._ended = _end(message.data)
        except Violation as error:
            self._send(CLOSE, struct.pack(">H", WRONG))
            raise Refused(
                "show the terminal",
                subject=self._link.address,
                cause=f"the server sent {error}",
                status=0,
            ) from error
        except (asyncio.IncompleteReadError, OSError):
            self._ended = End(None, "the connection to the server broke")
        assert self._ended is not None
        return self._ended

    async def type(self, data: bytes) -> None:
        for start in range(0, len(data), MOST_TYPED):
            self._send(BINARY, data[start : start + MOST_TYPED])
            with contextlib.suppress(OSError):  # it has ended, as reading will tell
                await self._writer.drain()

    def resize(self, rows: int, columns: int) -> None:
        """Or, with the size that it has, to be sent the picture again."""
        self._send(TEXT, json.dumps({"rows": rows, "columns": columns}).encode())

    def leave(self) -> None:
        self._send(CLOSE, struct.pack(">H", NORMAL))

    def _send(self, kind: int, data: bytes) -> None:
        # A server that pings without end and reads nothing shall not fill our memory.
        waiting = self._writer.transport.get_write_buffer_size()
        if not self._writer.is_closing() and waiting <= 2 * MOST_WAITING:
            self._writer.write(frames.encode(kind, data))

    def _control(self, frame: Frame) -> None:
        if frame.kind == PING:
            self._send(PONG, frame.data)
        elif frame.kind == CLOSE:
            self._send(CLOSE, frame.data[:2])
            self._ended = _closed(frame.data)


def _end(data: bytes) -> End:
    """What the server's one text says."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        raise Violation("a text that is not JSON") from None
    if not isinstance(said, dict):
        raise Violation("a text that is no end")
    code, reason = said.get("ended"), said.get("reason")
    return End(code if type(code) is int else None, reason if isinstance(reason, str) else "")


def _closed(data: bytes) -> End:
    code = int.from_bytes(data[:2], "big")
    reason = data[2:].decode("utf-8", "replace")
    if code == UNKNOWN:
        raise Missing("show the terminal", cause=reason or "there is no run of this name")
    if code >= REFUSED:
        raise AgsError("show the terminal", cause=reason or "the server refuses it")
    return End(None, reason or "the server ended the connection")


@contextlib.asynccontextmanager
async def connect(link: Link, target: str) -> AsyncIterator[Terminal]:
    """For as long as the context lasts."""
    address = link.address
    try:
        async with asyncio.timeout(link.timeout):
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=link.tls(), limit=MOST_HEAD
            )
            try:
                await _shake_hands(link, target, reader, writer)
            except BaseException:
                writer.close()
                raise
    except (OSError, EOFError) as error:  # TimeoutError is one
        late = isinstance(error, TimeoutError)
        cause = "it does not answer" if late else (str(error) or "it broke off").lower()
        raise Broken("reach the server", subject=address, cause=cause) from error
    terminal = Terminal(link, reader, writer)
    try:
        yield terminal
    finally:
        terminal.leave()
        # What is still to be sent goes, but nobody waits for it.
        writer.close()


async def _shake_hands(
    link: Link, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    key = base64.b64encode(os.urandom(16))
    writer.write(
        f"GET {target} HTTP/1.1\r\n"
        f"Host: {link.address.authority}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key.decode()}\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}, {link.bearer()}\r\n\r\n".encode("ascii")
    )
    status, headers = await _head(link, reader)
    if status != 101:
        media = headers.get("content-type", "").partition(";")[0].lower()
        raise link.refusal(status, media, await _body(reader))
    expected = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()  # noqa: S324
    agreed = (
        headers.get("upgrade", "").lower() == "websocket"
        and headers.get("sec-websocket-accept") == expected
        and headers.get("sec-websocket-protocol") == PROTOCOL
        and "sec-websocket-extensions" not in headers
    )
    if not agreed:
        raise _odd(link)


async def _head(link: Link, reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    try:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        if not version.startswith("HTTP/1.") or not status.isdecimal() or len(status) != 3:
            raise ValueError(first)
    except (asyncio.LimitOverrunError, ValueError) as error:
        raise _odd(link) from error
    return int(status), headers


async def _body(reader: asyncio.StreamReader) -> bytes:
    """Until the server ends it, or nothing more comes."""
    body = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            while len(body) < MOST_PROBLEM and (piece := await reader.read(64 * KIB)):
                body += piece
    return body


def _odd(link: Link) -> Refused:
    return Refused(
        "show the terminal",
        subject=link.address,
        cause="what the server answers is no WebSocket of ours",
        hint="is it a server of AGS, of this version?",
        status=0,
    )
