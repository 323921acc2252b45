"""One end of a connection, as bytes to read and to write."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from functools import partial

from ags.egress.ready import Ready
from ags.egress.tls import Session, Stream
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

    @property
    def quiet(self) -> bool:
        """It is open, and nothing has come."""
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

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
        if not self._out:
            return
        async with self._writing:  # two that send must not mix their bytes
            data, self._out = bytes(self._out), bytearray()
            if data:
                await asyncio.get_running_loop().sock_sendall(self.socket, data)
                self.sent += len(data)

    async def send(self, data: bytes) -> None:
        """Most often all of it goes at once, and nobody has to wait."""
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


async def readable(*links: Link) -> Link:
    """The first of them on which there is something to read, or the end."""
    came: asyncio.Future[Link] = asyncio.get_running_loop().create_future()

    def call(link: Link) -> None:
        if not came.done():
            came.set_result(link)

    watched = [(link.ready, link.socket.fileno(), link) for link in links]
    try:
        for ready, fd, link in watched:
            ready.add_reader(fd, partial(call, link))
        return await came
    finally:
        for ready, fd, _ in watched:
            ready.remove_reader(fd)


class Plain:
    """A link where a TLS stream could be as well."""

    def __init__(self, link: Link) -> None:
        self.link = link

    async def read(self) -> bytes:
        return await self.link.read()

    def take(self) -> bytes | None:
        return self.link.take()

    async def write(self, data: bytes) -> None:
        await self.link.send(data)

    async def close(self) -> None:
        self.link.finish()


class Secure(Stream):
    """TLS over a link."""

    def __init__(self, session: Session, link: Link) -> None:
        super().__init__(session, link, link)
        self.link = link

    def take(self) -> bytes | None:
        """What comes next, without waiting; None where nothing has come yet."""
        early, self._early = self._early, b""
        if early:
            return early
        while not self.session.ended:
            data = self.link.take()
            if data is None:
                return None
            if said := self._take(data):
                return said
        return b""

    async def read(self) -> bytes:
        while (data := self.take()) is None:
            await readable(self.link)
        return data

    async def write(self, data: bytes) -> None:
        self.session.send(data)
        await self.link.send(self.session.pending())
