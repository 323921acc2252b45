"""A listening origin: notes every connection, and hands it to what speaks there."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.internet.seen import Seen, Visit

MOST_RAW = 1 << 20
MOST_BODY = 1 << 16
PIECE = 1 << 18
HANDSHAKE = 60.0
IPV6_FREEBIND = 78


@dataclass
class Arrival:
    """A request while it is still arriving."""

    head: bytes
    method: str
    target: str
    headers: list[tuple[str, str]]
    visit: int
    sni: str | None
    body: bytearray = field(default_factory=bytearray)
    size: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self.digest.update(piece)
        self.body += piece[: max(0, MOST_BODY - len(self.body))]

    def seen(self) -> Seen:
        return Seen(
            method=self.method,
            target=self.target,
            headers=tuple(self.headers),
            head=self.head,
            body=bytes(self.body),
            size=self.size,
            digest=self.digest.hexdigest(),
            sni=self.sni,
            visit=self.visit,
        )

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


@dataclass
class Guest:
    """A connection, with all that it sends noted."""

    number: int
    peer: str
    sni: str | None = None
    raw: bytearray = field(default_factory=bytearray)
    failure: str = ""
    reader: asyncio.StreamReader = field(default_factory=lambda: asyncio.StreamReader(limit=PIECE))
    writer: asyncio.StreamWriter | None = None
    buffer: bytearray = field(default_factory=bytearray)

    def visit(self) -> Visit:
        return Visit(self.peer, self.sni, bytes(self.raw), self.failure)

    async def fill(self) -> bool:
        """Whether there was more."""
        piece = await self.reader.read(PIECE)
        self.raw += piece[: max(0, MOST_RAW - len(self.raw))]
        self.buffer += piece
        return bool(piece)

    async def through(self, *ends: bytes) -> bytes:
        """All up to and with the first of these; what there is, if the connection ends."""
        while not (found := [at + len(e) for e in ends if (at := self.buffer.find(e)) >= 0]):
            if len(self.buffer) > MOST_RAW or not await self.fill():
                return self.take(len(self.buffer))
        return self.take(min(found))

    async def pieces(self, size: int) -> AsyncIterator[bytes]:
        while size and (self.buffer or await self.fill()):
            piece = self.take(size)
            size -= len(piece)
            yield piece

    async def exactly(self, size: int) -> bytes:
        whole = b"".join([piece async for piece in self.pieces(size)])
        if len(whole) < size:
            raise EOFError
        return whole

    def take(self, size: int) -> bytes:
        piece = bytes(self.buffer[:size])
        del self.buffer[:size]
        return piece

    async def send(self, data: bytes) -> None:
        assert self.writer is not None
        self.writer.write(data)
        await self.writer.drain()


Speaker: TypeAlias = Callable[["Site", Guest], Awaitable[None]]


class Site:
    def __init__(self, name: str, speaker: Speaker, chain: str | None) -> None:
        self.name = name
        self.guests: list[Guest] = []
        self.arrivals: list[Arrival] = []
        self.hellos: list[str | None] = []
        self._speaker = speaker
        self._context = self._tls(chain) if chain else None
        self._tasks: set[asyncio.Task[None]] = set()

    def _tls(self, chain: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = self._greeted
        return context

    def _greeted(self, tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        self.hellos.append(name)
        tls.asked_for = name  # type: ignore[attr-defined]

    def listen(self, address: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        listener.bind((address, port))
        listener.listen(1024)
        listener.setblocking(False)
        self._keep(self._accept(listener))

    def _keep(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, peer = await loop.sock_accept(listener)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            guest = Guest(len(self.guests), str(peer[0]))
            self.guests.append(guest)
            self._keep(self._receive(guest, connection))

    async def _receive(self, guest: Guest, connection: socket.socket) -> None:
        try:
            await self._greet(guest, connection)
        except (OSError, TimeoutError) as error:
            guest.failure = str(error) or type(error).__name__
            connection.close()
            return
        with contextlib.suppress(OSError, EOFError, ValueError):
            await self._speaker(self, guest)
        assert guest.writer is not None
        guest.writer.close()

    async def _greet(self, guest: Guest, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(guest.reader)
        patience = HANDSHAKE if self._context else None
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=patience
        )
        guest.writer = asyncio.StreamWriter(transport, protocol, guest.reader, loop)
        guest.sni = getattr(transport.get_extra_info("ssl_object"), "asked_for", None)
