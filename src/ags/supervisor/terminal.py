"""Terminals of a run: the agent's own, and those of shells that are opened beside it."""

from __future__ import annotations

import asyncio
import re
import signal
from typing import Self

from ags.agents.shell import SHELL
from ags.backends.base import Entered, Sandbox, Streams
from ags.control.hub import Hub
from ags.control.wire import Ended
from ags.events import OutputSplitter, Writer
from ags.model import Ending

# Control sequences, titles and the like: a log is of what was said, not of where on the screen.
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
    r"|[\x00-\x08\x0e-\x1f]"
)
ENV = "/usr/bin/env"
ABSENCE = 2.0
"""Seconds a shell outlives the last one who looked at it: a detach and an attach fit in between."""


class Desk:
    """The terminal that an agent works at. It goes on while nobody looks."""

    def __init__(self, log: Writer) -> None:
        self.hub = Hub(on_output=self._logged)
        self._log = log
        self._splitter = OutputSplitter()

    def open(self) -> Streams:
        return self.hub.streams

    async def accompany(self, sandbox: Sandbox) -> Ending:
        ending = await sandbox.wait()
        await self.hub.finish(Ended(ending.code, ending.stopped_by or ""))
        return ending

    def close(self) -> None:
        """The hub closed with its program."""

    def _logged(self, data: bytes) -> None:
        if self.hub.alternate:
            return
        for line in self._splitter.feed(data):
            if (text := _SEQUENCE.sub("", line.text)).strip():
                self._log.write("output", text=text)


class Room:
    """A shell beside the agent, in its sandbox, that ends when nobody looks at it any more."""

    def __init__(self, hub: Hub, shell: Entered) -> None:
        self.hub = hub
        self._shell = shell
        self._tasks = (asyncio.create_task(self._outlive()), asyncio.create_task(self._watch()))

    @classmethod
    async def open(cls, sandbox: Sandbox, kind: object) -> Self:
        """`kind` is what the viewer's terminal is called: a run may know none, or another."""
        hub = Hub()
        known = isinstance(kind, str) and re.fullmatch(r"[A-Za-z0-9._+-]{1,64}", kind, re.ASCII)
        command = (ENV, f"TERM={kind}", SHELL) if known else (SHELL,)
        try:
            return cls(hub, await sandbox.enter(command, hub.streams))
        except BaseException:
            await hub.finish(Ended(None, "it did not start"))
            raise

    async def _outlive(self) -> None:
        code = await self._shell.wait()
        await self.hub.finish(Ended(code, ""))

    async def _watch(self) -> None:
        while self.hub.ended is None:
            await asyncio.sleep(ABSENCE)
            if self.hub.viewers == 0:
                self._shell.signal(signal.SIGHUP)
                return
