"""A fence as a proxy on loopback, with one origin behind it that remembers what it was asked."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from ags.egress import tls
from ags.egress.audit import Line
from ags.egress.fence import Fence, Terms
from ags.egress.policy import Layer, Rule, Upstream, merge
from ags.egress.server import Server
from ags.kernel.netns import Opened

PATIENCE = 60.0
HOST, OTHER, SECURE = "a.example", "b.example", "c.example"
GET = f"GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
POST = GET.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\nabc")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Origin:
    """Answers every request, and remembers on which of its connections it came."""

    answer: bytes = ANSWER
    thinks: float = 0.0
    """Seconds before each answer."""
    later: bytes = b""
    """What comes after it, once `go` is set."""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    deaf_after: int = 1000
    """Requests on its first connection; it hangs up on the next one without a word."""
    holds: bool = False
    """And does so once `go` is set."""
    heard: list[tuple[int, str]] = field(default_factory=list)
    connections: int = 0
    gone: int = 0
    late: int = 0
    """How often `later` came."""
    resumed: list[bool] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        if spoken := writer.get_extra_info("ssl_object"):
            self.resumed.append(spoken.session_reused)
        with suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                method = head.split(b" ")[0].decode()
                self.heard.append((number, method))
                if b"content-length: 3" in head.lower():
                    await reader.readexactly(3)
                if number == 1 and len(self.heard) > self.deaf_after:
                    if self.holds:
                        await self.go.wait()
                    break
                await asyncio.sleep(self.thinks)
                writer.write(self.answer)
                if self.later:
                    await self.go.wait()
                    writer.write(self.later)
                    await writer.drain()
                    self.late += 1
        self.gone += 1
        writer.close()


@dataclass
class Scene:
    origin: Origin
    fence: Fence
    server: Server
    proxy: tuple[str, int]
    lines: list[Line]

    async def ask(self, host: str = HOST, method: str = "GET", times: int = 1) -> bytes:
        """What a client of its own is answered, the last time; it is gone afterwards."""
        body = "Content-Length: 3\r\n\r\nabc" if method == "POST" else "\r\n"
        target = "/" if host == SECURE else f"http://{host}/"
        before = self.serving
        reader, writer = await self.reach(host)
        answer = b""
        for _ in range(times):
            writer.write(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{body}".encode())
            answer = await reader.read(4096)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        await self.until(lambda: self.serving == before)  # the fence has seen it, too
        return answer

    @property
    def serving(self) -> int:
        return len(self.server._serving)

    async def until(self, true: Callable[[], bool]) -> None:
        """`run` has the patience."""
        while not true():
            await asyncio.sleep(0.005)

    async def reach(self, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if host != SECURE:
            return await asyncio.open_connection(*self.proxy)
        made = socket.create_connection(self.proxy)
        made.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
        made.setblocking(False)
        assert b" 200 " in await asyncio.get_running_loop().sock_recv(made, 4096)
        trusting = ssl.create_default_context(cadata=self.fence.authority.certificate.decode())
        return await asyncio.open_connection(sock=made, ssl=trusting, server_hostname=host)


@asynccontextmanager
async def scene(origin: Origin) -> AsyncIterator[Scene]:
    """A fence as a proxy, with one origin behind all names."""
    lines: list[Line] = []
    theirs = tls.Authority("origin")
    plain = await asyncio.start_server(origin.serve, "127.0.0.1", 0)
    secure = await asyncio.start_server(origin.serve, "127.0.0.1", 0, ssl=theirs.leaf(SECURE))
    ports = [each.sockets[0].getsockname()[1] for each in (plain, plain, secure)]
    hosts = (HOST, OTHER, SECURE)
    rules = (*(Rule(host) for host in hosts), Rule(SECURE, paths=("/*",)))
    led = tuple(Upstream(h, "127.0.0.1", port) for h, port in zip(hosts, ports, strict=True))
    terms = Terms(merge([Layer("user", rules, upstreams=led)], [(SECURE, 443)]))
    listener = socket.create_server(("127.0.0.1", 0))
    fence = Fence(
        terms,
        authority=tls.Authority("test"),
        upstream=tls.upstream((theirs.der,)),
        record=lines.append,
    )
    server = Server(fence, Opened((), None, None, listener, (), (), False))
    server.start()
    async with plain, secure:
        try:
            yield Scene(origin, fence, server, listener.getsockname(), lines)
        finally:
            await server.close()


def run(origin: Origin, work: Callable[[Scene], Awaitable[None]]) -> Origin:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), scene(origin) as made:
            await work(made)

    asyncio.run(main())
    return origin
