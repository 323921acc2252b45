"""Sockets that live in a sandbox's network namespace and are held out here.

Two halves. The upper is a script: whoever joins a sandbox's namespaces must not have held a secret
and must not have threads, so it runs in an interpreter of its own, with the standard library alone,
no environment, and one descriptor to be told and to answer over. The lower half sends it, compiled
as it is: to compile it anew would take longer than all that it does.

The sandbox has no way out but `lo`. There, every address is made a local one: whatever is dialled
arrives at a listener of ours or at nobody. Inside, no process can change that: none has a right.
"""

from __future__ import annotations

# Not `socket`: with all it loads, it doubles the time that the helper needs to be there.
import _socket
import ctypes
import errno
import fcntl
import os
import struct

GATEWAY = "198.18.0.1"
"""Where DNS and the proxy for those who were told of one listen."""
DNS, PROXY = 53, 3128
BACKLOG = 1024
BATCH = 100
"""Descriptors in one message; the kernel takes 253."""

CHANNEL, CODE = 3, 4
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NS_GET_USERNS, NS_GET_OWNER_UID = 0xB701, 0xB704
RTM_NEWLINK, RTM_NEWROUTE, NLMSG_ERROR = 16, 24, 2
ASK, PUT = 0x001 | 0x004, 0x001 | 0x004 | 0x100 | 0x400
"""Request and acknowledge; and also replace or create."""
RTA_DST, RTA_OIF = 1, 4
TABLE_LOCAL, PROTOCOL_STATIC, SCOPE_HOST, TYPE_LOCAL = 255, 4, 254, 2
IFF_UP = 1

FAMILIES = {"4": _socket.AF_INET, "6": _socket.AF_INET6}
ROUTES = (("4", "198.18.0.0", 15), ("4", "0.0.0.0", 0))  # noqa: S104
ROUTE_6 = ("6", "::", 0)


def main() -> None:
    code = 1
    try:
        channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, CHANNEL)
        orders, network = _receive(channel)
        _join(network)
        _answer(channel, orders, ipv6=_lead_everything_here())
        code = 0
    except BaseException as error:
        os.write(2, f"{error}\n".encode(errors="replace"))
    os._exit(code)


def _receive(channel: _socket.socket) -> tuple[list[str], int]:
    told, ancillary, _, _ = channel.recvmsg(1 << 16, _socket.CMSG_SPACE(4))
    if not ancillary:
        raise OSError("the one who started this is gone")
    return told.decode().splitlines(), struct.unpack("=i", ancillary[0][2])[0]


def _join(network: int) -> None:
    owner = fcntl.ioctl(network, NS_GET_USERNS)
    uid = struct.unpack("=I", fcntl.ioctl(owner, NS_GET_OWNER_UID, bytes(4)))[0]
    if uid != os.geteuid():  # root may lack the right to join, but not the one to be the owner
        os.setgroups([])
        os.setresuid(uid, uid, uid)
    for namespace, kind in ((owner, CLONE_NEWUSER), (network, CLONE_NEWNET)):
        _setns(namespace, kind)


def _setns(namespace: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(ctypes.c_int(namespace), ctypes.c_int(kind)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def _lead_everything_here() -> bool:
    """Whether IPv6 does too. Where the kernel has none, it leads nowhere, which is as good."""
    lo = _socket.if_nametoindex("lo")
    with _Netlink() as netlink:
        netlink.ask(RTM_NEWLINK, ASK, struct.pack("=BxHiII", 0, 0, lo, IFF_UP, IFF_UP))
        for route in ROUTES:
            netlink.ask(RTM_NEWROUTE, PUT, _local_route(*route, lo))
        try:
            netlink.ask(RTM_NEWROUTE, PUT, _local_route(*ROUTE_6, lo))
        except OSError:
            return False
    return True


def _local_route(family: str, network: str, bits: int, device: int) -> bytes:
    kind = FAMILIES[family]
    head = struct.pack(
        "=8BI", kind, bits, 0, 0, TABLE_LOCAL, PROTOCOL_STATIC, SCOPE_HOST, TYPE_LOCAL, 0
    )
    to = _attribute(RTA_DST, _socket.inet_pton(kind, network)) if bits else b""
    return head + to + _attribute(RTA_OIF, struct.pack("=i", device))


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value


class _Netlink:
    """One request, one answer."""

    def __enter__(self) -> _Netlink:
        self._socket = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, kind: int, flags: int, body: bytes) -> None:
        self._socket.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        answer = self._socket.recv(4096)
        number = -struct.unpack_from("=i", answer, 16)[0]
        if struct.unpack_from("=H", answer, 4)[0] != NLMSG_ERROR or number:
            raise OSError(number, f"netlink: {os.strerror(number)}")


def _answer(channel: _socket.socket, orders: list[str], *, ipv6: bool) -> None:
    """For each order a `+` and its descriptor, or a `-` where there is no such family."""
    for start in range(0, len(orders), BATCH):
        made = [_open(order, ipv6=ipv6) for order in orders[start : start + BATCH]]
        said = "".join("+" if one else "-" for one in made).encode()
        held = [one.fileno() for one in made if one]
        packed = struct.pack(f"={len(held)}i", *held)
        channel.sendmsg([said], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)] if held else [])
        for one in filter(None, made):
            one.close()


def _open(order: str, *, ipv6: bool) -> _socket.socket | None:
    family, kind, address, port = order.split(" ")
    if family == "6" and not ipv6:
        return None
    type_ = _socket.SOCK_DGRAM if kind == "udp" else _socket.SOCK_STREAM
    made = _socket.socket(FAMILIES[family], type_, 0)
    if family == "6":
        made.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
    if kind != "spare":
        _listen(made, kind, address, int(port))
    return made


def _listen(made: _socket.socket, kind: str, address: str, port: int) -> None:
    made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, int(kind == "tcp"))
    try:
        made.bind((address, port))
        if kind == "tcp":
            made.listen(BACKLOG)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "something inside has it" if taken else os.strerror(error.errno or 0)
        raise OSError(f"{kind} port {port} of {address}: {why}") from error


if __name__ == "__main__":
    main()


import asyncio  # noqa: E402
import contextlib  # noqa: E402
import functools  # noqa: E402
import marshal  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from importlib.machinery import SourceFileLoader  # noqa: E402

from ags import proc  # noqa: E402
from ags.errors import AgsError  # noqa: E402
from ags.frozen import frozen  # noqa: E402

RUN = f"import marshal; exec(marshal.load(open({CODE}, 'rb')), {{'__name__': '__main__'}})"
TIMEOUT = 30.0
"""Seconds, however many start at once."""
MOST_PORTS = 500


@frozen
class Wanted:
    """What to open inside. May be asked for again while the command runs."""

    ports: tuple[int, ...] = ()
    """TCP, listening on every address of both families."""
    gateway: bool = True
    """DNS and the proxy on the gateway's address."""
    spares: int = 8
    """Unbound sockets of each family, to listen on further ports or to connect into the sandbox."""


@frozen
class Opened:
    """Open sockets, the caller's to close. What one accepts tells by its own address what was
    dialled."""

    listeners: tuple[socket.socket, ...]
    dns_udp: socket.socket | None
    dns_tcp: socket.socket | None
    proxy: socket.socket | None
    spares: tuple[socket.socket, ...]
    spares6: tuple[socket.socket, ...]
    ipv6: bool

    def close(self) -> None:
        named = (self.dns_udp, self.dns_tcp, self.proxy)
        _close((*self.listeners, *named, *self.spares, *self.spares6))


def orders(wanted: Wanted) -> tuple[str, ...]:
    """What the helper is told, one line for each socket."""
    ports = tuple(dict.fromkeys(wanted.ports))
    for port in ports:
        if not 0 < port < 1 << 16:
            raise _refusal(f"{port} is no port")
        if port in (DNS, PROXY):
            raise _refusal(f"port {port} is the fence's own", "take it out of the policy")
    if len(ports) > MOST_PORTS:
        raise _refusal(f"{len(ports)} ports are more than {MOST_PORTS}")
    everywhere = (f"{family} tcp {every} {port}" for port in ports for family, every in _EVERY)
    spares = (line for line in _SPARES for _ in range(wanted.spares))
    lines = (*(_GATEWAY if wanted.gateway else ()), *everywhere, *spares)
    if not lines:  # that the routes are there is known only by what comes after them
        raise _refusal("nothing is wanted")
    return lines


_EVERY = (("4", "0.0.0.0"), ("6", "::"))  # noqa: S104
_SPARES = ("4 spare - 0", "6 spare - 0")
_GATEWAY = tuple(
    f"4 {kind} {GATEWAY} {port}" for kind, port in (("udp", DNS), ("tcp", DNS), ("tcp", PROXY))
)


@functools.cache
def compiled() -> bytes:
    """This very file, as whoever imported it left it for the next."""
    loader = __spec__.loader if __spec__ else None
    assert isinstance(loader, SourceFileLoader)
    return marshal.dumps(loader.get_code(__name__))


class Helper:
    """The script, waiting to be sent. Started before the sandbox, it is ready when that stands."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.setblocking(False)
        self._errors = os.memfd_create("ags-errors")
        try:
            with contextlib.ExitStack() as ours:
                code = proc.filled(compiled(), ours)
                self._child = proc.spawn(
                    (sys.executable, "-I", "-S", "-c", RUN),
                    env={},
                    descriptors={2: self._errors, CHANNEL: theirs.fileno(), CODE: code},
                )
        except BaseException:
            self.channel.close()
            os.close(self._errors)
            raise
        finally:
            theirs.close()

    def said(self) -> str:
        return os.pread(self._errors, 4096, 0).decode(errors="replace").strip()

    async def close(self) -> None:
        """It has nothing left to do: whatever it made is here by now, or not wanted."""
        self.channel.close()
        os.close(self._errors)
        self._child.signal(signal.SIGKILL)
        await self._child.wait()


async def open_sockets(init: int, wanted: Wanted, helper: Helper | None = None) -> Opened:
    """Open `wanted` in the network namespace of `init`, the first process of a sandbox.

    Call it before the command is released: later, a program inside may have taken a port. A
    `helper` that was started earlier is used up.
    """
    helper = helper or Helper()
    got: list[socket.socket | None] = []
    try:
        lines = orders(wanted)
        async with asyncio.timeout(TIMEOUT):
            _send(helper, init, lines)
            while len(got) < len(lines):
                got += await _next(helper)
    except BaseException as error:
        _close(got)
        if isinstance(error, OSError | EOFError):
            raise _refusal(helper.said() or _reason(error)) from error
        raise
    finally:
        await asyncio.shield(helper.close())
    return _sorted(lines, got)


def _send(helper: Helper, init: int, lines: Sequence[str]) -> None:
    with _network_of(init) as network:
        socket.send_fds(helper.channel, ["\n".join(lines).encode()], [network])


@contextlib.contextmanager
def _network_of(init: int) -> Iterator[int]:
    with contextlib.ExitStack() as held:
        process = os.pidfd_open(init)
        held.callback(os.close, process)
        network = os.open(f"/proc/{init}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        held.callback(os.close, network)
        signal.pidfd_send_signal(process, 0)  # it lives: what was opened was not a successor's
        # A sandbox without a network of its own: the host's routes would be changed.
        if os.path.samestat(os.fstat(network), os.stat("/proc/self/ns/net")):
            raise _refusal("the sandbox is in our own network namespace")
        yield network


async def _next(helper: Helper) -> list[socket.socket | None]:
    await proc.readable(helper.channel.fileno())
    # Not socket.recv_fds: it forgets the flag, and whatever is started next would inherit them.
    said, ancillary, _, _ = helper.channel.recvmsg(
        BATCH, socket.CMSG_SPACE(4 * BATCH), socket.MSG_CMSG_CLOEXEC
    )
    packed = b"".join(content for _, _, content in ancillary)
    made = [socket.socket(fileno=fd) for (fd,) in struct.iter_unpack("=i", packed)]
    for one in made:
        one.setblocking(False)
    if not said:
        raise EOFError
    if said.count(b"+") != len(made):  # beyond our limit of open files, the kernel drops them
        raise OSError("descriptors were lost on the way: too many open files")
    remaining = iter(made)
    return [next(remaining) if mark == ord("+") else None for mark in said]


def _sorted(lines: Sequence[str], got: Sequence[socket.socket | None]) -> Opened:
    made: dict[str, list[socket.socket]] = {}
    for line, one in zip(lines, got, strict=True):
        if one:
            made.setdefault(line, []).append(one)
    udp, tcp, proxy = (made.pop(line, [None])[0] for line in _GATEWAY)
    spares, spares6 = (tuple(made.pop(line, [])) for line in _SPARES)
    listeners = tuple(one for each in made.values() for one in each)
    families = {one.family for one in (*listeners, *spares6)}
    return Opened(listeners, udp, tcp, proxy, spares, spares6, socket.AF_INET6 in families)


def _close(sockets: Sequence[socket.socket | None]) -> None:
    for one in filter(None, sockets):
        one.close()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"the helper was not done after {TIMEOUT:g} s"
    if isinstance(error, EOFError | ConnectionError):
        return "the helper ended without a word"
    if isinstance(error, ProcessLookupError | FileNotFoundError):
        return "the sandbox has ended"
    return str(error)


def _refusal(cause: str, hint: str = "") -> AgsError:
    return AgsError(
        "open the network fence",
        cause=cause,
        hint=hint or "nothing was run; `ags doctor` checks this machine",
        exit_code=125,
    )
