"""Bytes between two sockets, by the kernel: they never come up to us."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import Callable

from ags import proc
from ags.frozen import frozen
from ags.model import KIB

CHUNK = 256 * KIB
LAZY = 1.0
"""Seconds by which a limit may be late, so that it is not set anew for every piece."""
_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
_SET_SIZE = 1031  # F_SETPIPE_SZ, which fcntl has a name for only later


@frozen
class Counted:
    """What went through, each way, and why it ended if nobody closed."""

    up: int
    down: int
    cut: str = ""


@frozen
class Budget:
    """How much one connection may carry, and how long it may be still."""

    bytes: int | None = None
    idle: float | None = 3600.0


class Spent(Exception):
    """A budget has run out."""


class _Way:
    """One direction. What it has moved can be looked at while it moves."""

    def __init__(self, source: socket.socket, target: socket.socket, budget: Budget) -> None:
        self.moved = 0
        self._source, self._target, self._budget = source, target, budget

    async def run(self, alive: Callable[[], None]) -> None:
        """To the end of the source, which then is the target's as well."""
        reading, writing = _pipe()
        try:
            while await self._fill(writing):
                alive()
                await self._drain(reading)
            with contextlib.suppress(OSError):
                self._target.shutdown(socket.SHUT_WR)
        finally:
            os.close(reading)
            os.close(writing)

    async def _fill(self, pipe: int) -> int:
        while True:
            try:
                self._waiting = os.splice(self._source.fileno(), pipe, CHUNK, flags=_FLAGS)
                return self._waiting
            except BlockingIOError:
                await proc.readable(self._source.fileno())

    async def _drain(self, pipe: int) -> None:
        while self._waiting:
            try:
                sent = os.splice(pipe, self._target.fileno(), self._waiting, flags=_FLAGS)
            except BlockingIOError:
                await proc.writable(self._target.fileno())
                continue
            self._waiting -= sent
            self.moved += sent
            if self._budget.bytes is not None and self.moved > self._budget.bytes:
                raise Spent("it carried as much as it may")


async def relay(inner: socket.socket, outer: socket.socket, budget: Budget) -> Counted:
    """Until both sides have ended or one has failed. Both sockets stay the caller's to close."""
    up, down = _Way(inner, outer, budget), _Way(outer, inner, budget)
    loop = asyncio.get_running_loop()
    cut = ""
    try:
        async with asyncio.timeout(budget.idle) as limit:

            def alive() -> None:
                due = limit.when()
                if due is not None and budget.idle is not None:
                    later = loop.time() + budget.idle
                    if later - due > LAZY:
                        limit.reschedule(later)

            async with asyncio.TaskGroup() as group:
                for way in (up, down):
                    group.create_task(way.run(alive))
    except* TimeoutError:
        cut = "nothing came for too long"
    except* Spent as spent:
        cut = str(spent.exceptions[0])
    except* OSError as failed:
        cut = (getattr(failed.exceptions[0], "strerror", "") or "lost").lower()
    return Counted(up.moved, down.moved, cut)


def _pipe() -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # an ordinary user may have only so many of them
        fcntl.fcntl(writing, _SET_SIZE, CHUNK)
    return reading, writing
