"""What an agent prints, line by line, as events."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from ags import proc
from ags.agents.base import OWN, Agent, Heard
from ags.backends.base import Sandbox, Streams
from ags.events import Line, OutputSplitter, Writer
from ags.model import MIB, Ending

MOST_RAW = 256 * MIB
CHUNK = 65536
"""Read at a time: enough to keep up with a flood, little enough to answer others meanwhile."""


class Raw:
    """The lines as they came, for who doubts what we made of them. No more than so many."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._left = MOST_RAW - os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        kept = data[: max(0, self._left)]
        self._left -= len(kept)
        # Without room on the disk there is still what was made of the lines.
        with contextlib.suppress(OSError):
            os.write(self._file, kept)

    def close(self) -> None:
        os.close(self._file)


class Output:
    """Two pipes from the command, and nothing on its standard input."""

    def __init__(
        self, agent: Agent, log: Writer, raw: Path, heard: Callable[[Heard], None]
    ) -> None:
        """`raw` keeps what a real agent printed, to the byte; `heard` is told of every line."""
        self._agent = agent
        self._log = log
        self._heard = heard
        self._raw = Raw(raw) if agent.program is not None else None
        self._ours: dict[int, Callable[[Line], None]] = {}
        self._theirs: list[int] = []

    def open(self) -> Streams:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._theirs.append(nothing)
        return Streams(nothing, self._pipe(self._said), self._pipe(self._complained))

    def _pipe(self, tell: Callable[[Line], None]) -> int:
        reading, writing = os.pipe()
        self._ours[reading] = tell
        self._theirs.append(writing)
        return writing

    async def accompany(self, sandbox: Sandbox) -> Ending:
        """Until everyone inside has closed both, which nobody outlives."""
        self._let_go()
        await asyncio.gather(*(self._drain(fd, tell) for fd, tell in self._ours.items()))
        return await sandbox.wait()

    async def _drain(self, descriptor: int, tell: Callable[[Line], None]) -> None:
        """One turn of the loop for what is there, and no more: most lines come alone."""
        splitter = OutputSplitter(self._agent.longest)

        def take() -> bool:
            chunk = os.read(descriptor, CHUNK)
            if self._raw is not None and tell == self._said:
                self._raw.write(chunk)
            for line in splitter.feed(chunk) if chunk else splitter.finish():
                tell(line)
            return bool(chunk)

        await proc.while_readable(descriptor, take)

    def _said(self, line: Line) -> None:
        if line.end in ("\n", ""):
            heard = self._agent.parse(line.text)
            for said in heard.said:
                assert said.kind in OWN, "an agent spoke for AGS"
                self._log.write(said.kind, **said.fields)
            self._heard(heard)
        else:
            self._log.write("output", text=line.text, end=line.end)

    def _complained(self, line: Line) -> None:
        end = {} if line.end in ("\n", "") else {"end": line.end}
        self._log.write("output", text=line.text, stream="stderr", **end)

    def _let_go(self) -> None:
        """Our copies of their ends: while we hold one, its pipe has no end."""
        while self._theirs:
            os.close(self._theirs.pop())

    def close(self) -> None:
        self._let_go()
        if self._raw is not None:
            self._raw.close()
        while self._ours:
            os.close(self._ours.popitem()[0])
