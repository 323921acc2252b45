"""The default backend: namespaces by bubblewrap, a system call filter and limits of our own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
from collections.abc import Sequence

from ags import proc
from ags.backends import bwrap, walls, ways
from ags.backends.base import Probe, Streams
from ags.backends.pipes import Pipes
from ags.backends.sandbox import BubblewrapSandbox
from ags.errors import AgsError
from ags.frozen import frozen
from ags.kernel import cgroup, processes, rlimits, seccomp, watch
from ags.model import (
    Bind,
    Cover,
    Dev,
    Directory,
    Link,
    Mask,
    MountStep,
    Plan,
    Proc,
    ReadOnly,
    Text,
    Tmpfs,
)

# Descriptors as bwrap sees them. The gate's must be single digits: that is all a POSIX shell takes.
GO, READY, ARGUMENTS, INFO, FILTER, STDERR, FIRST_FILE = 3, 4, 5, 6, 7, 8, 10

# The command waits behind this until limits and walls are in place. It is a shell inside the
# finished sandbox and not bwrap's --block-fd, because that lets go on end-of-file: were we killed
# in between, the command would run without limits and outlive us. `read` fails on end-of-file.
GATE = 'echo >&4 && read -r go <&3 && exec "$@" 2>&8 3<&- 4>&- 8>&-'

START_TIMEOUT = 30.0


@frozen
class Rendered:
    """Arguments for bwrap, and the contents of the files they name by descriptor."""

    arguments: tuple[str, ...]
    files: tuple[bytes, ...]


def render(plan: Plan) -> Rendered:
    """The plan as bwrap's arguments; files get descriptors from FIRST_FILE on, in order."""
    arguments = [f"--unshare-{namespace}" for namespace in bwrap.NAMESPACES]
    arguments += bwrap.HARDENING
    arguments += ["--uid", str(plan.identity.uid), "--gid", str(plan.identity.gid)]
    arguments += ["--hostname", plan.hostname, "--chdir", str(plan.cwd)]
    arguments += ["--info-fd", str(INFO), "--seccomp", str(FILTER)]
    for name, value in plan.environment:
        arguments += ["--setenv", name, value]
    files: list[bytes] = []
    for step in plan.mounts:
        arguments += _mount(step, files)
    _check_text((*arguments, *plan.command))
    if plan.command[0].startswith("-"):  # some shells' `exec` would take it as an option
        raise AgsError("run", subject=plan.command[0], cause="no command starts with a dash")
    return Rendered(tuple(arguments), tuple(files))


def _check_text(arguments: Sequence[str]) -> None:
    """Arguments travel separated by NUL: one inside a value would begin another argument."""
    for argument in arguments:
        if "\0" in argument:
            raise AgsError("start the sandbox", cause=f"{argument!r} contains a NUL character")


def _mount(step: MountStep, files: list[bytes]) -> Sequence[str]:
    target = str(step.target)
    match step:
        case Bind(source=source, writable=writable):
            return ("--bind" if writable else "--ro-bind", str(source), target)
        case Tmpfs(size=size, mode=mode):
            return ("--size", str(size), "--perms", f"{mode:04o}", "--tmpfs", target)
        case Directory(mode=mode):
            return ("--perms", f"{mode:04o}", "--dir", target)
        case Text(content=content, mode=mode):
            files.append(content)
            return ("--perms", f"{mode:04o}", "--file", _last(files), target)
        case Link(to=to):
            return ("--symlink", to, target)
        case Proc():
            return ("--proc", target)
        case Dev():
            return ("--dev", target)
        case Mask(kind="file"):
            files.append(b"")
            return ("--perms", "0444", "--ro-bind-data", _last(files), target)
        case Cover(content=content):
            files.append(content)
            return ("--perms", "0444", "--ro-bind-data", _last(files), target)
        case Mask():
            return ("--size", "4096", "--perms", "0555", "--tmpfs", target, "--remount-ro", target)
        case ReadOnly():
            return ("--remount-ro", target)


def _last(files: list[bytes]) -> str:
    return str(FIRST_FILE + len(files) - 1)


class Bubblewrap:
    """Needs Linux with user namespaces; no daemon, no root, no image."""

    name = "bubblewrap"

    def __init__(self, binary: str | None = None) -> None:
        self._binary = binary

    async def probe(self) -> Probe:
        """Builds a sandbox with every namespace and runs `true` in it."""
        try:
            binary = self._binary or await bwrap.choose(os.geteuid())
            version = await bwrap.version(binary)
            await bwrap.attempt(binary)
        except AgsError as error:
            return Probe(False, cause=error.cause, hint=error.hint)
        return Probe(True, binary, version)

    async def launch(self, plan: Plan, streams: Streams) -> BubblewrapSandbox:
        """Build the walls, check them, and leave the command waiting behind the gate."""
        watch.check_room(plan.limits, plan.writable_sources)
        if self._binary is None:
            self._binary = await bwrap.choose(plan.identity.host_uid)
        group = _confine(plan)
        try:
            return await _launch(self._binary, plan, streams, group)
        except BaseException:
            if group:
                group.kill()
                group.remove()
            raise


def _confine(plan: Plan) -> cgroup.Cgroup | None:
    try:
        return cgroup.create(plan.run, plan.limits)
    except cgroup.CgroupUnavailable:
        return None


async def _launch(
    binary: str, plan: Plan, streams: Streams, group: cgroup.Cgroup | None
) -> BubblewrapSandbox:
    expected = walls.expect(plan.mounts)
    ways.check(plan.mounts)
    with contextlib.ExitStack() as ours:
        pipes = _Pipes(ours)
        child = proc.spawn(
            (binary, "--args", str(ARGUMENTS), "--", *_gated(plan, streams)),
            env={},  # --clearenv alone would leave our environment readable in /proc/1/environ
            descriptors=_descriptors(plan, streams, pipes, ours),
            user=_other_user(plan),
        )
        pipes.close_theirs()
        try:
            if group:  # at once: the kernel takes its time for this, and bwrap mounts meanwhile
                group.add(child.pid)
            async with asyncio.timeout(START_TIMEOUT):  # unlike wait_for, it loses no cancellation
                init = await _wait_ready(pipes)
            command = processes.children(init)[0]
            if group:
                group.hold((init, command))
            rlimits.apply((init, command), plan.limits, contained=group is not None)
            walls.check(command, expected)
            go = os.dup(pipes.go)
        except BaseException as error:
            # Were bwrap killed alone before it told its child to go on, that would wait for ever.
            child.kill_group()
            code = await child.wait()
            if isinstance(error, _NotReady | TimeoutError | IndexError | OSError):
                raise _explain(plan, code, pipes) from error
            raise
    return BubblewrapSandbox(plan, child, init=init, command=command, go=go, group=group)


class _NotReady(Exception):
    """bwrap or the gate ended before the sandbox stood."""


class _Pipes(Pipes):
    """And `info`, where bwrap says who is the first process inside."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        super().__init__(stack)
        # A file: bwrap would be killed by a pipe that nobody reads, were we killed, and its child
        # wait for its word for ever.
        self.info = proc.filled(b"", stack)


def _gated(plan: Plan, streams: Streams) -> tuple[str, ...]:
    if not streams.terminal:
        return ("/bin/sh", "-c", GATE, "ags", *plan.command)
    # Only the leader of a fresh session can take the terminal as its own; with bwrap itself in the
    # terminal's foreground group, Ctrl-C would end bwrap and everything with it.
    setsid = proc.find("setsid")
    if setsid is None:
        raise AgsError(
            "give the command a terminal",
            cause="the program `setsid` is missing",
            hint="install util-linux, or run with input or output redirected",
        )
    return ("/bin/sh", "-c", GATE, "ags", setsid, "-c", "--", *plan.command)


def _descriptors(
    plan: Plan, streams: Streams, pipes: _Pipes, stack: contextlib.ExitStack
) -> dict[int, int]:
    rendered = render(plan)
    arguments = b"".join(os.fsencode(argument) + b"\0" for argument in rendered.arguments)
    filter_ = seccomp.program(platform.machine(), ptrace=plan.ptrace)
    named = {ARGUMENTS: arguments, FILTER: filter_}
    named |= {FIRST_FILE + i: content for i, content in enumerate(rendered.files)}
    return {
        0: streams.stdin,
        1: streams.stdout,
        2: pipes.errors,
        STDERR: streams.stderr,
        GO: pipes.their_go,
        READY: pipes.their_ready,
        INFO: pipes.info,
    } | {fd: proc.filled(content, stack) for fd, content in named.items()}


def _other_user(plan: Plan) -> tuple[int, int] | None:
    identity = plan.identity
    if (identity.host_uid, identity.host_gid) == (os.geteuid(), os.getegid()):
        return None
    return identity.host_uid, identity.host_gid


async def _wait_ready(pipes: _Pipes) -> int:
    await proc.readable(pipes.ready)
    if not os.read(pipes.ready, 4096):
        raise _NotReady
    # By now all of it is there: bwrap lets nothing inside go on before.
    if not (told := os.pread(pipes.info, 4096, 0)):
        raise _NotReady
    return int(json.loads(told)["child-pid"])


def _explain(plan: Plan, code: int, pipes: _Pipes) -> AgsError:
    return AgsError(
        "start the sandbox",
        subject=plan.run,
        cause=pipes.said() or f"bwrap ended with {code} and no message",
        hint="`ags doctor` looks for the reason",
        exit_code=125,
    )
