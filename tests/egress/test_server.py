"""Listening sockets: many connections at once, none for a while, and none any more."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from ags.egress.fence import Fence, Terms
from ags.egress.server import Server
from ags.egress.tls import Authority, upstream
from ags.kernel.netns import Opened
from tests.descriptors import held
from tests.egress.test_relay import count_turns

PATIENCE = 60.0
NONSENSE = b"nonsense\r\n\r\n"


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Server, tuple[str, int]]]:
    """A fence that refuses all, as a proxy on a port of its own."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    address = listener.getsockname()
    fence = Fence(
        Terms(), authority=Authority("test"), upstream=upstream(()), record=lambda line: None
    )
    server = Server(fence, Opened((), None, None, listener, (), (), False))
    server.start()
    try:
        yield server, address
    finally:
        await server.close()


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            await work()

    asyncio.run(main())


async def answered(client: socket.socket) -> bool:
    """Whether what is no request is told so."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, NONSENSE)
    return (await loop.sock_recv(client, 4096)).startswith(b"HTTP/1.1 400 ")


def dialled(address: tuple[str, int]) -> socket.socket:
    client = socket.create_connection(address)
    client.setblocking(False)
    return client


@contextmanager
def no_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_all_that_come_at_once_are_served() -> None:
    async def work() -> None:
        async with serving() as (_, address):
            clients = [dialled(address) for _ in range(100)]
            assert all(await asyncio.gather(*map(answered, clients)))
            for client in clients:
                client.close()

    run(work)


def test_without_descriptors_it_waits_and_then_goes_on() -> None:
    async def work() -> None:
        async with serving() as (_, address):
            with dialled(address) as client:
                with no_descriptors():
                    waiting = asyncio.create_task(answered(client))
                    turns = count_turns()
                    await asyncio.sleep(0.3)
                    assert not waiting.done()
                    assert len(turns) < 50, "it tried over and over"
                assert await waiting

    run(work)


def test_once_closed_nobody_is_served_and_nothing_is_left_open() -> None:
    async def work() -> None:
        before = held()
        async with serving() as (server, address):
            with dialled(address) as served, dialled(address) as late:
                assert await answered(served)
                with no_descriptors():
                    await asyncio.sleep(0.1)
                await server.close()
                await asyncio.sleep(0.2)
                assert not await _heard(late)
        assert held() == before

    run(work)


def test_what_comes_too_late_to_be_listened_to_is_closed() -> None:
    async def work() -> None:
        async with serving() as (server, _):
            await server.close()
            late = socket.create_server(("127.0.0.1", 0))
            server.add(Opened((late,), None, None, None, (), (), False))
            assert late.fileno() < 0

    run(work)


async def _heard(client: socket.socket) -> bool:
    try:
        return await answered(client)
    except OSError:
        return False
