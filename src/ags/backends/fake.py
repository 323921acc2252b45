"""A backend that runs nothing: it plays a few commands in this very process.

For tests of what stands above a backend. It keeps the contract of `base.py` and offers no wall at
all, so no command line offers it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ags import proc
from ags.backends import ways
from ags.backends.base import Probe, Streams
from ags.errors import AgsError
from ags.model import RLIMITS, Bind, Ending, Plan

Play = Callable[[Plan, Streams], Coroutine[Any, Any, int]]


async def _true(plan: Plan, streams: Streams) -> int:
    return 0


async def _false(plan: Plan, streams: Streams) -> int:
    return 1


async def _echo(plan: Plan, streams: Streams) -> int:
    os.write(streams.stdout, " ".join(plan.command[1:]).encode() + b"\n")
    return 0


async def _env(plan: Plan, streams: Streams) -> int:
    os.write(streams.stdout, "".join(f"{n}={v}\n" for n, v in plan.environment).encode())
    return 0


async def _pwd(plan: Plan, streams: Streams) -> int:
    os.write(streams.stdout, f"{plan.cwd}\n".encode())
    return 0


async def _cat(plan: Plan, streams: Streams) -> int:
    while True:
        await proc.readable(streams.stdin)
        if not (data := os.read(streams.stdin, 65536)):
            return 0
        os.write(streams.stdout, data)


async def _sleep(plan: Plan, streams: Streams) -> int:
    await asyncio.sleep(float(plan.command[1]))
    return 0


PLAYS: Mapping[str, Play] = {
    "true": _true,
    "false": _false,
    "echo": _echo,
    "env": _env,
    "pwd": _pwd,
    "cat": _cat,
    "sleep": _sleep,
}


async def _not_found(plan: Plan, streams: Streams) -> int:
    return 127


class FakeEntered:
    """A play under way."""

    def __init__(self, playing: Coroutine[Any, Any, int]) -> None:
        self.pid = os.getpid()
        self._ended_by: int | None = None
        self.task = asyncio.create_task(playing)

    def signal(self, number: int, *, group: bool = False) -> None:
        if not self.task.done() and number:
            self._ended_by = number
            self.task.cancel()

    async def wait(self) -> int:
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self._ended_by is None or not self.task.done():
                raise
            return 128 + self._ended_by


class FakeSandbox:
    """A play that waits for its release, and those that enter it."""

    limited_by = RLIMITS

    def __init__(self, plan: Plan, streams: Streams, plays: Mapping[str, Play]) -> None:
        self.init = os.getpid()
        self._plan = plan
        self._plays = plays
        self._released = asyncio.Event()
        self._main = FakeEntered(self._run(plan, streams))
        self._entered: list[FakeEntered] = []
        self._main.task.add_done_callback(lambda _: self._end_entered())

    async def _run(self, plan: Plan, streams: Streams) -> int:
        await self._released.wait()
        return await self._plays.get(plan.command[0], _not_found)(plan, streams)

    def _end_entered(self) -> None:
        for entered in self._entered:
            entered.signal(9)

    async def release(self) -> None:
        self._released.set()

    def signal(self, number: int, *, group: bool = False) -> None:
        self._main.signal(number)

    async def enter(self, command: Sequence[str], streams: Streams) -> FakeEntered:
        if not self._released.is_set() or self._main.task.done():
            raise AgsError(
                "enter the sandbox", subject=self._plan.run, cause="its command is not running"
            )
        entered = FakeEntered(self._run(replace(self._plan, command=tuple(command)), streams))
        self._entered.append(entered)
        return entered

    async def kill(self) -> None:
        self.signal(9)
        await self.wait()

    async def wait(self) -> Ending:
        try:
            return Ending(await asyncio.wait_for(self._main.wait(), self._plan.limits.timeout))
        except TimeoutError:
            self._main.task.cancel()
            return Ending(124, f"the time limit of {self._plan.limits.timeout:g} s was reached")


class Fake:
    """Give it plays of your own to act out an agent."""

    name = "fake"

    def __init__(self, plays: Mapping[str, Play] = PLAYS) -> None:
        self._plays = plays

    async def probe(self) -> Probe:
        return Probe(True, binary="none", version="0")

    async def launch(self, plan: Plan, streams: Streams) -> FakeSandbox:
        for step in plan.mounts:
            if isinstance(step, Bind) and not step.source.exists():
                raise AgsError("mount", subject=step.source, cause="no such file or directory")
        ways.check(plan.mounts)
        return FakeSandbox(plan, streams, self._plays)
