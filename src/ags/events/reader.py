"""Reading a log while it grows. Readers only ever look; no writer knows of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

from ags.events.event import LINE, Event, parse

BLOCK = 2 * LINE
"""Read at a time: holds any line whole, and takes a loop a few milliseconds at most."""
SHORTEST, LONGEST = 0.01, 0.1
"""Seconds between looks at a log: short after news, longer the longer there is none."""


def read(path: Path, after: int = 0) -> Iterator[Event]:
    """The events that are there now, from the one after `after` on. No log yet: no events."""
    with contextlib.suppress(FileNotFoundError), _Log(path) as log:
        log.seek(after)
        while (events := log.more()) is not None:
            yield from events


async def follow(
    path: Path, after: int = 0, until_ended: Callable[[], bool] = lambda: False
) -> AsyncGenerator[Event, None]:
    """All events as they come, until there is nothing new and `until_ended` says yes.

    It looks at the file again and again: unlike inotify's, such watchers have no number at which
    the kernel refuses another.
    """
    pause = SHORTEST
    with contextlib.ExitStack() as stack:
        log: _Log | None = None
        while True:
            # Asked first: what is written before the end is then there to be read.
            ended = until_ended()
            if log is None and (log := _open(path, stack)):
                log.seek(after)
            events = log.more() if log else None
            for event in events or ():
                yield event
            if events is not None:
                pause = SHORTEST
                await asyncio.sleep(0)
            elif ended:
                return
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST)


def last_seq(path: Path) -> int:
    """Of the newest event, 0 if there is none: `read(path, last_seq(path) - 100)` is the tail."""
    with contextlib.suppress(FileNotFoundError), _Log(path) as log:
        return newest(log.descriptor, log.size())
    return 0


def newest(descriptor: int, end: int) -> int:
    """The seq of the last event before `end`, found from the back."""
    while end > 0:
        start = max(0, end - BLOCK)
        first, *others = os.pread(descriptor, end - start, start).split(b"\n")
        for line in reversed(others if start else [first, *others]):
            if event := parse(line):
                return event.seq
        # The line cut by the block's start comes whole in the next one, unless it is too long.
        end = start + len(first) if others else start
    return 0


def _open(path: Path, stack: contextlib.ExitStack) -> _Log | None:
    try:
        return stack.enter_context(_Log(path))
    except FileNotFoundError:
        return None


class _Log(contextlib.AbstractContextManager["_Log"]):
    """A place in an open log, always at the start of a line."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._at = 0
        self._seen = 0

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def seek(self, after: int) -> None:
        """To a line at or shortly before the first event beyond `after`: seqs rise, so by halves.

        Lines that start before `low` are known to be too early, those from `high` on are not.
        """
        self._seen = after
        low, high = 0, self.size() if after else 0
        while high - low > BLOCK:
            middle = (low + high) // 2
            found = self._event_from(middle, high)
            if found is None or found[1] > after:
                high = middle
            else:
                low = found[0]
        self._at = low

    def more(self) -> list[Event] | None:
        """The events of the next block, perhaps none of it new; None where the log ends by now."""
        block = os.pread(self.descriptor, BLOCK, self._at)
        whole = block.rfind(b"\n") + 1
        if not whole:
            if len(block) < BLOCK:
                if self.size() < self._at:  # somebody cut it: what is written now is new
                    self.seek(self._seen)
                return None
            whole = BLOCK  # no line of ours is that long
        self._at += whole
        found = [event for line in block[:whole].splitlines() if (event := parse(line))]
        new = [event for event in found if event.seq > self._seen]
        if new:
            self._seen = new[-1].seq
        return new

    def _event_from(self, start: int, end: int) -> tuple[int, int] | None:
        """Where the first event whose line starts within is, and its seq."""
        while start < end:
            block = os.pread(self.descriptor, BLOCK, start)
            at = block.find(b"\n") + 1
            while at and start + at < end and (stop := block.find(b"\n", at)) >= 0:
                if event := parse(block[at:stop]):
                    return start + at, event.seq
                at = stop + 1
            # Go on at the newline before what was not whole; without one, behind the block.
            start += at - 1 if at > 1 else max(1, len(block))
        return None
