"""A terminal that outlives the terminals it is shown on."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import termios
from collections.abc import Callable

from ags.backends.base import Streams
from ags.control import wire
from ags.control.screen import Screen
from ags.control.wire import Ended, Size
from ags.model import KIB, MIB

CHUNK = 64 * KIB
TURNS = 16
"""Reads in a row, so that a flood costs few rounds and yet others get theirs."""
MOST_WAITING = 1 * MIB
"""Output that waits for one viewer; what comes on top is not shown there."""
MOST_TYPED = 64 * KIB
NUDGE = 0.1
"""Seconds a program gets to see the other size: if it is back by then, many draw nothing."""
MOST_NUDGES = 20
"""So often a program that has drawn nothing is told of the other size."""
LAST_WORDS = 2.0
"""Seconds for the rest of the output to come, and for a viewer to take the end."""
LOOK = 1.0
"""Seconds between looks whether a viewer is there whose input waits."""
STANDARD = Size(24, 80)
_IUTF8 = 0o40000  # termios has no name for it yet

# What a terminal says by itself: where the cursor is, what it is, its modes, colours and focus.
_ANSWERS = re.compile(
    rb"(?:\x1b\[[?>=]?[0-9;]*(?:[cRn]|\$y)|\x1b\[\?[0-9]+u|\x1b\[[IO]"
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1bP[^\x1b]*\x1b\\)+"
)


class Viewer:
    """One terminal far away. What it has not taken yet is bounded, and nobody waits for it."""

    def __init__(self, writer: asyncio.StreamWriter, size: Size) -> None:
        self.size = size
        self.skipped = 0
        """Bytes not shown since it fell behind."""
        self.catching_up: asyncio.Task[None] | None = None
        self._writer = writer
        writer.transport.set_write_buffer_limits(high=MOST_WAITING, low=MOST_WAITING // 16)

    def show(self, data: bytes) -> bool:
        """Whether it keeps up."""
        if self._writer.is_closing():
            return True
        for start in range(0, len(data), wire.MOST_FRAME):
            part = data[start : start + wire.MOST_FRAME]
            self._writer.write(wire.frame(wire.OUTPUT, part))
        return self._writer.transport.get_write_buffer_size() <= MOST_WAITING

    def is_gone(self) -> bool:
        """Asked of the kernel: the event loop does not see it while nobody reads from there."""
        if self._writer.is_closing():
            return True
        look = select.poll()
        look.register(self._writer.get_extra_info("socket").fileno(), 0)
        return bool(look.poll(0))

    async def taken(self) -> None:
        """Until most of what waits is taken; at once if the viewer is gone."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def end(self, ended: Ended) -> None:
        try:
            async with asyncio.timeout(LAST_WORDS):
                if self.catching_up is not None:
                    await asyncio.wait({self.catching_up})
                self._writer.write(wire.frame(wire.END, wire.pack_end(ended)))
                self._writer.close()
                await self._writer.wait_closed()
        except (TimeoutError, OSError):
            self._writer.transport.abort()


class Hub:
    """Owns a pseudo-terminal: its output goes to every viewer, and on with none; all may type."""

    def __init__(
        self, *, size: Size = STANDARD, on_output: Callable[[bytes], None] | None = None
    ) -> None:
        self.ended: Ended | None = None
        self._on_output = on_output
        self._screen = Screen()
        self._size = size
        self._settling: asyncio.TimerHandle | None = None
        self._nudges = 0
        self._has_drawn = False
        self._viewers: list[Viewer] = []
        self._lead: Viewer | None = None
        """Who last attached, resized or typed: the size is theirs."""
        self._typed = bytearray()
        self._room = asyncio.Event()
        self._drained = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._master, self._slave = pair()
        self._set_size(size)
        self._loop.add_reader(self._master, self._read)

    @property
    def streams(self) -> Streams:
        """For the command to be started with. They stay the hub's to close."""
        return Streams(self._slave, self._slave, self._slave, terminal=True)

    @property
    def size(self) -> Size:
        return self._size

    @property
    def alternate(self) -> bool:
        """Whether a full-screen program has it, as of the output so far."""
        return bool(self._screen.alternate)

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def attach(self, writer: asyncio.StreamWriter, size: Size) -> Viewer:
        """Shown from now on: first what there is, then what the program draws when asked again."""
        viewer = Viewer(writer, size)
        self._viewers.append(viewer)
        self._lead = viewer
        self._size = size
        self._draw(viewer)
        return viewer

    def detach(self, viewer: Viewer) -> None:
        """Nothing more goes there; the program does not notice."""
        self._viewers.remove(viewer)
        if viewer.catching_up is not None:
            viewer.catching_up.cancel()
        if self._lead is viewer and self._viewers:
            self._follow(self._viewers[-1])

    async def type(self, viewer: Viewer, data: bytes) -> None:
        """Returns once there is room for more; raises OSError if the viewer leaves before."""
        if not _ANSWERS.fullmatch(data):
            self._follow(viewer)
        elif viewer is not self._lead:
            return  # each terminal answers the program's question, which expects one answer
        self._typed += data
        self._write()
        while len(self._typed) > MOST_TYPED and self.ended is None:
            self._room.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._room.wait()
            if viewer.is_gone():
                raise ConnectionResetError

    def resize(self, viewer: Viewer, size: Size) -> None:
        """The same size again asks for the picture."""
        same, viewer.size = size == viewer.size, size
        self._follow(viewer)
        if same:
            self._draw(viewer)

    async def finish(self, ended: Ended) -> None:
        """The program is gone: what it left is read, then every viewer is told."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await self._drained.wait()
            self._close()
        self.ended = self.ended or ended
        self._room.set()
        await asyncio.gather(*(viewer.end(self.ended) for viewer in self._viewers))

    def _close(self) -> None:
        self._loop.remove_reader(self._master)
        self._loop.remove_writer(self._master)
        os.close(self._master)
        self._master = -1
        self._typed.clear()
        if self._settling is not None:
            self._settling.cancel()

    def _read(self) -> None:
        for _ in range(TURNS):
            try:
                data = os.read(self._master, CHUNK)
            except BlockingIOError:
                return
            except OSError:  # what a master says once nobody has the other side open
                data = b""
            if not data:
                self._loop.remove_reader(self._master)
                self._drained.set()
                return
            self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        self._screen.feed(data)
        self._has_drawn = True
        for viewer in self._viewers:
            self._show(viewer, data)
        if self._on_output is not None:
            self._on_output(data)

    def _show(self, viewer: Viewer, data: bytes) -> None:
        if viewer.catching_up is not None:
            viewer.skipped += len(data)
        elif not viewer.show(data):
            viewer.catching_up = asyncio.create_task(self._catch_up(viewer))

    async def _catch_up(self, viewer: Viewer) -> None:
        await viewer.taken()
        viewer.catching_up = None
        if viewer.skipped:
            note = b"\x1b\\\x1b[0m\r\n[ags: %d bytes of output were not shown here]\r\n"
            self._show(viewer, note % viewer.skipped)
            viewer.skipped = 0
            self._draw(viewer)

    def _draw(self, viewer: Viewer) -> None:
        self._show(viewer, self._screen.picture())
        self._nudge()
        self._has_drawn = False
        self._nudges = MOST_NUDGES
        if self._settling is None:
            self._settling = self._loop.call_later(NUDGE, self._settle, False)

    def _settle(self, had_drawn: bool) -> None:
        # Who drew nothing may have missed it, as many do that are just about to wait, and is told
        # anew; who drew gets one more pause, then the size goes back.
        self._nudges -= 1
        if self._nudges > 0 and not (had_drawn and self._has_drawn):
            if not self._has_drawn:
                self._set_size(self._size)
                self._nudge()
            self._settling = self._loop.call_later(NUDGE, self._settle, self._has_drawn)
        else:
            self._settling = None
            self._set_size(self._size)

    def _nudge(self) -> None:
        rows, columns = self._size.rows, self._size.columns
        self._set_size(Size(rows - 1 if rows > 1 else 2, columns))

    def _follow(self, viewer: Viewer) -> None:
        self._lead = viewer
        if self._size != viewer.size:
            self._size = viewer.size
            if self._settling is None:
                self._set_size(self._size)

    def _set_size(self, size: Size) -> None:
        """The program is told by the kernel, if it is another than before."""
        if self._master >= 0:
            set_size(self._master, size)

    def _write(self) -> None:
        if self._master < 0:
            self._typed.clear()
            return
        try:
            while self._typed:
                del self._typed[: os.write(self._master, self._typed[:CHUNK])]
            self._loop.remove_writer(self._master)
        except BlockingIOError:
            self._loop.add_writer(self._master, self._write)
        except OSError:
            self._typed.clear()
        if len(self._typed) <= MOST_TYPED:
            self._room.set()


def pair() -> tuple[int, int]:
    """Both sides of a new terminal; ours does not block."""
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    settings = termios.tcgetattr(slave)
    settings[0] |= _IUTF8  # one press of the erase key takes one letter
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    return master, slave


def set_size(master: int, size: Size) -> None:
    packed = struct.pack("HHHH", size.rows, size.columns, 0, 0)
    fcntl.ioctl(master, termios.TIOCSWINSZ, packed)
