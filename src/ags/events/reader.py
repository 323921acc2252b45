"""Reading a log while it grows. Readers only ever look; no writer knows of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ags.events.event import LINE, Event, parse
from ags.model import KIB

BLOCK = 2 * LINE
"""Read at a time: holds any line whole, and takes a loop a few milliseconds at most."""
SHORTEST, LONGEST = 0.01, 0.1
"""Seconds between looks at a log: short after news, longer the longer there is none."""
PIECE = 32 * KIB
"""The same for who passes on, and may have to keep it for long, as many do at once."""
PACE = 0.03
"""Seconds between looks of a `Watch`."""
SELDOM, SELDOMEST = 0.2, 1.0
"""Seconds after which a follower with a `Watch` asks whether all has ended: growth wakes it."""

# As `encode` begins a line; one that begins otherwise is read in full.
_HEAD = re.compile(rb'\{"seq":(\d{1,18}),"ts":[-+.0-9e]+,"kind":"(\w+)"')


class Stored(NamedTuple):
    """An event as its line has it, which is JSON, without the line's end."""

    seq: int
    kind: str
    line: bytes


class _Numbered(Protocol):
    @property
    def seq(self) -> int: ...


T = TypeVar("T", bound=_Numbered)
Understood: TypeAlias = Callable[[list[bytes]], list[T]]


class Watch:
    """One look for all who wait for logs to grow: timers of their own would cost a core."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], tuple[int, int, float]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def news(self, descriptor: int, reach: int, patience: float) -> None:
        """Until the log does not end at `reach` any more, or so many seconds have passed."""
        told = asyncio.get_running_loop().create_future()
        self._waiting[told] = (descriptor, reach, time.monotonic() + patience)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            await told
        finally:
            # At once: its descriptor may be closed next, and be another file's then.
            self._waiting.pop(told, None)

    async def _look(self) -> None:
        while self._waiting:
            await asyncio.sleep(PACE)
            now = time.monotonic()
            for told, (descriptor, reach, until) in tuple(self._waiting.items()):
                if not told.done() and (now >= until or os.fstat(descriptor).st_size != reach):
                    told.set_result(None)


def read(path: Path, after: int = 0) -> Iterator[Event]:
    """The events that are there now, from the one after `after` on. No log yet: no events."""
    for events in read_blocks(path, after):
        yield from events


def read_blocks(path: Path, after: int = 0) -> Iterator[list[Event]]:
    """The same for who has others to serve between blocks."""
    with contextlib.suppress(FileNotFoundError), _Log(path, _events) as log:
        log.seek(after)
        while (events := log.more()) is not None:
            yield events


async def follow(
    path: Path, after: int = 0, until_ended: Callable[[], bool] = lambda: False
) -> AsyncGenerator[Event, None]:
    """All events as they come, until there is nothing new and `until_ended` says yes.

    It looks at the file again and again: unlike inotify's, such watchers have no number at which
    the kernel refuses another.
    """
    async with contextlib.aclosing(_follow(path, after, until_ended, _events, None)) as coming:
        async for events in coming:
            for event in events:
                yield event


async def follow_stored(
    path: Path, after: int, until_ended: Callable[[], bool], watch: Watch
) -> AsyncGenerator[list[Stored], None]:
    """The same for who only passes on: lines as they stand in the log, some at a time.

    To read a line costs ten times what it takes to find out that it need not be read.
    """
    async with contextlib.aclosing(_follow(path, after, until_ended, _stored, watch)) as coming:
        async for lines in coming:
            yield lines


async def _follow(
    path: Path,
    after: int,
    until_ended: Callable[[], bool],
    understood: Understood[T],
    watch: Watch | None,
) -> AsyncGenerator[list[T], None]:
    shortest, longest = (SELDOM, SELDOMEST) if watch else (SHORTEST, LONGEST)
    pause, ended = shortest, False
    piece = PIECE if watch else BLOCK
    with contextlib.ExitStack() as stack:
        log: _Log[T] | None = None
        while True:
            if log is None and (log := _open(path, understood, piece, stack)):
                log.seek(after)
            found = log.more() if log else None
            if found:
                yield found
            if found is not None:
                pause = shortest
                await asyncio.sleep(0)
            elif ended:
                return
            # Once it has ended, what was written before is there: so another look follows.
            elif not (ended := until_ended()):
                if log and watch:
                    await watch.news(log.descriptor, log.reach, pause)
                else:
                    await asyncio.sleep(min(pause, LONGEST))
                pause = min(2 * pause, longest)


def last_seq(path: Path) -> int:
    """Of the newest event, 0 if there is none: `read(path, last_seq(path) - 100)` is the tail."""
    with contextlib.suppress(FileNotFoundError), _Log(path, _events) as log:
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


def _open(
    path: Path, understood: Understood[T], piece: int, stack: contextlib.ExitStack
) -> _Log[T] | None:
    try:
        return stack.enter_context(_Log(path, understood, piece))
    except FileNotFoundError:
        return None


def _events(lines: list[bytes]) -> list[Event]:
    return [event for line in lines if (event := parse(line))]


def _stored(lines: list[bytes]) -> list[Stored]:
    found = []
    heads = [_HEAD.match(line) for line in lines]
    for line, head, after in zip(lines, heads, [*heads[1:], None], strict=True):
        if head and after and _is_whole(line) and int(after[1]) == int(head[1]) + 1:
            found.append(Stored(int(head[1]), head[2].decode(), line))
        elif event := parse(line):
            found.append(Stored(event.seq, event.kind, line))
    return found


def _is_whole(line: bytes) -> bool:
    """For a line with the next number after it; the number of a torn one is given again."""
    if not line.endswith(b"}") or b"\0" in line:  # what a disk leaves of a file it lost
        return False
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


class _Log(contextlib.AbstractContextManager["_Log[T]"], Generic[T]):
    """A place in an open log, always at the start of a line."""

    def __init__(self, path: Path, understood: Understood[T], piece: int = BLOCK) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.reach = 0
        """Where the log ended when it was last looked at."""
        self._understood = understood
        self._piece = piece
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

    def more(self) -> list[T] | None:
        """The events of the next block, perhaps none of it new; None where the log ends by now."""
        block = os.pread(self.descriptor, self._piece, self._at)
        if len(block) == self._piece < BLOCK and b"\n" not in block:
            block = os.pread(self.descriptor, BLOCK, self._at)
        whole = block.rfind(b"\n") + 1
        self.reach = self._at + len(block)
        if not whole:
            if len(block) < BLOCK:
                if self.size() < self._at:  # somebody cut it: what is written now is new
                    self.seek(self._seen)
                return None
            whole = BLOCK  # no line of ours is that long
        self._at += whole
        found = self._understood(block[:whole].splitlines())
        new = [each for each in found if each.seq > self._seen]
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
