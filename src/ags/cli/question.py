"""A question at the terminal, and its answer in one line."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

LONGEST = 4096
"""Bytes that a terminal hands over as one line."""


def agreed(question: str, *, default: bool = False, to: TextIO | None = None) -> bool:
    """No is whatever does not say yes, and the end of the input."""
    with _heard() as signals:
        print(f"{question} {'[Y/n]' if default else '[y/N]'} ", end="", file=to, flush=True)
        answer = _line(signals)
    if not answer.endswith(b"\n"):
        print(file=to)
        return False
    return answer.strip().lower() in ((b"y", b"yes", b"") if default else (b"y", b"yes"))


def _line(signals: int) -> bytes:
    """Python looks for signals before it reads and after: a Ctrl-C that came between the two would
    wait for the line. Here each one also ends the wait, whenever it came."""
    while sys.stdin not in select.select([sys.stdin, signals], [], [])[0]:
        os.read(signals, LONGEST)  # another signal, and it is dealt with
    return os.read(sys.stdin.fileno(), LONGEST)


@contextmanager
def _heard() -> Iterator[int]:
    """Readable once a signal has come. Ctrl-C gives the question up at once, also where a loop is
    running, which would only take note of it."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    noted = signal.set_wakeup_fd(writing)
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield reading
    finally:
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(noted)
        os.close(reading)
        os.close(writing)
