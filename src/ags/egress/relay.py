"""Bytes between two sockets. Where there are many, by the kernel: they never come up to us."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import Callable
from functools import partial

from ags.egress.ready import Ready
from ags.frozen import frozen
from ags.model import KIB

PIECE = 64 * KIB
"""What comes in smaller ones is handed on as it is; a connection with a full one gets a pipe."""
CHUNK = 1024 * KIB
TURNS = 16
"""Pieces in a row before other connections have their turn."""
_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
_SET_SIZE, _GET_SIZE = 1031, 1032  # F_SETPIPE_SZ and so on, which fcntl has names for only later


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


class _Pieces:
    """What is under way in one direction, in our own memory."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._source, self._target = source, target
        self._held = b""

    def fill(self) -> int:
        self._held = self._source.recv(PIECE)
        return len(self._held)

    def drain(self) -> int:
        sent = self._target.send(self._held)
        self._held = self._held[sent:]
        return sent

    def close(self) -> None:
        self._held = b""


class _Pipe:
    """The same in a pipe, which the kernel fills and empties by moving pages."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._source, self._target = source.fileno(), target.fileno()
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._writing, _SET_SIZE, CHUNK)
        # An ordinary user has so much for all pipes; beyond that they get tiny ones.
        if fcntl.fcntl(self._writing, _GET_SIZE) < PIECE:
            self.close()
            raise OSError("pipes are used up")

    def fill(self) -> int:
        return os.splice(self._source, self._writing, CHUNK, flags=_FLAGS)

    def drain(self) -> int:
        return os.splice(self._reading, self._target, CHUNK, flags=_FLAGS)

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


class _Way:
    """One direction. The loop's callbacks stay where they are: to wait anew costs more than to
    move."""

    def __init__(
        self,
        source: socket.socket,
        target: socket.socket,
        most: int | None,
        ended: Callable[[str], None],
        ready: Ready | None,
    ) -> None:
        self.moved = 0
        self.over = False
        """The source has ended, and so has the target's hearing."""
        self.last = 0.0
        """When something could be moved."""
        self._loop = asyncio.get_running_loop()
        self._ready: Ready = ready or self._loop
        self._source, self._target = source, target
        # The loop is given numbers: for a socket it makes up a text that tells of it, each time.
        self._from, self._to = source.fileno(), target.fileno()
        self._most, self._ended = most, ended
        self._vessel: _Pieces | _Pipe = _Pieces(source, target)
        self._waiting = 0

    def start(self) -> None:
        self._ready.add_reader(self._from, partial(self._guarded, self._move))

    def close(self) -> None:
        self._ready.remove_reader(self._from)
        self._ready.remove_writer(self._to)
        self._vessel.close()

    def _guarded(self, step: Callable[[], None]) -> None:
        self.last = self._loop.time()
        try:
            step()
        except (BlockingIOError, InterruptedError):
            return
        except Spent as spent:
            self._ended(str(spent))
        except OSError as error:
            self._ended((error.strerror or "lost").lower())
        except Exception:
            self._ended("lost")  # or the loop would call it again and again
            raise

    def _move(self) -> None:
        for _ in range(TURNS):
            came = self._waiting = self._vessel.fill()
            if not came:
                self._finish()
                return
            if not self._drained():
                self._ready.remove_reader(self._from)
                self._ready.add_writer(self._to, partial(self._guarded, self._resume))
                return
            if came < PIECE:  # most likely that was all
                return
            self._widen()

    def _resume(self) -> None:
        if self._drained():
            self._ready.remove_writer(self._to)
            self._widen()
            self.start()

    def _drained(self) -> bool:
        """Whether the target has taken all; if not it has to be waited for."""
        try:
            while self._waiting:
                sent = self._vessel.drain()
                self._waiting -= sent
                self.moved += sent
                if self._most is not None and self.moved > self._most:
                    raise Spent("it carried as much as it may")
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def _widen(self) -> None:
        """Only while nothing is under way. Without descriptors for a pipe it goes on as it is."""
        if isinstance(self._vessel, _Pieces):
            with contextlib.suppress(OSError):
                self._vessel = _Pipe(self._source, self._target)

    def _finish(self) -> None:
        self._ready.remove_reader(self._from)
        with contextlib.suppress(OSError):
            self._target.shutdown(socket.SHUT_WR)
        self.over = True
        self._ended("")


class _Watch:
    """Ends what has been still for too long, without being told of every piece."""

    def __init__(
        self, ways: tuple[_Way, _Way], idle: float | None, ended: Callable[[str], None]
    ) -> None:
        self._ways, self._idle, self._ended = ways, idle, ended
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._timer = None if idle is None else self._loop.call_later(idle, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        due = max(self._begun, *(way.last for way in self._ways)) + (self._idle or 0)
        if due <= self._loop.time():
            self._ended("nothing came for too long")
        else:
            self._timer = self._loop.call_at(due, self._look)


async def relay(
    inner: socket.socket, outer: socket.socket, budget: Budget, ready: Ready | None = None
) -> Counted:
    """Until both sides have ended or one has failed. Both sockets stay the caller's to close."""
    over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def ended(cut: str) -> None:
        if not over.done() and (cut or (up.over and down.over)):
            over.set_result(cut)

    up = _Way(inner, outer, budget.bytes, ended, ready)
    down = _Way(outer, inner, budget.bytes, ended, ready)
    watch = _Watch((up, down), budget.idle, ended)
    try:
        up.start()
        down.start()
        cut = await over
    finally:
        watch.close()
        up.close()
        down.close()
    return Counted(up.moved, down.moved, cut)
