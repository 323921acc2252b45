"""The sockets of the fence: whatever is opened inside arrives here, outside."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from ags.egress import dns
from ags.egress.connection import Connection, serve_proxy
from ags.egress.fence import Fence
from ags.egress.hosts import HOST_NAME, BadHost, canonical_host
from ags.egress.link import Link
from ags.egress.model import Decision, Request
from ags.egress.policy import decide
from ags.egress.ready import Epoll
from ags.errors import AgsError
from ags.kernel.netns import Opened
from ags.model import MIB

MOST = 1024
"""Connections at once; what comes on top is turned away."""
IN_A_ROW = 32
"""Connections taken before those that are open have their turn."""
PAUSE = 0.05
"""Seconds without taking any, where one could not be taken; and before one is turned away."""
LONGEST_QUERY = 4096
DNS_SILENT = 30.0
LINGER = 5.0
"""Seconds for a client to finish what it is sending after its answer."""
MOST_UNHEARD = 32 * MIB
"""Bytes of it: as much as the APIs of models take."""

Serve = Callable[[Link], Awaitable[None]]


class Server:
    """Takes listening sockets from anywhere: the sandbox's namespace, or a sidecar's."""

    def __init__(self, fence: Fence, opened: Opened) -> None:
        self._fence = fence
        self._opened = opened
        self._ready: Epoll | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._turned: list[Link] = []
        """The last that were turned away, some of them open still."""
        self._more: list[Opened] = []
        self._checks: dict[int, asyncio.Future[bool]] = {}

    def start(self) -> None:
        """From here on everything inside is answered."""
        opened = self._opened
        self._ready = Epoll()
        for listener in opened.listeners:
            self._accept_on(listener, self._dialled)
        if opened.proxy is not None:
            self._accept_on(opened.proxy, lambda link: serve_proxy(self._fence, link))
        if opened.dns_tcp is not None:
            self._accept_on(opened.dns_tcp, self._ask)
        if (asked := opened.dns_udp) is not None:
            asked.setblocking(False)
            asyncio.get_running_loop().add_reader(asked, self._asked, asked)

    def add(self, opened: Opened) -> None:
        """Listen on further ports."""
        if self._ready is None:  # closed in the meantime
            opened.close()
            return
        self._more.append(opened)
        for listener in opened.listeners:
            self._accept_on(listener, self._dialled)

    async def close(self) -> None:
        """Every connection ends with it."""
        if self._opened.dns_udp is not None:
            asyncio.get_running_loop().remove_reader(self._opened.dns_udp)
        for opened in (self._opened, *self._more):
            for listener in (*opened.listeners, opened.proxy, opened.dns_tcp):
                self._deaf(listener)
        ready, self._ready = self._ready, None
        for link in self._turned:
            link.reset()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._fence.idle.close()
        for opened in (self._opened, *self._more):
            opened.close()
        if ready is not None:
            ready.close()

    async def check(self, dialling: socket.socket, address: str, port: int) -> bool:
        """What is decided of a connection that is made inside by a socket of ours. It goes on
        nowhere, whatever that is."""
        dialling.setblocking(False)
        dialling.bind(("0.0.0.0", 0))  # noqa: S104
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        number = dialling.getsockname()[1]
        self._checks[number] = told
        try:
            await asyncio.get_running_loop().sock_connect(dialling, (address, port))
            return await told
        finally:
            del self._checks[number]
            dialling.close()

    def _accept_on(self, listener: socket.socket, serve: Serve) -> None:
        if self._ready is None:  # closed in the meantime
            return
        listener.setblocking(False)
        self._ready.add_reader(listener.fileno(), partial(self._accept, listener, serve))

    def _deaf(self, listener: socket.socket | None) -> None:
        if listener is not None and self._ready is not None:
            self._ready.remove_reader(listener.fileno())

    def _accept(self, listener: socket.socket, serve: Serve) -> None:
        for _ in range(IN_A_ROW):
            try:
                made, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError:  # out of descriptors, or it was gone before we came
                self._deaf(listener)
                loop = asyncio.get_running_loop()
                loop.call_later(PAUSE, self._accept_on, listener, serve)
                return
            if len(self._serving) >= MOST:
                self._turn_away(Link(made))
                continue
            task = asyncio.create_task(self._serve(Link(made, self._ready), serve))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    def _turn_away(self, link: Link) -> None:
        """In a moment: whoever is still connecting would take it for a host that is down."""
        if len(self._turned) >= IN_A_ROW:
            self._turned.pop(0).reset()
        self._turned.append(link)
        asyncio.get_running_loop().call_later(PAUSE, link.reset)

    async def _serve(self, link: Link, serve: Serve) -> None:
        """Any trouble closes; nothing of it reaches the other connections."""
        try:
            # What goes in has been gathered already: to wait for more would only be late.
            link.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await serve(link)
            await _heard_out(link)
        except (AgsError, OSError, TimeoutError):
            link.reset()
        finally:
            link.close()

    async def _dialled(self, link: Link) -> None:
        """The socket's own address tells which name was meant."""
        address, port = link.socket.getsockname()[:2]
        with self._fence.pool.pinned(address) as name:
            host = name or _literal(address)
            if host is None:
                request = Request(address, port, "raw")
                self._fence.noted(request, Decision(False, "name", "", "")).write()
                link.reset()
                return
            if told := self._checks.get(link.socket.getpeername()[1]):
                request = Request(host, port, self._fence.policy.scheme(host, port))
                told.set_result(decide(self._fence.policy, request).allowed)
                return
            await Connection(self._fence, link, host, port).serve()

    def _asked(self, asked: socket.socket) -> None:
        for _ in range(64):
            try:
                query, peer = asked.recvfrom(LONGEST_QUERY)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue
            if reply := dns.answer(query, self._fence.pool, (HOST_NAME,)):
                with contextlib.suppress(OSError):  # a full queue loses it, as any network may
                    asked.sendto(reply, peer)

    async def _ask(self, link: Link) -> None:
        held = b""
        async with asyncio.timeout(DNS_SILENT):
            while data := await link.read():
                messages, held = dns.unframed(held + data)
                for query in messages:
                    if reply := dns.answer(query, self._fence.pool, (HOST_NAME,)):
                        await link.send(dns.framed(reply))


async def _heard_out(link: Link) -> None:
    """Many a client sends its whole request before it listens: hung up on in the middle, it would
    take the refusal that it has been given for a lost network."""
    if link.socket.fileno() < 0 or link.take() == b"":
        return
    link.finish()
    left = MOST_UNHEARD
    async with asyncio.timeout(LINGER):
        while left > 0 and (data := await link.read()):
            left -= len(data)
            await asyncio.sleep(0)  # or one that never stops would have the loop for itself


def _literal(address: str) -> str | None:
    try:
        return canonical_host(address)
    except BadHost:
        return None
