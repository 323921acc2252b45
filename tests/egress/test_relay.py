"""Bytes between two sockets: all of them, in order, to the end of either side."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from ags.egress.connection import Connection
from ags.egress.fence import Fence, Terms
from ags.egress.link import Link
from ags.egress.policy import Layer, Rule, Upstream, merge
from ags.egress.relay import Budget, Counted, relay
from ags.egress.tls import Authority
from ags.egress.tls import upstream as tls_upstream
from tests.descriptors import held

MIB = 1 << 20
MUCH = 24 * MIB
PATIENCE = 120.0


@dataclass
class Ends:
    """The outermost sockets of a relay: what a client has, and what an origin has."""

    client: socket.socket
    origin: socket.socket
    relay: asyncio.Task[Counted]

    async def send(self, end: socket.socket, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(end, data)

    async def hear(self, end: socket.socket, size: int) -> bytes:
        heard = b""
        while len(heard) < size and (more := await self.some(end, size - len(heard))):
            heard += more
        return heard

    async def some(self, end: socket.socket, size: int = MIB) -> bytes:
        return await asyncio.get_running_loop().sock_recv(end, size)

    async def counted(self) -> Counted:
        return await self.relay


@asynccontextmanager
async def relaying(
    budget: Budget = Budget(),  # noqa: B008
    buffers: int | None = None,
) -> AsyncIterator[Ends]:
    """`buffers` is what each socket may hold; without it the kernel finds out."""
    client, inner = await _pair()
    outer, origin = await _pair()
    for end in (client, inner, outer, origin) if buffers else ():
        for kind in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, kind, buffers or 0)
    task = asyncio.create_task(relay(inner, outer, budget))

    def close(_: object) -> None:
        inner.close()
        outer.close()

    task.add_done_callback(close)
    try:
        async with asyncio.timeout(PATIENCE):
            yield Ends(client, origin, task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        client.close()
        origin.close()


async def _pair() -> tuple[socket.socket, socket.socket]:
    """Of TCP: a half-close, a reset and full buffers are what it makes of them."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        one = socket.socket()
        one.setblocking(False)
        await loop.sock_connect(one, listener.getsockname())
        other, _ = await loop.sock_accept(listener)
    return one, other


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())


def count_turns() -> list[float | None]:
    """One entry for each that the loop takes: the processor's time would tell of the machine."""
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    turns: list[float | None] = []
    select = selector.select

    def counted(timeout: float | None = None) -> object:
        turns.append(timeout)
        return select(timeout)

    selector.select = counted
    return turns


def reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


@pytest.mark.parametrize("size", [1, 1000, 70_000, MUCH])
def test_what_is_sent_arrives_both_ways_at_once(size: int) -> None:
    async def work() -> None:
        up, down = os.urandom(size), os.urandom(size)
        async with relaying() as ends:
            _, _, came_up, came_down = await asyncio.gather(
                ends.send(ends.client, up),
                ends.send(ends.origin, down),
                ends.hear(ends.origin, size),
                ends.hear(ends.client, size),
            )
            assert _digests(came_up, came_down) == _digests(up, down)
            ends.client.shutdown(socket.SHUT_WR)
            ends.origin.shutdown(socket.SHUT_WR)
            assert await ends.counted() == Counted(size, size)

    run(work)


def _digests(*texts: bytes) -> list[str]:
    return [hashlib.sha256(text).hexdigest() for text in texts]


def test_small_pieces_pass_at_once_and_after_large_ones() -> None:
    async def work() -> None:
        async with relaying() as ends:
            for number, size in enumerate((1, 10, MUCH, 1, 3 * MIB, 5)):
                data = bytes([number]) * size
                sent = asyncio.create_task(ends.send(ends.client, data))
                assert await ends.hear(ends.origin, size) == data
                await sent
                await ends.send(ends.origin, b"heard")
                assert await ends.hear(ends.client, 5) == b"heard"

    run(work)


@pytest.mark.parametrize("first", ["client", "origin"])
def test_an_end_that_has_nothing_more_to_say_can_still_listen(first: str) -> None:
    async def work() -> None:
        async with relaying() as ends:
            one, other = ends.client, ends.origin
            if first == "origin":
                one, other = other, one
            await ends.send(one, b"the last of it")
            one.shutdown(socket.SHUT_WR)
            assert await ends.hear(other, 100) == b"the last of it"
            assert not ends.relay.done()
            sending = asyncio.create_task(ends.send(other, bytes(MUCH)))
            assert len(await ends.hear(one, MUCH)) == MUCH
            await sending
            other.shutdown(socket.SHUT_WR)
            assert await ends.some(one) == b""
            counts = (14, MUCH) if first == "client" else (MUCH, 14)
            assert await ends.counted() == Counted(*counts)

    run(work)


@pytest.mark.parametrize("early", [b"", b"early"])
def test_a_reset_ends_both_ways(early: bytes) -> None:
    async def work() -> None:
        async with relaying() as ends:
            await ends.send(ends.origin, b"begun" + early)
            assert await ends.hear(ends.client, 5 + len(early)) == b"begun" + early
            reset(ends.origin)
            assert (await ends.counted()).cut == "connection reset by peer"

    run(work)


def test_a_reader_that_went_away_ends_what_is_sent_to_it() -> None:
    async def work() -> None:
        async with relaying() as ends:
            sending = asyncio.create_task(ends.send(ends.origin, bytes(4 * MUCH)))
            await ends.hear(ends.client, MIB)
            reset(ends.client)
            assert (await ends.counted()).cut
            with pytest.raises(OSError):
                await sending

    run(work)


@pytest.mark.parametrize("size", [2000, MUCH])
def test_no_more_passes_than_the_budget_has(size: int) -> None:
    async def work() -> None:
        async with relaying(Budget(bytes=size // 2)) as ends:
            sending = asyncio.create_task(ends.send(ends.client, bytes(size)))
            heard = 0
            with contextlib.suppress(OSError):  # what it still had is lost with the sockets
                while more := await ends.some(ends.origin):
                    heard += len(more)
            counted = await ends.counted()
            assert counted.cut == "it carried as much as it may"
            # A piece may be under way when it runs out, but no second one.
            assert heard <= counted.up <= size // 2 + MIB
            await asyncio.gather(sending, return_exceptions=True)
        async with relaying(Budget(bytes=size)) as ends:
            sending = asyncio.create_task(ends.send(ends.client, bytes(size)))
            assert len(await ends.hear(ends.origin, size)) == size
            await sending
            assert not ends.relay.done()

    run(work)


def test_silence_on_both_sides_ends_it_and_a_word_from_either_does_not() -> None:
    async def work() -> None:
        pass_by = _clock()
        async with relaying(Budget(idle=8.0)) as ends:
            for end, other in 3 * ((ends.client, ends.origin), (ends.origin, ends.client)):
                await pass_by(5)
                await ends.send(end, b".")
                assert await ends.some(other) == b"."
            await pass_by(7)
            assert not ends.relay.done()
            await pass_by(1)
            assert (await ends.counted()).cut == "nothing came for too long"

    run(work)


def _clock() -> Callable[[float], Awaitable[None]]:
    """From now on the loop's time passes when the test says so; after a minute it goes on anyway,
    so that who waits in vain is told."""
    loop = asyncio.get_running_loop()
    begun = now = loop.time()
    loop.time = lambda: now + max(0.0, time.monotonic() - begun - 60)  # type: ignore[method-assign]

    async def pass_by(seconds: float) -> None:
        nonlocal now
        now += seconds
        for _ in range(5):  # for whoever waited for that
            await asyncio.sleep(0)

    return pass_by


def test_a_reader_that_is_slow_holds_the_sender_back_and_gets_everything() -> None:
    async def work() -> None:
        # Left alone, the kernel's own buffers may take all of it.
        async with relaying(Budget(idle=60), buffers=MIB // 4) as ends:
            data = os.urandom(MUCH)
            sending = asyncio.create_task(ends.send(ends.client, data))
            await asyncio.sleep(0.3)
            assert not sending.done(), "the relay kept all of it"
            heard = bytearray()
            while len(heard) < MUCH:
                heard += await ends.some(ends.origin, 300_000)
                await asyncio.sleep(0.001)
            assert _digests(bytes(heard)) == _digests(data)
            # The other way was never in the way of this one.
            await ends.send(ends.origin, b"thanks")
            assert await ends.some(ends.client) == b"thanks"
            await sending

    run(work)


def test_a_silent_relay_takes_no_time() -> None:
    async def work() -> None:
        async with relaying() as ends:
            await ends.send(ends.client, bytes(100_000))
            await ends.hear(ends.origin, 100_000)
            ends.client.shutdown(socket.SHUT_WR)
            await ends.some(ends.origin)
            turns = count_turns()
            await asyncio.sleep(0.5)
            assert len(turns) < 10

    run(work)


def test_many_at_once_do_not_mix_and_leave_nothing_open() -> None:
    async def one(number: int) -> None:
        data = number.to_bytes(2, "big") * 100_000
        async with relaying() as ends:
            sending = asyncio.create_task(ends.send(ends.client, data))
            assert await ends.hear(ends.origin, len(data)) == data
            await sending
            if number % 3 == 0:
                reset(ends.client)
                assert (await ends.counted()).cut
            elif number % 3 == 1:
                ends.client.close()
                ends.origin.close()
                await ends.counted()

    async def work() -> None:
        before = held()
        await asyncio.gather(*map(one, range(100)))
        assert held() == before

    run(work)


def test_one_that_is_broken_off_leaves_nothing_behind() -> None:
    async def work() -> None:
        before = held()
        async with relaying() as ends:
            sending = asyncio.create_task(ends.send(ends.client, bytes(MUCH)))
            await ends.hear(ends.origin, MIB)
            ends.relay.cancel()
            await asyncio.gather(ends.relay, sending, return_exceptions=True)
            assert ends.relay.cancelled()
        assert held() == before

    run(work)


@pytest.mark.parametrize("cut", [True, False])
def test_an_origin_that_breaks_off_is_not_taken_for_one_that_ended(cut: bool) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            client, inner = await _pair()
            port = listener.getsockname()[1]
            serving = Connection(_fence(port), Link(inner), "raw.example", port)
            task = asyncio.create_task(serving.serve())
            origin, _ = await loop.sock_accept(listener)
        with client, inner:
            await loop.sock_sendall(origin, b"begun")
            assert await loop.sock_recv(client, 100) == b"begun"
            reset(origin) if cut else origin.close()
            if cut:
                with pytest.raises(ConnectionResetError):
                    await loop.sock_recv(client, 100)
            else:
                assert await loop.sock_recv(client, 100) == b""
                client.close()
            await asyncio.wait_for(task, PATIENCE)

    run(work)


def _fence(port: int) -> Fence:
    rule, upstream = Rule("raw.example", (port,), "raw"), Upstream("raw.example", "127.0.0.1")
    terms = Terms(merge([Layer("user", (rule,), upstreams=(upstream,))]))
    return Fence(
        terms, authority=Authority("test"), upstream=tls_upstream(()), record=lambda line: None
    )
