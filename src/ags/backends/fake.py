"""A backend that runs nothing: it plays a few commands in this very process.

For tests of what stands above a backend. It keeps the contract of `base.py` and offers no wall at
all, so no command line offers it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping

from ags import proc
from ags.backends.base import Probe, Streams
from ags.errors import AgsError
from ags.model import Bind, Ending, Plan

Play = Callable[[Plan, Streams], Awaitable[int]]


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


class FakeSandbox:
    """A play that waits for its release."""

    limited_by = "rlimits"

    def __init__(self, plan: Plan, streams: Streams, play: Play) -> None:
        self.init = os.getpid()
        self._plan = plan
        self._ended_by: int | None = None
        self._released = asyncio.Event()
        self._task = asyncio.create_task(self._run(plan, streams, play))

    async def _run(self, plan: Plan, streams: Streams, play: Play) -> int:
        await self._released.wait()
        return await play(plan, streams)

    async def release(self) -> None:
        self._released.set()

    def signal(self, number: int, *, group: bool = False) -> None:
        if not self._task.done() and number:
            self._ended_by = number
            self._task.cancel()

    async def kill(self) -> None:
        self.signal(9)
        await self.wait()

    async def wait(self) -> Ending:
        try:
            code = await asyncio.wait_for(asyncio.shield(self._task), self._plan.limits.timeout)
        except TimeoutError:
            self._task.cancel()
            return Ending(124, f"the time limit of {self._plan.limits.timeout:g} s was reached")
        except asyncio.CancelledError:
            if self._ended_by is None:
                raise
            return Ending(128 + self._ended_by)
        return Ending(code)


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

        async def not_found(plan: Plan, streams: Streams) -> int:
            return 127

        return FakeSandbox(plan, streams, self._plays.get(plan.command[0], not_found))
