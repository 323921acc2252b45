"""From a name that was allowed to a connection: looked up once, every answer judged, those dialled.

A name whose answers lie in this machine, its network or a special range is not of the open internet
whatever the policy says of it; one such answer spoils all, for the rest would be the bait.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Sequence

from ags import proc
from ags.egress.hosts import Address, address_of, canonical_host, special
from ags.errors import AgsError
from ags.frozen import frozen

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""From a canonical name to the addresses that DNS has for it, as text; none if there is no such."""

LOOKUP_TIMEOUT = 10.0
DIAL_TIMEOUT = 20.0
STAGGER = 0.25
"""Seconds an address has before the next is tried beside it."""
MOST_DIALLED = 6


CHOSEN = (None, "private", "unique local")
"""Kinds of address that may be dialled where a rule names the very address."""


class Unreachable(AgsError):
    """An allowed request that cannot go out. `reason` is a code, as in a Decision."""

    def __init__(self, host: str, reason: str, cause: str, hint: str = "") -> None:
        self.reason = reason
        super().__init__("reach the host", subject=host, cause=cause, hint=hint)


@frozen
class Dialled:
    """A connection, and the one address of those given that it goes to."""

    socket: socket.socket
    address: Address


async def resolve(host: str, lookup: Lookup, fixed: str | None = None) -> tuple[Address, ...]:
    """The addresses to dial for a canonical host, each judged; `lookup` is asked at most once.

    `fixed` is what the person's policy has under `upstreams:`. It may be anywhere: they said so.
    """
    if fixed is not None:
        return (_parse(host, canonical_host(fixed)),)
    if (literal := address_of(host)) is not None:
        # Only a rule that names it leads here: an address of the person's own network is their
        # choice, unlike one that a name turns out to have.
        if special(literal) not in CHOSEN or own(literal):
            _judge(host, literal)
        return (literal,)
    found = tuple(_parse(host, text) for text in await lookup(host))
    if not found:
        raise Unreachable(host, "unresolved", "there is no such name, or it has no address")
    for address in found:
        _judge(host, address)
    return tuple(dict.fromkeys(found))


def _parse(host: str, text: str) -> Address:
    address = address_of(text)
    if address is None:
        raise Unreachable(host, "address", f"{text!r} is no address")
    return address


def _judge(host: str, address: Address) -> None:
    if kind := special(address) or ("this machine's own" if own(address) else None):
        raise Unreachable(
            host,
            "address",
            f"it leads to {address} ({kind}), which is not of the open internet",
            hint="if it is meant to, name the address under `upstreams:` in the policy",
        )


def own(address: Address) -> bool:
    """Whether it is an address of this machine. Nothing is sent: a datagram socket only chooses
    what it would send from, and that is the very same address for one's own alone."""
    try:
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return str(probe.getsockname()[0]) == str(address)
    except OSError:  # no way leads there, or there is no such family here
        return False


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


async def system_lookup(name: str) -> Sequence[str]:
    """What this machine's resolver says."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT):
            # The final dot: or a search list would make another name of it.
            found = await loop.getaddrinfo(f"{name}.", None, type=socket.SOCK_STREAM)
    except TimeoutError as error:
        cause = f"no answer about it for {LOOKUP_TIMEOUT:g} s"
        raise Unreachable(name, "unresolved", cause) from error
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
            return ()
        raise Unreachable(name, "unresolved", error.strerror or str(error)) from error
    return [str(sockaddr[0]) for *_, sockaddr in found]


async def dial(addresses: Sequence[Address], port: int, timeout: float = DIAL_TIMEOUT) -> Dialled:
    """Connect to the first that answers, the families in turn; a slow one is not waited for."""
    if len(addresses) == 1:
        return await _dial_one(addresses[0], port, timeout)
    waiting = list(_in_turn(addresses))[:MOST_DIALLED]
    running: set[asyncio.Task[Dialled]] = set()
    failed: list[BaseException] = []
    try:
        async with asyncio.timeout(timeout):
            while waiting or running:
                if waiting:
                    running.add(asyncio.create_task(_connect(waiting.pop(0), port)))
                patience = STAGGER if waiting else None
                done, running = await asyncio.wait(
                    running, timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                if made := _first(done, failed):
                    return made
    except TimeoutError as error:
        raise _failure(addresses, port, f"no answer for {timeout:g} s") from error
    finally:
        await _abandon(running)
    raise _failure(addresses, port, _reason(failed))


async def _dial_one(address: Address, port: int, timeout: float) -> Dialled:
    try:
        return await _connect(address, port, timeout)
    except TimeoutError as error:
        raise _failure((address,), port, f"no answer for {timeout:g} s") from error
    except OSError as error:
        raise _failure((address,), port, _reason((error,))) from error


def _in_turn(addresses: Sequence[Address]) -> Sequence[Address]:
    """The resolver's order within a family; its first family first."""
    first = [one for one in addresses if one.version == addresses[0].version]
    other = [one for one in addresses if one.version != addresses[0].version]
    paired = [one for pair in zip(first, other, strict=False) for one in pair]
    shorter = min(len(first), len(other))
    return [*paired, *first[shorter:], *other[shorter:]]


async def _connect(address: Address, port: int, timeout: float | None = None) -> Dialled:
    made = socket.socket(_family(address), socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        where = (str(address), port)
        # The first call only begins. Within this machine, a second finds it done.
        if _under_way(made, where) and _under_way(made, where):
            async with asyncio.timeout(timeout):
                await proc.writable(made.fileno())
                while _under_way(made, where):
                    await proc.writable(made.fileno())
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        made.close()
        raise
    return Dialled(made, address)


def _under_way(made: socket.socket, where: tuple[str, int]) -> bool:
    number = made.connect_ex(where)
    if number not in (0, errno.EISCONN, errno.EINPROGRESS, errno.EALREADY):
        raise OSError(number, os.strerror(number))
    return number in (errno.EINPROGRESS, errno.EALREADY)


def _first(done: set[asyncio.Task[Dialled]], failed: list[BaseException]) -> Dialled | None:
    """One of those that were made; the others are closed."""
    made = [task.result() for task in done if not task.exception()]
    failed += [error for task in done if (error := task.exception())]
    for other in made[1:]:
        other.socket.close()
    return made[0] if made else None


async def _abandon(running: set[asyncio.Task[Dialled]]) -> None:
    for task in running:
        task.cancel()
    for outcome in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(outcome, Dialled):
            outcome.socket.close()


def _reason(failed: Sequence[BaseException]) -> str:
    """The last one's. The kernel's own words: asyncio's name the call, which says nothing."""
    if not failed:
        return "there is no address to dial"
    number = getattr(failed[-1], "errno", None)
    return os.strerror(number) if number else str(failed[-1])


def _failure(addresses: Sequence[Address], port: int, cause: str) -> Unreachable:
    tried = ", ".join(map(str, addresses))
    return Unreachable(f"{tried} port {port}", "unreachable", cause)
