"""Appending to a log, without end to the agent's patience or to the disk.

What the disk has: an event that follows another within LINGER waits so long for others to be
written with; once written it
outlives its writer. Only `sync` and `close` force it to the disk, since a machine that goes down
ends the run as well, and an agent must not wait for a disk line by line.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import stat
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ags.errors import AgsError
from ags.events.event import LINE, Kind, encode, parse
from ags.events.reader import newest
from ags.frozen import frozen
from ags.model import KIB, MIB

BATCH = 64 * KIB
LINGER = 0.02
FIRST_TELLING, SELDOMEST_TELLING = 1.0, 300.0
URGENT: frozenset[Kind] = frozenset({"status", "ask"})

# What an agent can print without end must not take the room of what we have to say about it.
_SHELF: dict[Kind, int] = {"egress": 1, "hook": 1, "ask": 1, "usage": 1, "status": 2, "system": 2}

_TELLING = {
    "size": "{:,} events were not kept: the log is as large as it may become",
    "rate": "{:,} events were not kept: they came faster than the log may grow",
    "disk": "{:,} events were not kept: the disk did not take them",
}


@frozen
class Caps:
    """How much of a run is kept."""

    size: int = 256 * MIB
    """Bytes of log up to which an agent's words are kept; our own have up to two `reserve` more."""
    reserve: int = 8 * MIB
    burst: int = 64 * MIB
    """Bytes that may come at once, refilled by `rate` a second: a flood costs next to nothing."""
    rate: int = 8 * MIB


STANDARD = Caps()


class Writer:
    """The one writer of a log. Nothing an agent does, nor a full disk, makes it raise or wait."""

    def __init__(
        self,
        path: Path,
        caps: Caps = STANDARD,
        *,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """Opens the log, or goes on where a writer before us was cut off."""
        self.fault: str | None = None
        """What the last write met, if it failed."""
        self.dropped: Counter[str] = Counter()
        """Events that were not kept, by reason."""
        self._caps, self._clock, self._ticks = caps, clock, ticks
        self._lines: list[bytes] = []
        self._waiting = 0
        self._due = 0.0
        self._told: Counter[str] = Counter()
        self._tell_at, self._tell_every = 0.0, FIRST_TELLING
        self._tokens, self._filled_at = float(caps.burst), ticks()
        self._timer: asyncio.TimerHandle | None = None
        self._fd = _open(path)
        self._size = os.fstat(self._fd).st_size
        self.seq = newest(self._fd, self._size)
        self._unended = self._size > 0 and os.pread(self._fd, 1, self._size - 1) != b"\n"
        if self._unended:
            self._tell_of_torn(_tail(self._fd, self._size))

    def write(self, kind: Kind, /, **fields: object) -> int | None:
        """The event's seq, or None where it was counted instead of kept."""
        if reason := self._refusal(kind):
            self._drop(reason)
            return None
        line = encode(self.seq + 1, self._clock(), kind, fields)
        self.seq += 1
        self._tokens -= len(line)
        self._waiting += len(line)
        self._lines.append(line)
        if self._waiting >= BATCH or kind in URGENT:
            self.flush()
        elif len(self._lines) == 1:
            self._begin()
        elif self._timer is None and self._ticks() >= self._due:
            self.flush()
        return self.seq

    def _begin(self) -> None:
        """After a silence there is nothing to wait for; in a stream of lines there is."""
        now = self._ticks()
        if now >= self._due:
            self.flush()
        else:
            self._wake(self._due - now)

    def flush(self) -> None:
        """Hand what waits to the kernel, and tell of what was dropped if it is time to."""
        self._cancel()
        self._due = self._ticks() + LINGER
        lines, self._lines, self._waiting = self._lines, [], 0
        telling = self._is_untold() and self._ticks() >= self._tell_at
        counts = self.dropped.copy() if telling else self._told
        if self._append(lines, self._tellings(counts) if telling else []) and telling:
            self._told = counts
            self._tell_every = min(2 * self._tell_every, SELDOMEST_TELLING)
        if telling:
            self._tell_at = self._ticks() + self._tell_every
        if self._is_untold():
            self._wake(max(LINGER, self._tell_at - self._ticks()))

    def _is_untold(self) -> bool:
        """Hardly ever: then counters are not compared, which would cost more than the rest."""
        return bool(self.dropped) and self.dropped != self._told

    def sync(self) -> None:
        """Flush, and have it on the disk."""
        self.flush()
        try:
            os.fsync(self._fd)
        except OSError as error:
            self.fault = _reason(error)

    def close(self) -> None:
        if self._fd < 0:
            return
        self._tell_at = self._ticks()
        self.sync()
        self._cancel()
        os.close(self._fd)
        self._fd = -1

    def _refusal(self, kind: Kind) -> str | None:
        shelf = _SHELF.get(kind, 0)
        if self._size + self._waiting >= self._caps.size + shelf * self._caps.reserve:
            return "size"
        if shelf or self._tokens > 0:
            return None
        passed = self._ticks() - self._filled_at
        self._filled_at += passed
        self._tokens = min(self._tokens + passed * self._caps.rate, float(self._caps.burst))
        return None if self._tokens > 0 else "rate"

    def _drop(self, reason: str) -> None:
        self.dropped[reason] += 1
        if self._ticks() >= self._tell_at:
            self.flush()
        elif self._timer is None:
            self._wake(self._tell_at - self._ticks())

    def _tellings(self, counts: Counter[str]) -> list[bytes]:
        """More and more seldom, lest they fill the log themselves."""
        lines = []
        for reason, total in counts.items():
            if new := total - self._told[reason]:
                self.seq += 1
                fields = {"text": _TELLING[reason].format(new), "dropped": new, "total": total}
                lines.append(encode(self.seq, self._clock(), "system", fields))
        return lines

    def _tell_of_torn(self, torn: bytes) -> None:
        if parse(torn) is None:  # else only the line's end is missing
            text = f"an event was cut off when its writer ended, after {len(torn)} bytes"
            self.write("system", text=text, torn=torn.decode(errors="backslashreplace"))
            self.flush()

    def _append(self, lines: list[bytes], tellings: list[bytes]) -> bool:
        """Whether all of it is in the file; what is not is counted."""
        if not lines and not tellings:
            return True
        data = b"\n" * self._unended + b"".join(lines) + b"".join(tellings)
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:] if done else data)
            self.fault = None
        except OSError as error:
            self.fault = _reason(error)
            whole = data.rfind(b"\n", 0, done) + 1
            kept = max(0, data.count(b"\n", 0, whole) - self._unended)
            self.dropped["disk"] += max(0, len(lines) - kept)
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size + whole)
                done = whole
        if done:
            self._unended = data[done - 1] != ord("\n")
        self._size += done
        return done == len(data)

    def _wake(self, delay: float) -> None:
        """Flush by itself in an event loop; outside of one, later writes see to it."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._timer is None or self._timer.when() > loop.time() + delay:
            self._cancel()
            self._timer = loop.call_later(delay, self.flush)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise AgsError("open the log", subject=path, cause=_reason(error)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise AgsError("open the log", subject=path, cause="it is not a file")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise AgsError("open the log", subject=path, cause="it has a writer already") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _tail(descriptor: int, size: int) -> bytes:
    """What stands after the last line's end, or the last of it."""
    start = max(0, size - LINE)
    return os.pread(descriptor, size - start, start).rpartition(b"\n")[2]


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
