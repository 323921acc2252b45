"""A bubblewrap sandbox from its release to its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from ags import proc
from ags.kernel import watch
from ags.kernel.cgroup import Cgroup
from ags.model import Ending, Plan

GRACE = 5.0
"""Seconds between the request to end and the end."""
TIMED_OUT = 124


class BubblewrapSandbox:
    """Made by `Bubblewrap.launch`; the command waits behind the gate until `release`."""

    def __init__(
        self,
        plan: Plan,
        child: proc.Child,
        *,
        init: int,
        command: int,
        go: int,
        group: Cgroup | None,
    ) -> None:
        self._plan = plan
        self._child = child
        self._init = init
        self._command = command
        self._command_fd = os.pidfd_open(command)
        self._init_fd: int | None = os.pidfd_open(init)
        self._go: int | None = go
        self._group = group
        self._stopped_by: str | None = None
        self._timed_out = False
        self._guards: list[asyncio.Task[None]] = []
        self._ending: asyncio.Task[Ending] | None = None

    @property
    def init(self) -> int:
        return self._init

    @property
    def limited_by(self) -> str:
        return self._group.how if self._group else "rlimits"

    async def release(self) -> None:
        assert self._go is not None, "released twice"
        self._guards.append(asyncio.create_task(self._guard()))
        if self._plan.limits.timeout is not None:
            self._guards.append(asyncio.create_task(self._time_out(self._plan.limits.timeout)))
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"go\n")
        self._close_gate()

    def _close_gate(self) -> None:
        if self._go is not None:
            os.close(self._go)
            self._go = None

    def signal(self, number: int, *, group: bool = False) -> None:
        if self._child.code is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(os.getpgid(self._command), number)
            else:
                signal.pidfd_send_signal(self._command_fd, number)

    async def kill(self) -> None:
        self._end_now()
        await self.wait()

    def _end_now(self) -> None:
        """Both: the first process inside is set to die with bwrap, but what runs as the same user
        inside can write to its memory, and so take that back."""
        self._child.signal(signal.SIGKILL)
        if self._init_fd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)

    async def wait(self) -> Ending:
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        return await asyncio.shield(self._ending)

    async def _end(self) -> Ending:
        code = await self._child.wait()
        self._end_now()
        for guard in self._guards:
            guard.cancel()
        self._close_gate()
        assert self._init_fd is not None
        await proc.readable(self._init_fd)
        os.close(self._init_fd)
        self._init_fd = None
        os.close(self._command_fd)
        reached = None
        if self._group:
            self._group.kill()
            reached = self._group.reached()
            self._group.remove()
        if self._timed_out:
            return Ending(TIMED_OUT, self._stopped_by)
        # A limit that was touched on the way to success is no reason to report a failure.
        why = self._stopped_by or (reached if code != 0 else None)
        return Ending(code if code >= 0 else 128 - code, why)

    async def _guard(self) -> None:
        plan = self._plan
        why = await watch.watch(
            self._init, plan.limits, plan.writable_sources, contained=self._group is not None
        )
        self._stopped_by = why
        # What floods a disk or the memory is not asked politely.
        self._end_now()

    async def _time_out(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._stopped_by = f"the time limit of {seconds:g} s was reached"
        self._timed_out = True
        self.signal(signal.SIGTERM, group=True)
        await asyncio.sleep(GRACE)
        self._end_now()
