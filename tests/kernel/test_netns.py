"""Sockets in a real sandbox's network namespace, opened from every seat: root for itself, root for
an ordinary user, and that user alone. What arrives is asked of who would get it, never of who sent.

Each scene plays in a process and a network namespace of its own, which stands for the host's.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import encodings.idna  # loaded as long as everything can be read
import json
import marshal
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ags.backends.base import Sandbox, Streams
from ags.backends.bubblewrap import Bubblewrap
from ags.errors import AgsError
from ags.kernel import netns
from ags.kernel.netns import Helper, Opened, Wanted, open_sockets
from tests.attack.conftest import ORDINARY, shared_bwrap
from tests.box import Box
from tests.kernel.fenced import in_child

__all__ = ["encodings", "shared_bwrap"]

Put = Callable[..., None]
REFUSED, ENDLESS = "cannot open the network fence: ", "import time; time.sleep(600)"
CLONE_NEWNET, PR_CAPBSET_DROP, CAP_SYS_ADMIN = 0x40000000, 24, 21
OUTSIDE = "11.0.0.9"
"""An address of the host that stands for all there is outside."""


@dataclass
class Seat:
    """Who starts a sandbox, and for whom."""

    name: str
    box: Box

    def play(self, scene: Callable[[Box], Coroutine[Any, Any, object]]) -> Any:
        def work() -> str:
            return json.dumps(asyncio.run(scene(self.box)))

        said = in_child(work, behind=None, prepare=self._sit)
        try:
            return json.loads(said)
        except ValueError:
            raise AssertionError(said) from None

    def run(self, script: str, wanted: Wanted) -> Any:
        """What a script inside brought about, from its release to its end."""

        async def scene(box: Box) -> object:
            async with held(box, script, wanted) as seen:
                await seen.sandbox.release()
                await seen.sandbox.wait()
                return seen.arrived, seen.datagrams, seen.printed(), seen.opened.ipv6

        return self.play(scene)

    def _sit(self) -> None:
        assert ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0
        subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
        subprocess.run(("ip", "address", "add", f"{OUTSIDE}/32", "dev", "lo"), check=True)
        if self.name == "user":  # root as it may be in a container, without the right to join
            assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) == 0
        if self.name == "ordinary":
            # Our Python need not be where this user can run it, and another may not take its code.
            source = Path(netns.__file__).read_bytes()
            vars(netns).update(RUN=f"exec(open({netns.CODE}).read())", compiled=lambda: source)
            sys.executable = "/usr/bin/python3"
            os.setgroups([])
            os.setresgid(ORDINARY, ORDINARY, ORDINARY)
            os.setresuid(ORDINARY, ORDINARY, ORDINARY)


@contextlib.contextmanager
def sitting(name: str, program: str) -> Iterator[Seat]:
    if os.geteuid() != 0:
        pytest.skip("a network namespace that stands for the host's needs root")
    with tempfile.TemporaryDirectory(prefix="ags-netns-") as base:
        os.chmod(base, 0o755)
        workspace, home = Path(base, "workspace"), Path(base, "home")
        for folder in (workspace, home):
            folder.mkdir()
            os.chown(folder, *((0, 0) if name == "root" else (ORDINARY, ORDINARY)))
        yield Seat(name, Box(workspace, home, Bubblewrap(program)))


@pytest.fixture(params=("root", "user", "ordinary"))
def seat(request: pytest.FixtureRequest, shared_bwrap: str) -> Iterator[Seat]:
    with sitting(request.param, shared_bwrap) as made:
        yield made


@pytest.fixture
def root(shared_bwrap: str) -> Iterator[Seat]:
    with sitting("root", shared_bwrap) as made:
        yield made


TOOLS = """
import errno, socket, struct, sys
def tried(act, *given):
    try:
        return act(*given)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
def talk(kind, family, address, port):
    with socket.socket(family, kind) as s:
        s.settimeout(60)
        s.connect((address, port))
        if kind == socket.SOCK_DGRAM:
            s.send(b'query')
        return s.recv(99).decode()
def dial(address, port, family=socket.AF_INET):
    return tried(talk, socket.SOCK_STREAM, family, address, port)
def send(address, port):
    return tried(talk, socket.SOCK_DGRAM, socket.AF_INET, address, port)
def wait():
    print('ready', flush=True)
    sys.stdin.read(1)
"""


@dataclass
class Scene:
    """A sandbox with its sockets, the command still held."""

    sandbox: Sandbox
    opened: Opened
    out: int
    inward: int
    arrived: list[tuple[str, int]] = field(default_factory=list)
    datagrams: list[str] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def printed(self) -> list[str]:
        return os.pread(self.out, 1 << 16, 0).decode().splitlines()

    async def go(self) -> None:
        """Until the script waits."""
        await self.sandbox.release()
        async with asyncio.timeout(60):
            while "ready" not in self.printed():
                await asyncio.sleep(0.01)

    def serve(self, *listeners: socket.socket) -> None:
        self.tasks += [asyncio.create_task(self._accept(one)) for one in listeners]

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            self.arrived.append(connection.getsockname()[:2])
            with connection:
                connection.send(b"the fence")

    async def receive(self, datagrams: socket.socket) -> None:
        while True:
            said, sender = await asyncio.get_running_loop().sock_recvfrom(datagrams, 99)
            self.datagrams.append(said.decode())
            datagrams.sendto(b"the fence", sender)


@contextlib.asynccontextmanager
async def held(box: Box, script: str, wanted: Wanted) -> AsyncIterator[Scene]:
    """The script waits at the gate; whatever is accepted is noted and greeted."""
    theirs, ours = os.pipe()
    with tempfile.TemporaryFile() as out:
        command = ("/usr/bin/python3", "-I", "-c", TOOLS + script)
        streams = Streams(theirs, out.fileno(), out.fileno())
        sandbox = await box.backend.launch(box.plan(*command), streams)
        try:
            opened = await open_sockets(sandbox.init, wanted)
            assert opened.dns_udp and opened.dns_tcp and opened.proxy
            scene = Scene(sandbox, opened, out.fileno(), ours)
            scene.serve(*opened.listeners, opened.dns_tcp, opened.proxy)
            scene.tasks.append(asyncio.create_task(scene.receive(opened.dns_udp)))
            yield scene
            for task in scene.tasks:
                task.cancel()
            opened.close()
        finally:
            os.close(ours)
            os.close(theirs)
            await sandbox.kill()


@contextlib.asynccontextmanager
async def launched(box: Box) -> AsyncIterator[Sandbox]:
    with open("/dev/null", "r+b") as null:
        streams = Streams(null.fileno(), null.fileno(), null.fileno())
        sandbox = await box.backend.launch(box.plan("/bin/true"), streams)
        yield sandbox
        await sandbox.kill()


def test_any_address_on_a_served_port_arrives_here_and_other_ports_are_refused(seat: Seat) -> None:
    dialled = ["198.18.7.7", "198.19.255.255", "8.8.8.8", "169.254.169.254", "127.0.0.1"]
    script = f"""
print(*(dial(address, 443) for address in {dialled}), sep=chr(10))
print(dial('2606:4700::1111', 80, socket.AF_INET6))
print(dial('8.8.8.8', 22), dial('2606:4700::1111', 22, socket.AF_INET6))
"""
    arrived, _, printed, ipv6 = seat.run(script, Wanted((443, 80)))
    assert arrived == [*([address, 443] for address in dialled), ["2606:4700::1111", 80]]
    assert (printed, ipv6) == ([*["the fence"] * 6, "ECONNREFUSED ECONNREFUSED"], True)


def test_nothing_arrives_outside(seat: Seat) -> None:
    """The host listens on the dialled address; the same dial from the host arrives there."""

    async def scene(box: Box) -> object:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with socket.create_server((OUTSIDE, 4433)) as tcp, datagrams as udp:
            udp.bind((OUTSIDE, 5353))
            script = f"print(dial({OUTSIDE!r}, 4433), send({OUTSIDE!r}, 5353)); wait()"
            async with held(box, script, Wanted((4433,))) as seen:
                await seen.go()
                from_inside = len(select.select((tcp, udp), (), (), 0.2)[0])
                socket.create_connection((OUTSIDE, 4433)).close()
                udp.sendto(b"query", (OUTSIDE, 5353))
                from_here = sum(len(select.select((s,), (), (), 60)[0]) for s in (tcp, udp))
                return seen.arrived, seen.printed()[0], from_inside, from_here

    assert seat.play(scene) == [[[OUTSIDE, 4433]], "the fence ECONNREFUSED", 0, 2]


def test_dns_and_the_proxy_are_at_the_gateway_and_nowhere_else(seat: Seat) -> None:
    others = (("8.8.8.8", 53), ("198.18.0.1", 443), ("198.18.7.7", 53), ("127.0.0.1", 53))
    script = f"""
print(send('198.18.0.1', 53), *(send(*other) for other in {others}))
[dial(address, port) for address in ('198.18.0.1', '198.18.0.2') for port in (53, 3128)]
"""
    arrived, datagrams, printed, _ = seat.run(script, Wanted((443,)))
    assert (arrived, datagrams) == ([["198.18.0.1", 53], ["198.18.0.1", 3128]], ["query"])
    assert printed == ["the fence " + " ".join(["ECONNREFUSED"] * 4)]


NETLINK = """
def ask(kind, body, flags=0x405):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.send(struct.pack('=IHHII', 16 + len(body), kind, flags, 1, 0) + body)
        return errno.errorcode.get(-struct.unpack_from('=i', s.recv(4096), 16)[0], 'done')
route = struct.pack('=8BI', 2, 32, 0, 0, 254, 4, 253, 1, 0)
route += struct.pack('=HH4s', 8, 1, bytes((9, 9, 9, 9))) + struct.pack('=HHi', 8, 4, 1)
address = struct.pack('=BBBBi', 2, 32, 0, 0, 1) + struct.pack('=HH4s', 8, 2, bytes((9, 9, 9, 8)))
device = struct.pack('=BxHiII', 0, 0, 0, 0, 0) + struct.pack('=HHHH8s', 16, 18, 12, 1, b'veth')
down = struct.pack('=BxHiII', 0, 0, 1, 0, 1)
print(ask(24, route), ask(20, address), ask(25, route, 5), ask(16, device), ask(16, down, 5))
"""


def test_nothing_inside_can_change_a_route_an_address_or_a_device(seat: Seat) -> None:
    async def scene(box: Box) -> object:
        async with held(box, NETLINK + "wait()", Wanted((443,))) as seen:
            before = _network(seen.sandbox.init)
            await seen.go()
            return before == _network(seen.sandbox.init), seen.printed()[0]

    assert seat.play(scene) == [True, " ".join(["EPERM"] * 5)]


def test_who_has_the_right_can_change_all_of_it(root: Seat) -> None:
    """The twin: the very same requests, by root in a network namespace of its own."""
    command = ("/usr/bin/python3", "-I", "-c", TOOLS + NETLINK)

    async def scene(_: Box) -> object:
        before = _network(os.getpid())
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        return before != _network(os.getpid()), done.stdout.decode().split()

    assert root.play(scene) == [True, ["done"] * 5]


def _network(pid: int) -> list[str]:
    """All that leads anywhere, without what is counted there."""
    texts = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("fib_trie", "if_inet6")]
    counted = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("dev", "ipv6_route")]
    return texts + [line.split()[0] for text in counted for line in text.splitlines()]


def test_no_raw_packets_and_no_pings_leave_a_process_inside(seat: Seat) -> None:
    script = """
def made(*kind):
    return 'made' if socket.socket(*kind) else ''
raw = [(socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58)]
raw += [(socket.AF_INET, socket.SOCK_DGRAM, 1), (socket.AF_PACKET, socket.SOCK_RAW, 0)]
print(*(tried(made, *kind) for kind in (*raw, (socket.AF_INET, socket.SOCK_STREAM))))
"""
    *refused, allowed = seat.run(script, Wanted())[2][0].split()
    assert (len(refused), "made" in refused, allowed) == (4, False, "made")


def test_a_port_that_the_fence_listens_on_cannot_be_taken_inside(seat: Seat) -> None:
    script = """
def take(address, port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind((address, port))
        return s.listen() or 'taken'
fences = (('0.0.0.0', 8443), ('198.18.7.7', 8443), ('127.0.0.1', 8443), ('198.18.0.1', 3128))
print(*(tried(take, *place) for place in (*fences, ('127.0.0.1', 8444))))
"""
    assert seat.run(script, Wanted((8443,)))[2] == ["EADDRINUSE " * 4 + "taken"]


def test_ports_can_be_added_while_the_command_runs(seat: Seat) -> None:
    async def scene(box: Box) -> object:
        script = "asked = lambda: print(dial('8.8.8.8', 22), dial('8.8.8.8', 5432))\n"
        async with held(box, script + "asked(); wait(); asked()", Wanted()) as seen:
            await seen.go()
            spare = seen.opened.spares[0]
            spare.bind(("0.0.0.0", 22))
            spare.listen()
            more = await open_sockets(seen.sandbox.init, Wanted((5432,), gateway=False, spares=2))
            seen.serve(spare, *more.listeners)
            os.write(seen.inward, b"-")
            await seen.sandbox.wait()
            return seen.printed(), [len(more.spares), len(more.spares6), more.dns_udp]

    printed = ["ECONNREFUSED ECONNREFUSED", "ready", "the fence the fence"]
    assert seat.play(scene) == [printed, [2, 2, None]]


def test_spare_sockets_reach_a_server_inside_on_both_families(seat: Seat) -> None:
    script = """
four = socket.create_server(('127.0.0.1', 5173))
six = socket.create_server(('::1', 5174), family=socket.AF_INET6)
wait()
[server.accept()[0].send(b'from inside') for server in (four, six)]
"""

    async def scene(box: Box) -> object:
        loop = asyncio.get_running_loop()
        async with held(box, script, Wanted()) as seen:
            await seen.go()
            os.write(seen.inward, b"-")
            four, six = seen.opened.spares[0], seen.opened.spares6[0]
            await loop.sock_connect(four, ("127.0.0.1", 5173))
            await loop.sock_connect(six, ("::1", 5174))
            return [(await loop.sock_recv(one, 99)).decode() for one in (four, six)]

    assert seat.play(scene) == ["from inside", "from inside"]


def test_a_port_that_a_program_inside_has_is_an_error_that_names_it(root: Seat) -> None:
    async def scene(box: Box) -> object:
        script = "server = socket.create_server(('127.0.0.1', 5432)); wait()"
        async with held(box, script, Wanted()) as seen:
            await seen.go()
            return await _refused(seen.sandbox.init, Wanted((5432,), gateway=False))

    assert "tcp port 5432 of 0.0.0.0: something inside has it" in root.play(scene)


async def _refused(init: int, wanted: Wanted, helper: Helper | None = None) -> str:
    with pytest.raises(AgsError) as caught:
        await open_sockets(init, wanted, helper)
    return str(caught.value)


def test_neither_our_own_network_nor_one_that_is_gone_is_touched(root: Seat) -> None:
    async def scene(box: Box) -> object:
        before = _network(os.getpid())
        own = await _refused(os.getpid(), Wanted((443,)), Helper())
        async with launched(box) as sandbox:
            await sandbox.kill()
            gone = await _refused(sandbox.init, Wanted())
        return own, gone, before == _network(os.getpid()), _children()

    own, gone = "the sandbox is in our own network namespace", "the sandbox has ended"
    assert root.play(scene) == [f"{REFUSED}{own}", f"{REFUSED}{gone}", True, ""]


def test_many_ports_are_all_served(root: Seat) -> None:
    script = "print({dial('8.8.8.8', port) for port in range(20000, 20150)})"
    arrived, _, printed, _ = root.run(script, Wanted(tuple(range(20000, 20150))))
    assert (len(arrived), printed) == (150, ["{'the fence'}"])


def test_a_helper_started_before_the_sandbox_opens_the_same(seat: Seat) -> None:
    async def scene(box: Box) -> object:
        before = len(os.listdir("/proc/self/fd"))
        helper = Helper()
        async with launched(box) as sandbox:
            opened = await open_sockets(sandbox.init, Wanted((443, 443), spares=1), helper)
            kinds = [(one.family, one.get_inheritable()) for one in opened.listeners]
            opened.close()
        return kinds, len(os.listdir("/proc/self/fd")) - before, _children()

    assert seat.play(scene) == [[[socket.AF_INET, False], [socket.AF_INET6, False]], 0, ""]


def _children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@pytest.fixture
def other_helper(monkeypatch: pytest.MonkeyPatch) -> Put:
    def put(script: str, patience: float = 60.0) -> None:
        monkeypatch.setattr(netns, "compiled", lambda: marshal.dumps(compile(script, "", "exec")))
        monkeypatch.setattr(netns, "TIMEOUT", patience)

    return put


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (ENDLESS, "the helper was not done after 0.3 s"),
        ("import sys; sys.exit(3)", "the helper ended without a word"),
        ("import os; os.write(2, b'it cannot be')", "it cannot be"),
    ],
)
def test_a_helper_that_fails_opens_nothing_and_leaves_nothing(
    root: Seat, other_helper: Put, script: str, said: str
) -> None:
    async def scene(box: Box) -> object:
        other_helper(script, 0.3 if script == ENDLESS else 60.0)
        async with launched(box) as sandbox:
            before = (_children(), len(os.listdir("/proc/self/fd")))
            told = await _refused(sandbox.init, Wanted((443,)))
            return told, before == (_children(), len(os.listdir("/proc/self/fd")))

    assert root.play(scene) == [f"{REFUSED}{said}", True]


def test_without_ipv6_the_rest_stands(root: Seat, other_helper: Put) -> None:
    text = Path(netns.__file__).read_text()
    impossible = text.replace('ROUTE_6 = ("6", "::", 0)', 'ROUTE_6 = ("6", "::", 200)')
    assert impossible != text
    other_helper(impossible)
    script = "print(dial('8.8.8.8', 443), dial('2606:4700::1111', 443, socket.AF_INET6))"
    expected = [[["8.8.8.8", 443]], [], ["the fence ENETUNREACH"], False]
    assert root.run(script, Wanted((443,))) == expected


@pytest.mark.parametrize(
    ("ports", "cause"),
    [
        ((0,), "0 is no port"),
        ((65536,), "65536 is no port"),
        ((443, 53), "port 53 is the fence's own"),
        ((3128,), "port 3128 is the fence's own"),
        (tuple(range(1000, 1600)), "600 ports are more than 500"),
    ],
)
def test_a_port_that_cannot_be_served_is_refused(ports: tuple[int, ...], cause: str) -> None:
    with pytest.raises(AgsError, match=cause):
        netns.orders(Wanted(ports))
    with pytest.raises(AgsError, match="nothing is wanted"):
        netns.orders(Wanted(gateway=False, spares=0))


def test_being_cancelled_ends_the_helper(root: Seat, other_helper: Put) -> None:
    async def scene(box: Box) -> object:
        other_helper(ENDLESS)
        async with launched(box) as sandbox:
            opening = asyncio.create_task(open_sockets(sandbox.init, Wanted()))
            await asyncio.sleep(0.1)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        return _children()

    assert root.play(scene) == ""


def test_the_helper_never_held_what_we_hold_and_ends_with_us(
    root: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGS_TEST_SECRET", "canary")

    async def scene(_: Box) -> object:
        with tempfile.TemporaryFile() as file:
            os.set_inheritable(file.fileno(), True)
            helper = Helper()
            at = Path(f"/proc/{helper._child.pid}")
            async with asyncio.timeout(60):
                while (at / "environ").read_text() or sorted(os.listdir(at / "fd")) != ["2", "3"]:
                    await asyncio.sleep(0.02)  # as Python starts, it has files open
                helper.channel.close()  # as the kernel does for who is killed
                return await helper._child.wait(), helper.said()

    assert root.play(scene) == [1, "the one who started this is gone"]
