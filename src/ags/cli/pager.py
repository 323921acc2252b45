"""Long text, a screen at a time, in the person's own pager."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ags import proc
from ags.proc import Child

CHUNK = 1 << 16
LESS = "-FRX"
"""Ends by itself if all fits on the screen, shows colours, and leaves the text there."""
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
PASSED_ON = (signal.SIGINT, signal.SIGWINCH, *ENDINGS)


def pager(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """$PAGER by the person's own PATH, or the system's `less`; None to do without."""
    given = environ.get("PAGER")
    if given is None:
        less = proc.find("less")
        return None if less is None else (less, LESS)
    try:
        words = shlex.split(given)
    except ValueError:
        return None
    if not words or words == ["cat"]:
        return None
    found = _on_path(words[0], environ.get("PATH", ""))
    return None if found is None else (found, *words[1:])


def _on_path(name: str, path: str) -> str | None:
    """Never by a relative way, which would lead through the current folder."""
    folders = [""] if name.startswith("/") else path.split(":") if "/" not in name else []
    tried = (Path(folder, name) for folder in folders)
    return next((str(p) for p in tried if p.is_absolute() and os.access(p, os.X_OK)), None)


async def page(lines: Iterable[str], environ: Mapping[str, str]) -> None:
    """On a terminal through the pager, else as it is. A reader who has seen enough may leave."""
    command = pager(environ) if sys.stdout.isatty() and sys.stdin.isatty() else None
    if command is None:
        for line in lines:
            print(line)
        return
    sys.stdout.flush()
    with _terminal_lent() as to:
        started = _start(command, environ)
        if started is not None:
            child, writing = started
            to(child)
            try:
                await _feed(writing, lines)
            finally:  # whatever went wrong: it has the terminal until its reader leaves
                await child.wait()
            return
    for line in lines:
        print(line)


def _start(command: tuple[str, ...], environ: Mapping[str, str]) -> tuple[Child, int] | None:
    """The pager and where it is fed; None if it cannot be run."""
    reading, writing = os.pipe()
    try:
        child = proc.spawn(
            command,
            # A pager can start an editor or a shell on a key; not over text from an agent.
            env={"LESS": LESS, **environ, "LESSSECURE": "1"},
            descriptors={0: reading, 1: 1, 2: 2},
        )
    except proc.ProcessError:
        os.close(writing)
        return None
    finally:
        os.close(reading)
    return child, writing


@contextlib.contextmanager
def _terminal_lent() -> Iterator[Callable[[Child], None]]:
    """To one with a session of its own: what the terminal sends to us, or who ends us, is passed
    on, from its very first moment."""
    loop = asyncio.get_running_loop()
    lent: list[Child] = []
    told: list[int] = []

    def pass_on(number: int) -> None:
        told.append(number)
        for child in lent:
            child.signal(number)

    for number in PASSED_ON:
        loop.add_signal_handler(number, pass_on, number)
    # Stopped, we would leave the shell and the pager to read the same keys.
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        yield lent.append
    finally:
        signal.signal(signal.SIGTSTP, before)
        for number in PASSED_ON:
            loop.remove_signal_handler(number)
    if ended := [number for number in told if number in ENDINGS]:
        raise SystemExit(128 + ended[0])


async def _feed(descriptor: int, lines: Iterable[str]) -> None:
    os.set_blocking(descriptor, False)
    try:
        for chunk in _chunks(lines):
            left = memoryview(chunk)
            while left:
                await proc.writable(descriptor)
                left = left[os.write(descriptor, left) :]
    except BrokenPipeError:
        pass  # closed before the end
    finally:
        os.close(descriptor)


def _chunks(lines: Iterable[str]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(f"{line}\n".encode(errors="backslashreplace"))
        size += len(waiting[-1])
        if size >= CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
