"""TLS over a socket: what has come is there without waiting, and nothing else is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from ags.egress.link import Link, Secure, readable
from ags.egress.tls import RECORD, Authority, Cut, Session, upstream

HOST = "a.example"
PATIENCE = 60.0


class Pair:
    """The fence's end of a connection, and a client that speaks by hand."""

    def __init__(self) -> None:
        authority = Authority("test")
        ours, self.theirs = socket.socketpair()
        self.fence = Secure(Session(authority.leaf(HOST)), Link(ours))
        self.client = Session(upstream((authority.der,)), HOST)

    async def shaken(self) -> Pair:
        self.theirs.sendall(self.client.pending())
        shaking = asyncio.create_task(self.fence.shake())
        await asyncio.sleep(0.05)
        self.client.receive(self.theirs.recv(1 << 16))
        self.theirs.sendall(self.client.pending())
        await shaking
        return self

    def said(self, data: bytes) -> bytes:
        """As it is on the wire."""
        self.client.send(data)
        return self.client.pending()


def run(work: Callable[[Pair], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            pair = Pair()
            with pair.theirs, pair.fence.link.socket:
                await work(await pair.shaken())

    asyncio.run(main())


def test_nothing_has_come_yet() -> None:
    async def work(pair: Pair) -> None:
        assert pair.fence.take() is None

    run(work)


def test_half_a_record_is_nothing_and_the_rest_makes_it_whole() -> None:
    async def work(pair: Pair) -> None:
        wire = pair.said(b"hello")
        pair.theirs.sendall(wire[:9])
        assert pair.fence.take() is None
        pair.theirs.sendall(wire[9:])
        assert pair.fence.take() == b"hello"
        assert pair.fence.take() is None

    run(work)


def test_several_records_come_at_once() -> None:
    async def work(pair: Pair) -> None:
        sent = bytes(RECORD) + b"next"
        pair.theirs.sendall(pair.said(sent) + pair.said(b"last"))
        assert pair.fence.take() == sent + b"last"
        assert pair.fence.take() is None

    run(work)


def test_a_record_and_a_half_give_out_the_whole_one() -> None:
    async def work(pair: Pair) -> None:
        first, second = pair.said(b"first"), pair.said(b"second")
        pair.theirs.sendall(first + second[:7])
        assert pair.fence.take() == b"first"
        pair.theirs.sendall(second[7:])
        assert await pair.fence.read() == b"second"

    run(work)


def test_an_end_in_good_order_stays_the_end() -> None:
    async def work(pair: Pair) -> None:
        wire = pair.said(b"bye")
        pair.client.close()
        pair.theirs.sendall(wire + pair.client.pending())
        assert await pair.fence.read() == b"bye"
        assert pair.fence.session.ended
        assert pair.fence.take() == await pair.fence.read() == b""

    run(work)


def test_a_connection_that_is_cut_off_is_not_at_its_end() -> None:
    async def work(pair: Pair) -> None:
        pair.theirs.sendall(pair.said(b"and"))
        pair.theirs.shutdown(socket.SHUT_WR)
        assert pair.fence.take() == b"and"
        with pytest.raises(Cut):
            pair.fence.take()

    run(work)


def test_the_one_that_can_be_read_is_told() -> None:
    async def work(pair: Pair) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            other = Link(ours)
            theirs.send(b".")
            assert await readable(pair.fence.link, other) is other
            pair.theirs.sendall(pair.said(b"."))
            assert other.take() == b"."
            assert await readable(pair.fence.link, other) is pair.fence.link

    run(work)
