"""A terminal as bytes: no tmux in between that would draw, drop or change anything."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.interactive.watching import DEADLINE
from tests.people import Person


class Line:
    """Our end of the terminal that a command of the person's runs on."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master: int | None = master
        self.process = process
        self.received = bytearray()

    def write(self, data: bytes) -> None:
        assert self._master is not None
        os.write(self._master, data)

    def hang_up(self) -> None:
        """Close the terminal, as when its window is."""
        if self._master is not None:
            os.close(self._master)
            self._master = None

    def read_until(self, enough: Callable[[bytearray], bool]) -> None:
        until = time.monotonic() + DEADLINE
        while not enough(self.received):
            data = self._read(until)
            assert data, f"the terminal ended after {bytes(self.received[-500:])!r}"
            self.received += data

    def read_all(self) -> bytes:
        """Until the command has ended."""
        until = time.monotonic() + DEADLINE
        while data := self._read(until):
            self.received += data
        return bytes(self.received)

    def _read(self, until: float) -> bytes:
        assert self._master is not None
        left = max(0.0, until - time.monotonic())
        assert select.select([self._master], [], [], left)[0], bytes(self.received[-500:])
        try:
            return os.read(self._master, 1 << 16)
        except OSError:  # what a terminal says whose other side is closed
            return b""


def line(person: Person, cwd: Path, *arguments: str) -> AbstractContextManager[Line]:
    """`ags exec` with these arguments, on a terminal of its own."""
    return dialled(person, cwd, str(person.checkout / "bin" / "ags"), "exec", *arguments)


@contextmanager
def dialled(person: Person, cwd: Path, *command: str) -> Iterator[Line]:
    """Any command on a terminal of its own."""
    master, slave = pty.openpty()
    become = person.uid != os.geteuid()
    process = subprocess.Popen(
        ("setsid", "--ctty", *command),
        cwd=cwd,
        env=dict(person.environment),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        user=person.uid if become else None,
        group=person.gid if become else None,
        extra_groups=[] if become else None,
    )
    os.close(slave)
    made = Line(master, process)
    try:
        yield made
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        made.hang_up()
