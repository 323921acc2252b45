"""Redirected files stay outside; a pipe leads to each.

A descriptor that was opened for reading or appending can be opened anew inside, through
/proc/self/fd, for writing: only the file's mode would stand against it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import replace

from ags import proc
from ags.backends.base import Streams

CHUNK = 65536


class Files:
    """Pipes in the place of files, and the bytes passed between them."""

    def __init__(self) -> None:
        self._theirs: list[int] = []
        self._feeding: list[tuple[int, int]] = []
        self._draining: list[tuple[int, int]] = []

    def apart(self, streams: Streams) -> Streams:
        """The same streams, without a file among them."""
        if _is_file(streams.stdin):
            reading, writing = os.pipe()
            os.set_blocking(writing, False)
            self._theirs.append(reading)
            self._feeding.append((streams.stdin, writing))
            streams = replace(streams, stdin=reading)
        one = streams.stdout != streams.stderr and os.path.sameopenfile(
            streams.stdout, streams.stderr
        )
        if _is_file(streams.stdout):
            made = self._outlet(streams.stdout)
            # With one file for both, the order of what is written to them must stay.
            streams = replace(streams, stdout=made, stderr=made if one else streams.stderr)
        if _is_file(streams.stderr):
            streams = replace(streams, stderr=self._outlet(streams.stderr))
        return streams

    def _outlet(self, file: int) -> int:
        reading, writing = os.pipe()
        self._theirs.append(writing)
        self._draining.append((reading, file))
        return writing

    @contextlib.asynccontextmanager
    async def passing(self) -> AsyncIterator[None]:
        """While a sandbox that was started with these streams runs; ends when all has arrived."""
        self.let_go()
        feeding = [asyncio.create_task(_feed(*each)) for each in self._feeding]
        draining = [asyncio.create_task(_drain(*each)) for each in self._draining]
        self._feeding, self._draining = [], []
        try:
            yield
            await asyncio.gather(*draining)
        finally:
            for task in (*feeding, *draining):
                task.cancel()
            await asyncio.gather(*feeding, *draining, return_exceptions=True)

    def let_go(self) -> None:
        """Our copies of their ends: while we hold one, its pipe has no end."""
        while self._theirs:
            os.close(self._theirs.pop())

    def close(self) -> None:
        self.let_go()
        for ours in (*(w for _, w in self._feeding), *(r for r, _ in self._draining)):
            os.close(ours)


def _is_file(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISREG(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)


async def _feed(file: int, pipe: int) -> None:
    try:
        with contextlib.suppress(OSError):  # read by nobody any more, or not to be read
            while data := os.read(file, CHUNK):
                view = memoryview(data)
                while view:
                    await proc.writable(pipe)
                    with contextlib.suppress(BlockingIOError):
                        view = view[os.write(pipe, view) :]
    finally:
        os.close(pipe)


async def _drain(pipe: int, file: int) -> None:
    try:
        while True:
            await proc.readable(pipe)
            view = memoryview(os.read(pipe, CHUNK))
            if not view:
                return
            while view:
                view = view[os.write(file, view) :]
    finally:
        os.close(pipe)
