"""From a name to a connection. The world is a network namespace with two others behind cables: real
addresses, real connections, and no way on to anywhere."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import TypeVar

import pytest

from ags.egress import resolve as resolving
from ags.egress.dns import answer
from ags.egress.hosts import Address
from ags.egress.pool import Pool
from ags.egress.resolve import Unreachable, dial, own, resolve, system_lookup
from tests.descriptors import held
from tests.egress.test_dns import A, name, query, read

T = TypeVar("T")
CLONE_NEWNET = 0x40000000
PUBLIC, PUBLIC_6 = "93.184.216.34", "2606:2800:220::34"
SILENT = "93.184.217.34"
"""Packets to it are lost on the way."""
OURS = "93.184.218.9"


@dataclass
class Lookup:
    """Answers as told, and counts."""

    answers: Sequence[str]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, wanted: str) -> Sequence[str]:
        self.asked.append(wanted)
        return self.answers


def found(host: str, *answers: str, fixed: str | None = None) -> list[str]:
    addresses = asyncio.run(resolve(host, Lookup(answers), fixed))
    return [str(address) for address in addresses]


def refused(act: Callable[[], Awaitable[object]]) -> Unreachable:
    async def scene() -> None:
        await act()

    with pytest.raises(Unreachable) as caught:
        asyncio.run(scene())
    return caught.value


def test_a_name_is_looked_up_once_and_leads_to_all_its_addresses() -> None:
    lookup = Lookup((PUBLIC, PUBLIC_6, PUBLIC))
    addresses = asyncio.run(resolve("api.example", lookup))
    assert [str(address) for address in addresses] == [PUBLIC, PUBLIC_6]
    assert lookup.asked == ["api.example"]


SPECIAL = (
    "127.0.0.1", "10.0.0.5", "172.16.9.9", "192.168.1.1", "100.64.0.1", "169.254.169.254",
    "169.254.1.1", "0.0.0.0", "198.18.0.1", "198.19.4.4", "224.0.0.1", "255.255.255.255",
    "192.0.2.1", "::", "::1", "fe80::1", "fd00::1", "::ffff:10.0.0.5", "::ffff:93.184.216.34",
    "64:ff9b::a00:5", "2002:a00:5::", "2001:db8::1", "fe80::1%1",
)  # fmt: skip


@pytest.mark.parametrize("answer", SPECIAL)
def test_a_name_that_leads_to_a_special_address_is_refused(answer: str) -> None:
    error = refused(lambda: resolve("api.example", Lookup((answer,))))
    assert error.reason == "address"
    assert error.hint


@pytest.mark.parametrize("answer", SPECIAL)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_special_answer_among_good_ones_refuses_all(answer: str, place: int) -> None:
    answers = [PUBLIC, PUBLIC_6]
    assert found("api.example", *answers) == answers
    answers.insert(place, answer)
    assert refused(lambda: resolve("api.example", Lookup(answers))).reason == "address"


def test_a_name_that_changes_its_answer_gains_nothing() -> None:
    class Rebinding(Lookup):
        async def __call__(self, wanted: str) -> Sequence[str]:
            await super().__call__(wanted)
            return (PUBLIC,) if len(self.asked) == 1 else ("127.0.0.1",)

    lookup = Rebinding(())
    assert asyncio.run(resolve("api.example", lookup)) == (IPv4Address(PUBLIC),)
    assert lookup.asked == ["api.example"]


def test_an_address_literal_is_judged_and_never_looked_up() -> None:
    lookup = Lookup((PUBLIC,))
    for literal in (PUBLIC, "10.0.0.5", "192.168.7.7"):
        assert asyncio.run(resolve(literal, lookup)) == (IPv4Address(literal),)
    for literal in ("127.0.0.1", "::1", "169.254.169.254", "198.18.0.1", "224.0.0.1", "0.0.0.0"):
        assert refused(lambda literal=literal: resolve(literal, lookup)).reason == "address"  # type: ignore[misc]
    assert lookup.asked == []


def test_a_name_without_an_address_is_unresolved() -> None:
    assert refused(lambda: resolve("api.example", Lookup(()))).reason == "unresolved"


@pytest.mark.parametrize("answer", ["", "localhost", "10.0.0.5; DROP", "127.1", "1.2.3.4.5"])
def test_an_answer_that_is_no_address_is_refused(answer: str) -> None:
    assert refused(lambda: resolve("api.example", Lookup((answer,)))).reason == "address"


def test_an_upstream_of_the_persons_own_may_be_anywhere_and_asks_nobody() -> None:
    lookup = Lookup((PUBLIC,))
    for fixed in ("10.0.0.5", "127.0.0.1", "fd00::1"):
        addresses = asyncio.run(resolve("git.company.example", lookup, fixed))
        assert addresses == (ip_address(fixed),)
    assert lookup.asked == []


def test_an_upstream_must_be_an_address() -> None:
    error = refused(lambda: resolve("git.company.example", Lookup(()), "gateway.example"))
    assert error.reason == "address"


class World:
    """Two other machines, behind a cable each."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.here = self._namespace()
        self._ip("link set lo up")
        self._machine("a", (PUBLIC, PUBLIC_6), ("93.184.216.1", "2606:2800:220::1"))
        self._machine("b", (SILENT,), ("93.184.217.1",))
        self._ip(f"address add {OURS}/32 dev lo")

    def _namespace(self) -> int:
        assert self._libc.unshare(CLONE_NEWNET) == 0
        return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def _machine(self, label: str, theirs: Sequence[str], ours: Sequence[str]) -> None:
        there = self._namespace()
        setattr(self, label, there)
        self._enter(self.here)
        at = f"/proc/{os.getpid()}/fd/{there}"
        self._ip(f"link add {label}0 type veth peer name {label}1 netns {at}")
        self._up(f"{label}0", ours)
        with self.on(there):
            self._up(f"{label}1", theirs)

    def _up(self, device: str, addresses: Sequence[str]) -> None:
        self._ip(f"link set {device} up")
        for address in addresses:
            bits, more = (64, " nodad") if ":" in address else (24, "")
            self._ip(f"address add {address}/{bits} dev {device}{more}")

    def _ip(self, arguments: str) -> None:
        subprocess.run(("ip", *arguments.split()), check=True)

    def _enter(self, namespace: int) -> None:
        assert self._libc.setns(namespace, CLONE_NEWNET) == 0

    @contextmanager
    def on(self, namespace: int) -> Iterator[None]:
        """What is opened meanwhile is opened there."""
        self._enter(namespace)
        try:
            yield
        finally:
            self._enter(self.here)

    def listen(self, address: str, port: int = 443) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self.on(self.a):  # type: ignore[attr-defined]
            return socket.create_server((address, port), family=family)

    def close(self) -> None:
        for namespace in (self.here, self.a, self.b):  # type: ignore[attr-defined]
            os.close(namespace)


@pytest.fixture
def world() -> Iterator[World]:
    if os.geteuid() != 0:
        pytest.skip("a world of its own needs root")
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    made = World()
    try:
        yield made
    finally:
        made.close()
        assert libc.setns(before, CLONE_NEWNET) == 0
        os.close(before)


def addresses(*texts: str) -> tuple[Address, ...]:
    return tuple(map(ip_address, texts))


def dialled(*texts: str, port: int = 443, timeout: float = 60) -> tuple[str, float]:
    async def scene() -> tuple[str, float]:
        start = time.monotonic()
        made = await dial(addresses(*texts), port, timeout)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with made.socket as connection:
            assert connection.getpeername()[0] == str(made.address)
            assert not connection.get_inheritable()
        return str(made.address), time.monotonic() - start

    return asyncio.run(scene())


def accepted(listener: socket.socket, wanted: int = 0) -> int:
    """As many as are wanted are waited for, and then whether there are more."""
    count = 0
    while True:
        listener.settimeout(60 if count < wanted else 0.1)
        try:
            listener.accept()[0].close()
        except TimeoutError:
            return count
        count += 1


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_6])
def test_a_judged_address_is_reached(world: World, address: str) -> None:
    with world.listen(address) as listener:
        assert dialled(address)[0] == address
        assert accepted(listener, 1) == 1


def test_an_address_that_refuses_makes_way_for_the_next_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "STAGGER", 600.0)
    with world.listen(PUBLIC) as listener:
        address, _ = dialled(PUBLIC_6, PUBLIC)
        assert (address, accepted(listener, 1)) == (PUBLIC, 1)


def test_an_address_that_does_not_answer_is_not_waited_for(world: World) -> None:
    _lose_packets(world)
    with world.listen(PUBLIC) as listener:
        address, took = dialled(SILENT, PUBLIC)
        assert (address, accepted(listener, 1)) == (PUBLIC, 1)
        assert took >= resolving.STAGGER


def _lose_packets(world: World) -> None:
    """As a firewall that drops: the address is there, but says nothing."""
    subprocess.run(("ip", "route", "add", f"{SILENT}/32", "dev", "b0"), check=True)
    with world.on(world.b):  # type: ignore[attr-defined]
        subprocess.run(("ip", "route", "add", "blackhole", "93.184.217.1"), check=True)


def test_with_nobody_there_the_error_says_why_and_nothing_stays_open(world: World) -> None:
    _lose_packets(world)
    before = held()
    slow = refused(lambda: dial(addresses(SILENT), 443, 0.5))
    assert (slow.reason, slow.cause) == ("unreachable", "no answer for 0.5 s")
    closed = refused(lambda: dial(addresses(PUBLIC, PUBLIC_6), 443, 60))
    assert (closed.reason, "refused" in closed.cause.lower()) == ("unreachable", True)
    assert refused(lambda: dial(addresses("8.8.8.8"), 443, 60)).reason == "unreachable"
    assert refused(lambda: dial((), 443, 60)).reason == "unreachable"
    assert held() == before


def test_only_so_many_addresses_are_tried(world: World) -> None:
    bad = ["93.184.216.1"] * resolving.MOST_DIALLED
    with world.listen(PUBLIC) as listener:
        assert refused(lambda: dial(addresses(*bad, PUBLIC), 443, 60)).reason == "unreachable"
        assert accepted(listener) == 0
        assert dialled(*bad[1:], PUBLIC)[0] == PUBLIC


def test_the_families_take_turns_in_the_order_of_the_resolver() -> None:
    four, six = ("1.1.1.1", "1.1.1.2", "1.1.1.3"), ("2600::1", "2600::2")
    in_turn = resolving._in_turn
    assert in_turn(addresses(*six, *four)) == list(
        addresses("2600::1", "1.1.1.1", "2600::2", "1.1.1.2", "1.1.1.3")
    )
    assert in_turn(addresses(*four, *six)) == list(
        addresses("1.1.1.1", "2600::1", "1.1.1.2", "2600::2", "1.1.1.3")
    )
    assert in_turn(()) == []


def test_an_address_of_this_machine_is_refused_although_public(world: World) -> None:
    assert own(ip_address(OURS)) and own(ip_address("2606:2800:220::1"))
    assert refused(lambda: resolve("me.example", Lookup((OURS,)))).reason == "address"
    assert not own(ip_address(PUBLIC)) and not own(ip_address("8.8.8.8"))
    assert found("api.example", PUBLIC) == [PUBLIC]


class Nameserver:
    """At the address that this machine's resolver asks, in the world of the test."""

    def __init__(self, answers: dict[str, str]) -> None:
        lines = Path("/etc/resolv.conf").read_text().splitlines()
        servers = [line.split()[1] for line in lines if line.startswith("nameserver")]
        at = servers[0] if servers else "127.0.0.1"
        if not at.startswith("127."):
            bits = 128 if ":" in at else 32
            subprocess.run(("ip", "address", "add", f"{at}/{bits}", "dev", "lo"), check=True)
        family = socket.AF_INET6 if ":" in at else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind((at, 53))
        self.answers = answers
        self.asked: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while asked := (received := self._socket.recvfrom(2048))[0]:
            wanted = _asked_for(asked)
            self.asked.append(wanted)
            if self.answers.get(wanted) != "silence":
                self._socket.sendto(_reply(asked, self.answers.get(wanted)), received[1])

    def close(self) -> None:
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


def _asked_for(asked: bytes) -> str:
    labels, at = [], 12
    while asked[at]:
        labels.append(asked[at + 1 : at + 1 + asked[at]].decode())
        at += 1 + asked[at]
    return ".".join(labels)


def _reply(asked: bytes, address: str | None) -> bytes:
    end = 12 + len(name(_asked_for(asked))) + 4
    question, type_ = asked[12:end], int.from_bytes(asked[end - 4 : end - 2], "big")
    flags = b"\x81\x80" if address else b"\x81\x83"
    record = b""
    if address and type_ == A:
        record = b"\xc0\x0c\0\1\0\1\0\0\0\x05\0\4" + IPv4Address(address).packed
    counts = b"\0\1" + (b"\0\1" if record else b"\0\0") + b"\0\0\0\0"
    return asked[:2] + flags + counts + question + record


@contextmanager
def nameserver(**answers: str) -> Iterator[Nameserver]:
    made = Nameserver({key.replace("_", "."): value for key, value in answers.items()})
    try:
        yield made
    finally:
        made.close()


def test_this_machines_resolver_is_asked_for_exactly_this_name(world: World) -> None:
    with nameserver(api_example=PUBLIC) as server:
        found = asyncio.run(resolve("api.example", system_lookup))
    assert found == (IPv4Address(PUBLIC),)
    assert set(server.asked) == {"api.example"}


AFRESH = """
import asyncio, socket, sys
sys.path.insert(0, sys.argv[1])
from ags.egress import resolve
resolve.LOOKUP_TIMEOUT = 2.0 if "silence" in sys.argv else 60.0
try:
    print(asyncio.run(resolve.resolve("api.example", resolve.system_lookup)))
except resolve.Unreachable as error:
    print(error.reason, error.cause, sep=": ")
if "compare" in sys.argv:
    print(*socket.getaddrinfo("api.example", None, type=socket.SOCK_STREAM)[0][4])
"""


def afresh(*arguments: str, **environment: str) -> list[str]:
    """In a process of its own: the C library reads its settings once."""
    source = Path(resolving.__file__).parent.parent.parent
    done = subprocess.run(
        (sys.executable, "-I", "-c", AFRESH, str(source), *arguments),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_what_does_not_exist_is_unresolved_and_no_other_name_is_tried(world: World) -> None:
    """Not even where a company's search list would make another name of it."""
    with nameserver(api_example_corp_example=PUBLIC) as server:
        (said,) = afresh(LOCALDOMAIN="corp.example")
        assert said == "unresolved: there is no such name, or it has no address"
        assert set(server.asked) == {"api.example"}
        assert afresh("compare", LOCALDOMAIN="corp.example")[1] == f"{PUBLIC} 0"


def test_a_private_answer_of_the_resolver_is_refused(world: World) -> None:
    with nameserver(api_example="10.0.0.5") as server:
        assert refused(lambda: resolve("api.example", system_lookup)).reason == "address"
        assert server.asked


def test_a_resolver_that_says_nothing_is_not_waited_for(world: World) -> None:
    with nameserver(api_example="silence") as server:
        (said,) = afresh("silence", RES_OPTIONS="timeout:5 attempts:1")
        assert said == "unresolved: no answer about it for 2 s"
        assert server.asked


def test_what_another_fence_answers_is_never_dialled() -> None:
    """If this machine's resolver were the one of a run."""
    made = read(answer(query("api.example"), Pool())).address
    assert made
    assert refused(lambda: resolve("api.example", Lookup((made,)))).reason == "address"
