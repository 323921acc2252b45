"""A run's terminal shown on the person's own, until they leave it or it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from ags.cli.terminal import hear_out, in_foreground, read, write
from ags.control import client
from ags.control.screen import Screen
from ags.control.wire import Ended, Size
from ags.errors import AgsError
from ags.frozen import frozen

DETACH = b"\x1d"
"""Ctrl-], as telnet has it: one key, which shells and agents leave alone. Of the others in use,
Ctrl-P Ctrl-Q holds back every Ctrl-P, the key for the line before, and Ctrl-\\ quits programs."""
LEAVES = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)


@frozen
class Detached:
    """The person left; the program goes on."""


class Seen(Protocol):
    """A terminal that can be looked at."""

    async def read(self) -> bytes | Ended: ...

    async def type(self, data: bytes) -> None: ...

    def resize(self, size: Size) -> None: ...


class DetachKey:
    """Finds the keys that detach in what is typed, however the terminal spells them."""

    def __init__(self, keys: bytes) -> None:
        spelled = [_spellings(key) for key in keys]
        self._whole = re.compile(b"".join(spelled))
        self._begun = [
            re.compile(b"".join(spelled[:count]) + rb"\Z") for count in range(len(keys) - 1, 0, -1)
        ]
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What goes on to the program, and whether the keys came after it."""
        data = self._held + data
        if whole := self._whole.search(data):
            return data[: whole.start()], True
        begun = next((found for each in self._begun if (found := each.search(data))), None)
        end = begun.start() if begun else len(data)
        self._held = data[end:]
        return data[:end], False


def _spellings(key: int) -> bytes:
    """Programs can have keys sent as numbers: `CSI 93;5u`, or `CSI 27;5;93~`."""
    plain = re.escape(bytes([key]))
    if key >= 0x20:
        return plain
    code = key + (0x60 if 1 <= key <= 26 else 0x40)
    # 5 is Ctrl; with Caps Lock and Num Lock it is 64 and 128 more.
    return rb"(?:%s|\x1b\[%d;(?:5|69|133|197)(?::1)?u|\x1b\[27;5;%d~)" % (plain, code, code)


def said(keys: bytes) -> str:
    """As a person would say it: `Ctrl-P Ctrl-Q`."""
    return " ".join(f"Ctrl-{chr(key + 0x40)}" if key < 0x20 else chr(key) for key in keys)


async def view(
    run_dir: Path,
    request: Mapping[str, object],
    *,
    name: str,
    detach: bytes = DETACH,
    lasting: bool = True,
) -> Detached | Ended:
    """Show the terminal that `request` asks for. The person's own is as before when this returns.

    Closing the person's terminal, or a signal to end, detaches as well.
    `lasting` is a terminal that one can come back to.
    """
    check_terminal(name)
    opened = client.view(run_dir, request, size())
    return await visit(opened, name=name, detach=detach, lasting=lasting)


def check_terminal(name: str) -> None:
    if not (os.isatty(0) and os.isatty(1)):
        cause, hint = "input and output are not a terminal", "run this in a terminal"
        raise AgsError("show the terminal", subject=name, cause=cause, hint=hint)


async def visit(
    opened: AbstractAsyncContextManager[Seen],
    *,
    name: str,
    detach: bytes = DETACH,
    lasting: bool = True,
) -> Detached | Ended:
    """The same for a terminal from anywhere."""
    async with opened as seen:
        outcome = await _Visit(seen, DetachKey(detach)).spend()
    if isinstance(outcome, Detached):
        with contextlib.suppress(OSError):
            told = f"detached; `ags attach {name}` comes back" if lasting else "left; it ends"
            print(told, file=sys.stderr, flush=True)
    return outcome


class _Visit:
    """The time between attaching and leaving."""

    def __init__(self, seen: Seen, keys: DetachKey) -> None:
        self._seen = seen
        self._keys = keys
        self._screen = Screen()
        self._told_to_leave = asyncio.Event()
        self._before = termios.tcgetattr(0)

    async def spend(self) -> Detached | Ended:
        with self._signals():
            try:
                self._take()
                return await self._first()
            finally:
                await self._leave()

    async def _first(self) -> Detached | Ended:
        """Whatever comes first: an end of the program counts if it comes at the same time."""
        ways = [asyncio.create_task(each()) for each in (self._show, self._type, self._told)]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            return next(task.result() for task in ways if task.done())
        finally:
            for task in ways:
                task.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _show(self) -> Detached | Ended:
        while isinstance(data := await self._seen.read(), bytes):
            self._screen.feed(data)
            try:
                await write(1, data)
            except OSError:
                return Detached()
        return data

    async def _type(self) -> Detached:
        detached = False
        while not detached and (data := await read(0)):
            typed, detached = self._keys.feed(data)
            await self._seen.type(typed)
        return Detached()

    async def _told(self) -> Detached:
        await self._told_to_leave.wait()
        return Detached()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], None]] = {
            **dict.fromkeys(LEAVES, self._told_to_leave.set),
            signal.SIGWINCH: lambda: self._seen.resize(size()),
            signal.SIGTSTP: self._pause,
            signal.SIGCONT: self._go_on,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _take(self) -> None:
        # Not FLUSH, the default: it would eat what was typed before we were ready.
        tty.setraw(0, termios.TCSANOW)

    def _pause(self) -> None:
        with contextlib.suppress(OSError):
            os.write(1, self._screen.leaving())
        self._screen = Screen()
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _go_on(self) -> None:
        if in_foreground(0):
            self._take()
            self._seen.resize(size())

    async def _leave(self) -> None:
        try:
            if in_foreground(0):
                below = b"" if self._screen.alternate else b"\r\n"
                await hear_out(1, self._screen.leaving() + below)
        finally:
            self._give_back()

    def _give_back(self) -> None:
        # In the background it is somebody else's by now; and it may be gone altogether.
        if in_foreground(0):
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._before)


def size() -> Size:
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:
        columns, rows = 0, 0
    return Size(rows or 24, columns or 80)
