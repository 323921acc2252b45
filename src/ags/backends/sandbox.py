"""A bubblewrap sandbox from its release to its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ags import kernel, proc
from ags.backends import walls
from ags.backends.base import Streams
from ags.backends.pipes import Pipes
from ags.errors import AgsError
from ags.kernel import rlimits, seccomp, watch
from ags.kernel.cgroup import Cgroup
from ags.model import RLIMITS, Ending, Plan

JOIN = Path(str(kernel.__file__)).with_name("join.py")
ENTER_TIMEOUT = 30.0

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
        # Looked at while the command still waits; later, it could hide.
        self._walls = look(command)
        self._helpers: set[proc.Child] = set()
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
        return self._group.how if self._group else RLIMITS

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
        if self._child.code is None:
            _signal(self._command, self._command_fd, number, group=group)

    async def enter(self, command: Sequence[str], streams: Streams) -> Entered:
        """Through a helper that joins; what it forks is born behind every wall and limit."""
        if self._go is not None or self._init_fd is None or self._child.code is not None:
            raise self._refusal("its command is not running")
        if not command or command[0].startswith("-") or any("\0" in word for word in command):
            raise self._refusal(f"{' '.join(command)!r} is no command")
        with contextlib.ExitStack() as ours:
            entrance = _Entrance(ours)
            helper = self._send(command, streams, entrance, ours)
            try:
                await entrance.wait_ready()
                self._confine(helper.pid)
                check(helper.pid, self._walls)
                entrance.release()
                entered = Entered(helper, int(await entrance.wait_ready()))
                ours.callback(entered.close_unless_running)
                entrance.release()
            except BaseException as error:
                helper.signal(signal.SIGKILL)
                await helper.wait()
                if isinstance(error, EOFError | OSError):
                    raise self._refusal(entrance.said() or _reason(error)) from error
                raise
        if self._group is None:
            self._guards.append(asyncio.create_task(self._guard_entered(entered)))
        return entered

    def _send(
        self,
        command: Sequence[str],
        streams: Streams,
        entrance: _Entrance,
        ours: contextlib.ExitStack,
    ) -> proc.Child:
        from ags.kernel import join  # only here: it loads ctypes, which nothing else needs

        filter_ = seccomp.program(platform.machine(), ptrace=self._plan.ptrace)
        assert self._init_fd is not None
        helper = proc.spawn(
            (sys.executable, "-I", "-S", str(JOIN)),
            env={},
            descriptors={
                0: streams.stdin,
                1: streams.stdout,
                2: entrance.errors,
                join.GO: entrance.their_go,
                join.READY: entrance.their_ready,
                join.ORDERS: proc.filled(_orders(self._plan, command, streams.terminal), ours),
                join.TARGET: self._init_fd,
                join.FILTER: proc.filled(filter_, ours),
                join.STDERR: streams.stderr,
            },
        )
        entrance.close_theirs()
        self._helpers = {each for each in self._helpers if each.code is None} | {helper}
        if self._group:  # at once: the kernel takes its time for this, and Python starts meanwhile
            self._group.add(helper.pid)
        return helper

    def _confine(self, pid: int) -> None:
        if self._group:
            self._group.hold((pid,))
        rlimits.apply((pid,), self._plan.limits, contained=self._group is not None)

    def _refusal(self, cause: str) -> AgsError:
        return AgsError("enter the sandbox", subject=self._plan.run, cause=cause, exit_code=125)

    async def kill(self) -> None:
        self._end_now()
        await self.wait()

    def _end_now(self) -> None:
        """Both: the first process inside is set to die with bwrap, but what runs as the same user
        inside can write to its memory, and so take that back."""
        self._child.signal(signal.SIGKILL)
        for helper in self._helpers:
            helper.signal(signal.SIGKILL)
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
        await asyncio.gather(*(helper.wait() for helper in self._helpers))
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

    async def _guard_entered(self, entered: Entered) -> None:
        """It has a parent outside, so the watch of the first process does not see it."""
        watching = asyncio.create_task(
            watch.watch(entered.pid, self._plan.limits, (), contained=False)
        )
        ending = asyncio.create_task(entered.wait())
        try:
            await asyncio.wait((watching, ending), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                self._stopped_by = watching.result()
                self._end_now()
        finally:
            watching.cancel()
            ending.cancel()

    async def _time_out(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._stopped_by = f"the time limit of {seconds:g} s was reached"
        self._timed_out = True
        self.signal(signal.SIGTERM, group=True)
        await asyncio.sleep(GRACE)
        self._end_now()


class Entered:
    """A second process inside, followed by descriptor; a helper outside is its parent."""

    def __init__(self, helper: proc.Child, pid: int) -> None:
        self.pid = pid
        self._helper = helper
        self._fd: int | None = os.pidfd_open(pid)

    def signal(self, number: int, *, group: bool = False) -> None:
        if self._fd is not None and self._helper.code is None:
            _signal(self.pid, self._fd, number, group=group)

    async def wait(self) -> int:
        code = await self._helper.wait()
        self.close_unless_running()
        return code if code >= 0 else 128 - code

    def close_unless_running(self) -> None:
        if self._fd is not None and self._helper.code is not None:
            os.close(self._fd)
            self._fd = None


def _signal(pid: int, descriptor: int, number: int, *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(os.getpgid(pid), number)
        else:
            signal.pidfd_send_signal(descriptor, number)


class _Entrance(Pipes):
    """Of one entering."""

    async def wait_ready(self) -> bytes:
        """What is said when the next step is done."""
        async with asyncio.timeout(ENTER_TIMEOUT):
            await proc.readable(self.ready)
        if not (said := os.read(self.ready, 64)):
            raise EOFError
        return said

    def release(self) -> None:
        os.write(self.go, b"-")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing was heard from inside for {ENTER_TIMEOUT:g} s"
    return "it or the process that was to enter ended meanwhile"


def _orders(plan: Plan, command: Sequence[str], terminal: bool) -> bytes:
    who = plan.identity
    ours = (os.geteuid(), os.getegid())
    return json.dumps(
        {
            "parent": os.getpid(),
            "user": None if ours == (who.host_uid, who.host_gid) else (who.host_uid, who.host_gid),
            "terminal": terminal,
            "cwd": str(plan.cwd),
            "environment": plan.environment,
            "command": tuple(command),
        }
    ).encode()


def look(pid: int) -> Mapping[str, str]:
    """What holds the children of a process: namespaces, root, who they are, what is denied them."""
    seen = {name: os.readlink(f"/proc/{pid}/ns/{link}") for name, link in _LINKS.items()}
    root = os.stat(f"/proc/{pid}/root")
    seen["root"] = f"{root.st_dev}:{root.st_ino}"
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return seen | {name: status[name] for name in (*walls.STATUS, "Uid", "Gid", "Groups")}


# Who joins a pid namespace stays outside; only children are born in it.
_LINKS = {name: name for name in walls.NAMESPACES} | {"pid": "pid_for_children"}


def check(pid: int, expected: Mapping[str, str]) -> None:
    """Raises unless the one who is to enter is held as the command is, whose walls were checked."""
    found = look(pid)
    for name, must in expected.items():
        if found[name] != must:
            raise AgsError(
                "enter the sandbox",
                cause=f"a wall is not as it must be: {name} is {found[name]}, not {must}",
                hint="nothing was run; `ags doctor` checks this machine",
                exit_code=125,
            )
