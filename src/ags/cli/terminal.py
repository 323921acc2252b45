"""Between the person's terminal and a command in the sandbox.

The person's own terminal never goes inside: whoever holds it could read what is typed later or
change its settings. The command gets a terminal made for it, and its bytes are passed on here.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import stat
import termios
import tty
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ags import proc
from ags.backends.base import Sandbox, Streams
from ags.cli.files import Files
from ags.frozen import frozen

CHUNK = 65536
GRACE = 5.0
"""Seconds for a command to end by itself after its terminal was closed."""
LAST_WORDS = 0.5
"""Seconds for the person's terminal to take what brings it back, and to answer."""
QUIET = 0.05
TO_GROUP = (signal.SIGINT, signal.SIGQUIT)
TO_COMMAND = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

# Terminals answer in order: once this is answered, whatever the program asked has been as well.
ASK, _ANSWER = b"\x1b[5n", b"\x1b[0n"
# What it is, where its cursor is, its size, modes, version, colours and settings.
_QUESTION = re.compile(
    rb"\x1b(?:\[[0-?]*(?:[cnx]|\dt|\$p|\?u)|\[>\d*q|\][^\x07\x1b]*\?|P[$+]q|Z)|\x05"
)
_LONGEST = 32


@frozen
class Wiring:
    """Which of our three streams are terminals, and what goes where because of it."""

    keyboard: bool
    """What is typed goes to the command."""
    on_terminal: tuple[bool, bool, bool]
    outlet: int | None
    """Where the made terminal's output is shown; None: no such terminal is needed."""
    shared: bool
    """While the command has the keyboard, a program behind the pipe may write to the screen."""


def wire(
    on_terminal: tuple[bool, bool, bool], *, into_pipe: bool, foreground: bool, interactive: bool
) -> Wiring:
    """With stdout in a pipe the keyboard is likely somebody else's, a pager's, unless asked for."""
    stdin, stdout, stderr = on_terminal
    keyboard = stdin and foreground and (interactive or not into_pipe)
    outlet = 1 if stdout else 2 if stderr else 0 if keyboard else None
    return Wiring(keyboard, on_terminal, outlet, shared=keyboard and into_pipe)


def look(interactive: bool) -> Wiring:
    """The wiring for this process as it was started."""
    on_terminal = (os.isatty(0), os.isatty(1), os.isatty(2))
    return wire(
        on_terminal,
        into_pipe=_is_pipe(1),
        foreground=on_terminal[0] and in_foreground(0),
        interactive=interactive,
    )


def _is_pipe(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def in_foreground(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


class Terminal:
    """Streams for a command, the relay between them and ours, and all put back at the end."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._stack = contextlib.ExitStack()
        self._master: int | None = None
        self._slave: int | None = None
        self._before: list[Any] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._asked = False
        self._tail = b""
        self._files = Files()
        self._stack.callback(self._files.close)

    def open(self) -> Streams:
        """For the command to be started with; they stay ours until `close`."""
        wiring = self._wiring
        if wiring.keyboard:
            self._before = termios.tcgetattr(0)
        made = self._make_terminal() if wiring.outlet is not None else None
        stdin, stdout, stderr = (
            made if made is not None and on_terminal else fd
            for fd, on_terminal in enumerate(wiring.on_terminal)
        )
        if not wiring.keyboard and wiring.on_terminal[0]:
            stdin = os.open(os.devnull, os.O_RDONLY)
            self._stack.callback(os.close, stdin)
        return self._files.apart(Streams(stdin, stdout, stderr, terminal=wiring.keyboard))

    def _make_terminal(self) -> int:
        assert self._wiring.outlet is not None
        master, slave = pty.openpty()
        os.set_blocking(master, False)
        self._master = master
        self._slave = slave
        self._stack.callback(os.close, master)
        self._stack.callback(self._close_slave)
        settings = termios.tcgetattr(self._wiring.outlet)
        if not self._wiring.keyboard:
            settings[1] &= ~termios.OPOST  # the person's terminal does it once, that is enough
            settings[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        self._resize()
        return slave

    def _close_slave(self) -> None:
        if self._slave is not None:
            os.close(self._slave)
            self._slave = None

    def _resize(self) -> None:
        if self._master is not None and self._wiring.outlet is not None:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(self._wiring.outlet, termios.TIOCGWINSZ, b"\0" * 8)
                fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    async def accompany(self, sandbox: Sandbox) -> None:
        """Let the command begin, and pass bytes and signals until it has ended and all is shown."""
        with self._signals(sandbox):
            # Not before: a signal that comes as soon as it runs would end us, and not be passed on.
            await sandbox.release()
            async with self._files.passing():
                await self._accompany(sandbox)

    async def _accompany(self, sandbox: Sandbox) -> None:
        if self._master is None:
            await sandbox.wait()
            return
        self._take()
        try:
            await self._relay(sandbox)
            if self._asked and self._before is not None and in_foreground(0):
                assert self._wiring.outlet is not None
                await hear_out(self._wiring.outlet)
        finally:
            self._give_back()

    @contextlib.contextmanager
    def _signals(self, sandbox: Sandbox) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], Any]] = {}
        for number in TO_GROUP:
            handlers[number] = partial(sandbox.signal, number, group=True)
        for number in TO_COMMAND:
            handlers[number] = partial(sandbox.signal, number)
        handlers[signal.SIGHUP] = partial(self._hang_up, sandbox)
        handlers[signal.SIGWINCH] = self._resize
        handlers[signal.SIGTSTP] = partial(self._pause, sandbox)
        handlers[signal.SIGCONT] = self._take
        # What our caller has us ignore, as nohup does, we do not pass on either.
        heard = [number for number in handlers if signal.getsignal(number) != signal.SIG_IGN]
        for number in heard:
            loop.add_signal_handler(number, handlers[number])
        try:
            yield
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    def _take(self) -> None:
        """From here on what is typed goes inside untouched; at the start, and after a pause."""
        self._resize()
        if self._before is not None and in_foreground(0):
            # Not FLUSH, the default: it would eat what was typed before we were ready.
            tty.setraw(0, termios.TCSANOW)
            if self._wiring.shared:
                settings = termios.tcgetattr(0)
                settings[1] |= termios.OPOST  # lines of the other program begin at the left
                termios.tcsetattr(0, termios.TCSANOW, settings)

    def _give_back(self) -> None:
        # In the background it is somebody else's by now; and it may be gone altogether.
        if self._before is not None and in_foreground(0):
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._before)

    def _pause(self, sandbox: Sandbox) -> None:
        """Ctrl-Z on a run that has not got the keyboard: stop both, go on with both."""
        sandbox.signal(signal.SIGSTOP, group=True)
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        sandbox.signal(signal.SIGCONT, group=True)

    def _hang_up(self, sandbox: Sandbox) -> None:
        sandbox.signal(signal.SIGHUP, group=True)
        closed = any(was and not os.isatty(fd) for fd, was in enumerate(self._wiring.on_terminal))
        if closed and self._closing is None:
            self._closing = asyncio.create_task(_end(sandbox))

    async def _relay(self, sandbox: Sandbox) -> None:
        typing = asyncio.create_task(self._typed()) if self._wiring.keyboard else None
        showing = asyncio.create_task(self._shown(sandbox))
        try:
            await sandbox.wait()
            # Held until now: it would end for us whenever nobody inside has it open.
            self._close_slave()
            await showing
        finally:
            for task in (typing, showing):
                if task is not None:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task

    async def _typed(self) -> None:
        assert self._master is not None
        while data := await read(0):
            await write(self._master, data)
        # End of our input, as when the terminal is gone: the command sees its own Ctrl-D.
        await write(self._master, b"\x04")

    async def _shown(self, sandbox: Sandbox) -> None:
        assert self._master is not None and self._wiring.outlet is not None
        try:
            while data := await read(self._master):
                self._look_for_questions(data)
                await write(self._wiring.outlet, data)
        except OSError:
            sandbox.signal(signal.SIGHUP, group=True)
            while await read(self._master):
                pass

    def _look_for_questions(self, data: bytes) -> None:
        self._asked = self._asked or _QUESTION.search(self._tail + data) is not None
        self._tail = data[-_LONGEST:]

    def close(self) -> None:
        self._stack.close()


async def _end(sandbox: Sandbox) -> None:
    """A run whose terminal is closed ends, be it deaf: nobody could end it later."""
    await asyncio.sleep(GRACE)
    await sandbox.kill()


async def hear_out(outlet: int, farewell: bytes = b"") -> None:
    """Say farewell, and read what the terminal still had to answer, lest a shell takes it as typed.

    While this lasts, nobody else may read from it.
    """
    try:
        async with asyncio.timeout(LAST_WORDS):
            await write(outlet, farewell + ASK)
            heard = b""
            while _ANSWER not in heard and (data := await read(0)):
                heard = heard[-len(_ANSWER) :] + data
            # The program may have asked the very same, and more after that.
            with contextlib.suppress(TimeoutError):
                while True:
                    async with asyncio.timeout(QUIET):
                        if not await read(0):
                            return
    except (OSError, TimeoutError):
        with contextlib.suppress(termios.error):
            termios.tcflush(0, termios.TCIFLUSH)


async def read(fd: int) -> bytes:
    """What is there, or nothing at the end; a terminal whose other side is closed has ended."""
    await proc.readable(fd)
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return await read(fd)
    except OSError:
        return b""


async def write(fd: int, data: bytes) -> None:
    """In small pieces once the other side is ready, so that a stopped terminal stops only this."""
    view = memoryview(data)
    while view:
        await proc.writable(fd)
        try:
            # A blocking terminal that is ready takes at least this much without waiting.
            view = view[os.write(fd, view[:1024]) :]
        except BlockingIOError:
            continue
