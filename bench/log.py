"""What one run can write to its log, and a reader can follow."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ags import proc
from ags.agents import agent
from ags.backends.base import Sandbox
from ags.errors import AgsError
from ags.events import Writer, read
from ags.supervisor.output import Output
from bench.measure import Mark, Missing, Once, Peer, Row, Series, finish, interleaved
from bench.workshop import AGS

LINES, QUICK_LINES = 300_000, 20_000
ROUNDS, QUICK_ROUNDS = 5, 1
SAID = "a line such as a compiler prints: src/part/section/file.c:120: note: declared here"
OWED = 50_000
WRITTEN, FOLLOWED, PEER = "written by one run", "followed by a reader", "tee"
NONE = Mark("none", lambda count: count == 0)

# In a process of its own, as every reader is. It says when it begins to look.
FOLLOW = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ags.events import follow

async def main():
    print(flush=True)
    left = int(sys.argv[3])
    async for event in follow(Path(sys.argv[2])):
        left -= event.kind == "output"
        if not left:
            return

asyncio.run(main())
"""


def rows(*, quick: bool) -> Iterator[Row]:
    """Lines a second, from a program that prints as fast as it can."""
    lines = QUICK_LINES if quick else LINES
    lost: list[int] = []
    with tempfile.TemporaryDirectory(prefix="ags-bench-") as name, asyncio.Runner() as runner:
        log = Log(Path(name), lines)
        contenders: dict[str, Once] = {
            WRITTEN: lambda: lines / runner.run(log.written(lost)),
            FOLLOWED: lambda: lines / runner.run(log.followed()),
        }
        if tee := shutil.which("tee"):
            contenders[PEER] = lambda: lines / log.teed(tee)
        figures = interleaved(contenders, QUICK_ROUNDS if quick else ROUNDS)
    peer = Peer(PEER, figures.get(PEER, Missing("not installed")))
    for case in (WRITTEN, FOLLOWED):
        mark = at_least(OWED, peer.figure)
        note = f"{lines:,} lines of {len(SAID) + 1} bytes"
        yield Row("log", case, figures[case], "lines/s", peer=peer, mark=mark, note=note)
    yield Row("log", "lost below the cap", Series((max(lost),)), "lines", mark=NONE)


def at_least(figure: float, peer: Series | Missing) -> Mark:
    """For our own figure, though a row with a peer is asked by its ratio."""
    theirs = peer.median if isinstance(peer, Series) else 1.0
    return Mark(f"≥ {figure:,} lines/s", lambda ratio: ratio * theirs >= figure)


@dataclass(frozen=True, slots=True)
class Log:
    """A program that says so many lines, and what becomes of them."""

    folder: Path
    lines: int

    @property
    def program(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", f"yes '{SAID}' | head -n {self.lines}")

    @property
    def path(self) -> Path:
        return self.folder / "events.jsonl"

    async def written(self, lost: list[int]) -> float:
        """Seconds from the start of the program until the log is closed."""
        begun = time.monotonic()
        await self._write()
        taken = time.monotonic() - begun
        whole = {"text": SAID}
        lost.append(self.lines - sum(event.fields == whole for event in read(self.path)))
        self.path.unlink()
        return taken

    async def followed(self) -> float:
        """The same until a reader, who was there from the beginning, has seen the last line."""
        source = str(AGS.parent.parent / "src")
        words = (sys.executable, "-I", "-c", FOLLOW, source, str(self.path), str(self.lines))
        told, tells = os.pipe()
        try:
            reader = proc.spawn(words, env={}, descriptors={1: tells, 2: 2})
            os.close(tells)
            await proc.readable(told)
            begun = time.monotonic()
            await self._write()
            if await reader.wait() != 0:
                raise AgsError("follow the log", cause="the reader failed")
            return time.monotonic() - begun
        finally:
            os.close(told)
            self.path.unlink(missing_ok=True)

    async def _write(self) -> None:
        writer = Writer(self.path)
        output = Output(agent("shell"), writer, self.path, lambda heard: None)
        streams = output.open()
        given = {0: streams.stdin, 1: streams.stdout, 2: streams.stderr}
        child = proc.spawn(self.program, env=proc.MINIMAL_ENVIRONMENT, descriptors=given)
        # Of a sandbox only its end is asked for; the pipes are the same without one.
        await output.accompany(cast(Sandbox, child))
        output.close()
        writer.close()

    def teed(self, tee: str) -> float:
        """Seconds for the same into a file and on, as a person would keep it."""
        script = f"{self.program[2]} | '{tee}' '{self.path}' > /dev/null"
        begun = time.monotonic()
        finish(("/bin/sh", "-c", script))
        taken = time.monotonic() - begun
        self.path.unlink()
        return taken
