"""The sockets of the fence: whatever is opened inside arrives here, outside."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

from ags.egress import dns
from ags.egress.connection import Connection, serve_proxy
from ags.egress.fence import Fence
from ags.egress.hosts import HOST_NAME, BadHost, canonical_host
from ags.egress.link import Link
from ags.egress.model import Decision, Request
from ags.egress.policy import decide
from ags.errors import AgsError
from ags.kernel.netns import Opened

MOST = 1024
"""Connections at once; what comes on top is turned away."""
LONGEST_QUERY = 4096
DNS_SILENT = 30.0

Serve = Callable[[Link], Awaitable[None]]


class Server:
    """Takes listening sockets from anywhere: the sandbox's namespace, or a sidecar's."""

    def __init__(self, fence: Fence, opened: Opened) -> None:
        self._fence = fence
        self._opened = opened
        self._accepting: list[asyncio.Task[None]] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._more: list[Opened] = []
        self._checks: dict[int, asyncio.Future[bool]] = {}

    def start(self) -> None:
        """From here on everything inside is answered."""
        opened = self._opened
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
        self._more.append(opened)
        for listener in opened.listeners:
            self._accept_on(listener, self._dialled)

    async def close(self) -> None:
        """Every connection ends with it."""
        if self._opened.dns_udp is not None:
            asyncio.get_running_loop().remove_reader(self._opened.dns_udp)
        tasks = (*self._accepting, *self._serving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for opened in (self._opened, *self._more):
            opened.close()

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
        listener.setblocking(False)
        self._accepting.append(asyncio.create_task(self._accept(listener, serve)))

    async def _accept(self, listener: socket.socket, serve: Serve) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                made, _ = await loop.sock_accept(listener)
            except OSError:  # out of descriptors, or it was gone before we came
                await asyncio.sleep(0.05)
                continue
            if len(self._serving) >= MOST:
                Link(made).reset()
                continue
            task = asyncio.create_task(self._serve(Link(made), serve))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, link: Link, serve: Serve) -> None:
        """Any trouble closes; nothing of it reaches the other connections."""
        try:
            # What goes in has been gathered already: to wait for more would only be late.
            link.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await serve(link)
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


def _literal(address: str) -> str | None:
    try:
        return canonical_host(address)
    except BadHost:
        return None
