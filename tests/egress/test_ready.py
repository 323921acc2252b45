"""Who waits for a socket is called when it is ready, and not once it has stopped waiting."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from ags.egress.link import Link, readable
from ags.egress.ready import Epoll
from tests.descriptors import held

Pair = tuple[socket.socket, socket.socket]
Work = Callable[[Epoll, Pair], Awaitable[None]]


def watching(work: Work) -> None:
    """With a pair of sockets that hold little; afterwards nothing is left open."""

    async def main() -> None:
        before = held()
        epoll, (one, other) = Epoll(), socket.socketpair()
        for end in (one, other):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with one, other:
            async with asyncio.timeout(60):
                await work(epoll, (one, other))
        epoll.close()
        assert held() == before

    asyncio.run(main())


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0.005)


def test_a_reader_is_called_until_it_is_taken_out() -> None:
    async def work(epoll: Epoll, pair: Pair) -> None:
        one, other = pair
        heard: list[bytes] = []
        epoll.add_reader(one.fileno(), lambda: heard.append(one.recv(1)))
        other.send(b"ab")
        await turns()
        assert heard == [b"a", b"b"]
        epoll.remove_reader(one.fileno())
        other.send(b"c")
        await turns()
        assert heard == [b"a", b"b"]

    watching(work)


def test_a_writer_is_called_once_there_is_room() -> None:
    async def work(epoll: Epoll, pair: Pair) -> None:
        one, other = pair
        with pytest.raises(BlockingIOError):
            while True:
                one.send(bytes(4096))
        room = asyncio.Event()
        epoll.add_writer(one.fileno(), room.set)
        await turns()
        assert not room.is_set()
        while not room.is_set():
            other.recv(1 << 20)
            await turns(1)
        epoll.remove_writer(one.fileno())

    watching(work)


def test_both_ways_of_one_socket_are_watched_apart() -> None:
    async def work(epoll: Epoll, pair: Pair) -> None:
        one, other = pair
        called: list[str] = []
        fd = one.fileno()
        epoll.add_reader(fd, lambda: called.append(f"read {one.recv(9).decode()}"))

        def write() -> None:
            called.append("write")
            epoll.remove_writer(fd)

        epoll.add_writer(fd, write)
        await turns()
        assert called == ["write"]
        other.send(b"it")
        await turns()
        assert called == ["write", "read it"]
        epoll.remove_reader(fd)
        epoll.remove_reader(fd)
        other.close()
        await turns()
        assert called == ["write", "read it"]

    watching(work)


def test_the_end_of_the_other_side_is_told() -> None:
    async def work(epoll: Epoll, pair: Pair) -> None:
        one, other = pair
        link = Link(one, epoll)
        other.close()
        assert await link.read() == b""

    watching(work)


def test_one_that_fails_takes_none_of_the_others_with_it() -> None:
    async def work(epoll: Epoll, pair: Pair) -> None:
        one, other = pair
        told: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told_of: told.append(str(told_of["exception"])))

        def fail() -> None:
            epoll.remove_reader(one.fileno())
            raise ValueError("spoilt")

        epoll.add_reader(one.fileno(), fail)
        called = asyncio.Event()
        epoll.add_reader(other.fileno(), called.set)
        one.send(b"x")
        other.send(b"x")
        await called.wait()
        await turns()
        assert told == ["spoilt"]
        epoll.remove_reader(other.fileno())

    watching(work)


def test_whichever_of_two_links_speaks_first_is_heard() -> None:
    async def work(epoll: Epoll, pair: Pair) -> None:
        third, fourth = socket.socketpair()
        links = [Link(end, epoll) for end in (pair[0], third)]
        with third, fourth:
            for speaker, link in ((pair[1], links[0]), (fourth, links[1])):
                waiting = asyncio.create_task(readable(*links))
                await turns()
                assert not waiting.done()
                speaker.send(b"word")
                await waiting
                assert link.take() == b"word"
            assert [link.take() for link in links] == [None, None]

    watching(work)


def test_what_does_not_fit_at_once_arrives_in_order() -> None:
    async def work(epoll: Epoll, pair: Pair) -> None:
        one, other = (Link(end, epoll) for end in pair)
        pieces = [bytes([number]) * 50_000 for number in range(5)]
        sending = [asyncio.create_task(one.send(piece)) for piece in pieces]
        heard = b""
        while len(heard) < 250_000:
            heard += await other.read()
        await asyncio.gather(*sending)
        assert heard == b"".join(pieces)
        assert one.sent == other.received == 250_000

    watching(work)
