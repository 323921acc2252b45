"""A server inside a real sandbox, opened from the host's loopback; and all that stays closed.

Each scene plays in a process and a network namespace of its own, which stands for the host's.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from ags.egress import origins
from ags.egress import ports as module
from ags.egress.origins import PAGES
from ags.egress.ports import LOOPBACK, Ports, Published, Spares
from ags.errors import AgsError
from ags.kernel.netns import Wanted
from tests.attack.conftest import shared_bwrap
from tests.box import Box
from tests.kernel.test_netns import OUTSIDE, Scene, Seat, held, sitting

__all__ = ["shared_bwrap"]

SERVER = """
import threading
def serve(address, family=socket.AF_INET, kept=[]):
    server = socket.create_server((address, 5173), family=family, backlog=128)
    def answer(one):
        got = b''
        while data := one.recv(65536):
            got += data
        one.sendall(b'inside:' + got)
        one.close()
    def accept():
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
"""
FOUR, SIX = "serve('127.0.0.1'); wait()", "serve('::1', socket.AF_INET6); wait()"


@pytest.fixture(params=("root", "ordinary"))
def seat(request: pytest.FixtureRequest, shared_bwrap: str) -> Iterator[Seat]:
    with sitting(request.param, shared_bwrap) as made:
        yield made


@pytest.fixture
def root(shared_bwrap: str) -> Iterator[Seat]:
    with sitting("root", shared_bwrap) as made:
        yield made


@contextlib.asynccontextmanager
async def working(
    box: Box, script: str, spares: int = 8, ags_home: Path | None = None
) -> AsyncIterator[tuple[Scene, Ports]]:
    async with held(box, SERVER + script, Wanted((4433,), spares=spares)) as scene:
        await scene.go()
        ports = Ports(Spares(scene.sandbox.init, scene.opened), scene.opened, ags_home)
        try:
            yield scene, ports
        finally:
            await ports.close()


async def said_by(host_port: int, text: bytes, address: str = LOOPBACK) -> str:
    """What the server inside answers, or how it was refused."""
    try:
        reader, writer = await asyncio.open_connection(address, host_port)
        writer.write(text)
        writer.write_eof()
        async with asyncio.timeout(60):
            found = await reader.read(-1)
        writer.close()
    except ConnectionError as error:
        return type(error).__name__
    return found.decode()


async def serves(ports: Ports, count: int) -> None:
    async with asyncio.timeout(60):
        while len(ports._serving) != count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("script", [FOUR, SIX], ids=["IPv4", "IPv6"])
def test_a_server_inside_answers_on_the_hosts_loopback(seat: Seat, script: str) -> None:
    async def scene(box: Box) -> object:
        async with working(box, script) as (_, ports):
            made = ports.publish(5173)
            return made.host_port, made.url, await said_by(made.host_port, b"hello")

    assert seat.play(scene) == [5173, "http://127.0.0.1:5173", "inside:hello"]


def test_it_is_on_no_other_address_of_the_host(root: Seat) -> None:
    async def scene(box: Box) -> object:
        async with working(box, FOUR) as (_, ports):
            ports.publish(5173)
            return [await said_by(5173, b"", address) for address in (OUTSIDE, "::1", LOOPBACK)]

    assert root.play(scene) == ["ConnectionRefusedError"] * 2 + ["inside:"]


def test_more_connections_than_there_were_spare_sockets_all_arrive(seat: Seat) -> None:
    async def scene(box: Box) -> object:
        async with working(box, FOUR, spares=2) as (_, ports):
            before = len(os.listdir("/proc/self/fd"))
            host_port = ports.publish(5173).host_port
            texts = [str(number).encode() for number in range(40)]
            said = await asyncio.gather(*(said_by(host_port, text) for text in texts))
            async with asyncio.timeout(60):
                while len(os.listdir("/proc/self/fd")) - before > most:
                    await asyncio.sleep(0.02)
            return said

    most = 2 * module.FETCH + 1  # spare sockets, and the listener
    assert seat.play(scene) == [f"inside:{number}" for number in range(40)]


def test_much_goes_both_ways_unharmed(root: Seat) -> None:
    size = 16 << 20

    async def scene(box: Box) -> object:
        async with working(box, FOUR) as (_, ports):
            reader, writer = await asyncio.open_connection(LOOPBACK, ports.publish(5173).host_port)
            sent = os.urandom(size)
            writer.write(sent)
            writer.write_eof()
            found = await reader.read(-1)
            writer.close()
            whole = hashlib.sha256(b"inside:" + sent).digest()
            return len(found), hashlib.sha256(found).digest() == whole

    assert root.play(scene) == [size + 7, True]


def test_where_nobody_listens_the_connection_is_reset_and_later_ones_are_not(root: Seat) -> None:
    script = "wait(); serve('127.0.0.1'); wait(); sys.stdin.read(1)"

    async def scene(box: Box) -> object:
        async with working(box, script) as (seen, ports):
            host_port = ports.publish(5173).host_port
            early = await said_by(host_port, b"early")
            os.write(seen.inward, b"-")
            async with asyncio.timeout(60):
                while seen.printed().count("ready") < 2:
                    await asyncio.sleep(0.01)
            return early, await said_by(host_port, b"late")

    assert root.play(scene) == ["ConnectionResetError", "inside:late"]


def test_the_host_port_is_the_one_named_or_another_where_the_same_is_taken(root: Seat) -> None:
    async def scene(box: Box) -> object:
        async with working(box, FOUR) as (_, ports):
            with socket.create_server((LOOPBACK, 5173)):
                made = ports.publish(5173)
                other = ports.publish(5174, 8090)
                taken = _refusal(lambda: ports.publish(5175, 8090))
            same = ports.publish(5173), ports.publish(5174, 8090)
            elsewhere = _refusal(lambda: ports.publish(5174, 8091))
            said = await said_by(made.host_port, b"x")
            kept = same == (made, other) and ports.published == (made, other)
            return made.host_port != 5173, other.host_port, taken, elsewhere, kept, said

    taken = "cannot publish the port (5175): port 8090 of this machine is taken"
    elsewhere = "cannot publish the port (5174): it is at 127.0.0.1:8090 already"
    assert root.play(scene) == [True, 8090, taken, elsewhere, True, "inside:x"]


def _refusal(act: Callable[[], Published]) -> str:
    with pytest.raises(AgsError) as caught:
        act()
    return str(caught.value)


def test_the_ports_of_our_own_page_are_given_to_no_sandbox(root: Seat) -> None:
    """A browser gives what it keeps for a page, its token too, to whoever listens there."""

    async def scene(box: Box) -> object:
        async with working(box, FOUR) as (_, ports):
            refused = []
            for host_port in PAGES:
                try:
                    ports.publish(5173, host_port)
                except AgsError as error:
                    refused.append(host_port)
                    assert "the page of ags" in error.cause
            return sorted(refused), [ports.publish(port).host_port in PAGES for port in PAGES]

    assert root.play(scene) == [sorted(PAGES), [False, False]]


def test_what_was_ever_ours_is_never_an_agents(root: Seat, tmp_path: Path) -> None:
    origins.note(tmp_path, "served", 5173)

    async def scene(box: Box) -> object:
        async with working(box, FOUR, ags_home=tmp_path) as (_, ports):
            other = ports.publish(5173).host_port
            return other, ports.publish(6000).host_port

    other, same = root.play(scene)
    assert other != 5173 and same == 6000
    assert origins.agents(tmp_path) == {other, 6000}


def test_who_had_which_port_is_kept(tmp_path: Path) -> None:
    assert (origins.ours(tmp_path), origins.agents(tmp_path)) == (PAGES, frozenset())
    for port in (9090, 9090, 9091):
        origins.note(tmp_path, "served", port)
    origins.note(tmp_path, "published", 5173)
    assert origins.ours(tmp_path) == PAGES | {9090, 9091}
    assert origins.agents(tmp_path) == {5173}
    (tmp_path / "server/served").write_text("damaged\n7000\n")
    assert origins.ours(tmp_path) == PAGES | {7000}


def test_ports_that_cannot_be_meant_are_refused(root: Seat) -> None:
    asked = [(0, 0), (-1, 0), (65536, 0), (80, 0), (53, 0), (3128, 0), (4433, 0)]
    asked += [(5173, 80), (5173, -1), (5173, 65536)]

    async def scene(box: Box) -> object:
        async with working(box, FOUR) as (_, ports):
            causes = [_refusal(lambda each=each: ports.publish(*each)) for each in asked]  # type: ignore[misc]
            listening = ports.published
            for number in range(module.MOST_PORTS):
                ports.publish(6000 + number)
            return causes, len(listening), _refusal(lambda: ports.publish(5173))

    causes, listening, last = root.play(scene)
    ends = ["from 1 to 65535"] * 3 + ["listen below 1024"] + ["the fence's own"] * 3
    ends += ["may be used for it"] * 3
    assert [cause.endswith(end) for cause, end in zip(causes, ends, strict=True)] == [True] * 10
    assert listening == 0 and last.endswith("32 ports of this run are published already")


def test_all_of_it_closes_with_the_run(root: Seat) -> None:
    async def scene(box: Box) -> object:
        async with working(box, FOUR) as (_, ports):
            host_port = ports.publish(5173).host_port
            reader, writer = await asyncio.open_connection(LOOPBACK, host_port)
            writer.write(b"half")
            await serves(ports, 1)
            await ports.close()
            try:
                ended = (await reader.read(-1)).decode()
            except ConnectionResetError:
                ended = "reset"
            writer.close()
            return ended, await said_by(host_port, b"late")

    assert root.play(scene) == ["reset", "ConnectionRefusedError"]


def test_a_sandbox_that_has_ended_resets_and_nothing_else_is_joined(root: Seat) -> None:
    async def scene(box: Box) -> object:
        async with working(box, FOUR, spares=1) as (seen, ports):
            host_port = ports.publish(5173).host_port
            await seen.sandbox.kill()
            return [await said_by(host_port, b"late") for _ in range(3)]

    assert root.play(scene) == ["ConnectionResetError"] * 3


def test_more_connections_than_there_may_be_are_turned_away(root: Seat) -> None:
    async def scene(box: Box) -> object:
        module.MOST = 2
        async with working(box, FOUR) as (_, ports):
            host_port = ports.publish(5173).host_port
            idle = [await asyncio.open_connection(LOOPBACK, host_port) for _ in range(2)]
            await serves(ports, 2)
            third = await said_by(host_port, b"x")
            for _, writer in idle:
                writer.close()
            async with asyncio.timeout(60):
                while (later := await said_by(host_port, b"y")) == third:
                    await asyncio.sleep(0.02)
            return third, later

    assert root.play(scene) == ["ConnectionResetError", "inside:y"]
