"""One end of a connection, as bytes to read and to write."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

from ags.egress.ready import Ready
from ags.model import KIB

PIECE = 64 * KIB


class Link:
    """A socket that does not block; reads and writes of it are counted."""

    def __init__(self, made: socket.socket, ready: Ready | None = None) -> None:
        if made.gettimeout() != 0:
            made.setblocking(False)
        self.socket = made
        self.ready: Ready = ready or asyncio.get_running_loop()
        """Tells when there is something to read."""
        self.received = self.sent = 0
        self._out = bytearray()
        self._writing = asyncio.Lock()

    async def read(self, n: int = PIECE, /) -> bytes:
        """What is there; nothing means the end, also of a connection that was cut."""
        # Not the loop's sock_recv: broken off at the wrong moment, it loses what it has read.
        while (data := self.take(n)) is None:
            await readable(self)
        return data

    def take(self, n: int = PIECE, /) -> bytes | None:
        """The same without waiting; None where nothing has come yet."""
        try:
            data = self.socket.recv(n)
        except BlockingIOError:
            return None
        except (ConnectionError, TimeoutError):
            return b""
        self.received += len(data)
        return data

    def write(self, data: bytes, /) -> None:
        """Goes out with the next `drain`."""
        self._out += data

    async def drain(self) -> None:
        async with self._writing:  # two that send must not mix their bytes
            data, self._out = bytes(self._out), bytearray()
            if data:
                await asyncio.get_running_loop().sock_sendall(self.socket, data)
                self.sent += len(data)

    async def send(self, data: bytes) -> None:
        if not self._out and not self._writing.locked():
            data = data[self._send(data) :]
            if not data:
                return
        self.write(data)
        await self.drain()

    def _send(self, data: bytes) -> int:
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            return 0
        self.sent += sent
        return sent

    def finish(self) -> None:
        """Nothing more comes from us."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Closed in a way that nobody takes for the end of an answer."""
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


async def readable(*links: Link) -> None:
    """Until there is something to read, or the end, on any of them."""
    came: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def call() -> None:
        if not came.done():
            came.set_result(None)

    watched = [(link.ready, link.socket.fileno()) for link in links]
    try:
        for ready, fd in watched:
            ready.add_reader(fd, call)
        await came
    finally:
        for ready, fd in watched:
            ready.remove_reader(fd)


class Plain:
    """A link where a TLS stream could be as well."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def read(self) -> bytes:
        return await self._link.read()

    async def write(self, data: bytes) -> None:
        await self._link.send(data)

    async def close(self) -> None:
        self._link.finish()
