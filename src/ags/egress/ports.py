"""A port inside the sandbox, brought to the host's loopback: the one way in."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path

from ags.egress import origins, relay
from ags.egress.link import Link
from ags.egress.relay import Budget
from ags.errors import AgsError
from ags.frozen import frozen
from ags.kernel import netns
from ags.kernel.netns import DNS, PROXY, Opened, Wanted

LOOPBACK = "127.0.0.1"
LOWEST, HIGHEST = 1024, 65535
MOST_PORTS = 32
MOST = 128
"""Connections at once, over all ports; what comes on top is turned away."""
FETCH = 8
"""Sockets made inside at a time."""
REACH = 5.0
"""Seconds for a program inside to take a connection."""
BACKLOG = 128
BUDGET = Budget()

_PLACES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


@frozen
class Published:
    """A port inside, and where on the host's loopback it is."""

    port: int
    host_port: int

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.host_port}"


class Spares:
    """Unbound sockets made inside, handed out one at a time; when none is left, more are made."""

    def __init__(self, init: int, opened: Opened) -> None:
        self._init = init
        self._held = {
            socket.AF_INET: list(opened.spares),
            socket.AF_INET6: list(opened.spares6),
        }
        self._ipv6 = opened.ipv6
        self._fetching = asyncio.Lock()
        self._closed = False

    async def take(self, family: socket.AddressFamily) -> socket.socket | None:
        """The caller's to close. None where the sandbox has no such family."""
        if family == socket.AF_INET6 and not self._ipv6:
            return None
        held = self._held[family]
        async with self._fetching:
            if not held and not self._closed:
                await self._fetch()
            return held.pop() if held else None

    async def _fetch(self) -> None:
        wanted = Wanted(gateway=False, spares=FETCH)
        more = await netns.open_sockets(self._init, wanted)
        for family, made in ((socket.AF_INET, more.spares), (socket.AF_INET6, more.spares6)):
            # One family may be all that is used: the other's must not pile up.
            kept = FETCH - len(self._held[family]) if not self._closed else 0
            self._held[family] += made[: max(0, kept)]
            for surplus in made[max(0, kept) :]:
                surplus.close()

    def close(self) -> None:
        self._closed = True
        for held in self._held.values():
            while held:
                held.pop().close()


class Ports:
    """The published ports of one run. All of them close with it."""

    def __init__(
        self,
        spares: Spares,
        opened: Opened,
        ags_home: Path | None = None,
    ) -> None:
        """`opened` has the ports that are the fence's own; `ags_home` knows who had which port."""
        self._ags_home = ags_home
        self._spares = spares
        own = {listener.getsockname()[1] for listener in opened.listeners}
        self._own = frozenset(own | {DNS, PROXY})
        self._published: dict[int, Published] = {}
        self._accepting: list[asyncio.Task[None]] = []
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def published(self) -> tuple[Published, ...]:
        return tuple(self._published.values())

    def publish(self, port: int, host_port: int = 0) -> Published:
        """Bring a port to the host's loopback: to the same number if that is free, else any other.

        A port that is published already stays where it is.
        """
        self._check(port, host_port)
        known = self._published.get(port)
        if known is not None and host_port in (0, known.host_port):
            return known
        if known is not None:
            raise _refusal(port, f"it is at {LOOPBACK}:{known.host_port} already")
        if len(self._published) >= MOST_PORTS:
            raise _refusal(port, f"{MOST_PORTS} ports of this run are published already")
        listener = self._listening(port, host_port)
        made = Published(port, listener.getsockname()[1])
        self._published[port] = made
        self._accepting.append(asyncio.create_task(self._accept(listener, port)))
        return made

    def _listening(self, port: int, host_port: int) -> socket.socket:
        if self._ags_home is None:
            return _listen(port, host_port, origins.PAGES)
        listener = _listen(port, host_port, origins.ours(self._ags_home))
        try:
            origins.note(self._ags_home, "published", listener.getsockname()[1])
        except OSError as error:
            listener.close()
            raise _refusal(port, (error.strerror or str(error)).lower()) from error
        return listener

    async def close(self) -> None:
        """Every connection ends with it."""
        for tasks in (self._accepting, list(self._serving)):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._accepting.clear()
        self._published.clear()
        self._spares.close()

    def _check(self, port: int, host_port: int) -> None:
        if not 0 < port <= HIGHEST:
            raise _refusal(port, f"a port is from 1 to {HIGHEST}")
        if port in self._own:
            raise _refusal(port, "this port of the sandbox is the fence's own")
        if port < LOWEST:
            raise _refusal(port, f"no program inside can listen below {LOWEST}")
        if host_port and not LOWEST <= host_port <= HIGHEST:
            cause = f"{host_port} is no port of this machine that may be used for it"
            raise _refusal(port, cause, f"from {LOWEST} to {HIGHEST}")

    async def _accept(self, listener: socket.socket, port: int) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    made, _ = await loop.sock_accept(listener)
                except OSError:  # out of descriptors, or it was gone before we came
                    await asyncio.sleep(0.05)
                    continue
                if len(self._serving) >= MOST:
                    Link(made).reset()
                    continue
                task = asyncio.create_task(self._serve(Link(made), port))
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)

    async def _serve(self, outer: Link, port: int) -> None:
        """Any trouble resets: nobody shall take it for the end of an answer."""
        inner: Link | None = None
        whole = False
        try:
            inner = Link(await self._inside(port))
            counted = await relay.relay(inner.socket, outer.socket, BUDGET)
            whole = not counted.cut
        except (AgsError, OSError):
            pass  # nobody listens there, or the sandbox has ended
        finally:
            for link in (outer, inner):
                if link is not None:
                    link.close() if whole else link.reset()

    async def _inside(self, port: int) -> socket.socket:
        for family, address in _PLACES:
            made = await self._spares.take(family)
            if made is not None and await _connected(made, (address, port)):
                return made
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")


async def _connected(made: socket.socket, place: tuple[str, int]) -> bool:
    done = False
    try:
        async with asyncio.timeout(REACH):
            await asyncio.get_running_loop().sock_connect(made, place)
        # Where nobody listens, the kernel may have given it that very port: it found itself.
        done = made.getsockname() != made.getpeername()
    except (OSError, TimeoutError):
        pass
    finally:
        if not done:
            made.close()
    return done


def _listen(port: int, host_port: int, pages: frozenset[int]) -> socket.socket:
    if host_port in pages:
        # What a browser keeps for the page, its token too, it gives to whoever listens there.
        cause = f"port {host_port} of this machine is for the page of ags itself"
        raise _refusal(port, cause, "name another with --host-port, or none")
    for tried in (host_port,) if host_port else (port, 0) if port not in pages else (0,):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((LOOPBACK, tried))
            if made.getsockname()[1] in pages:
                return _listen(port, 0, pages)
            made.listen(BACKLOG)
            return made
        except OSError as error:
            made.close()
            cause = (error.strerror or str(error)).lower()
            if error.errno == errno.EADDRINUSE:
                cause = f"port {tried} of this machine is taken"
    raise _refusal(port, cause, "name another with --host-port, or none")


def _refusal(port: int, cause: str, hint: str = "") -> AgsError:
    return AgsError("publish the port", subject=port, cause=cause, hint=hint)
