"""The watch: what the kernel does not bound for a run is measured, and the run stopped in time."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ags.errors import AgsError
from ags.frozen import frozen
from ags.kernel import processes
from ags.model import Limits

INODES_FREE = 10_000
"""The floor for inodes; on a file system with few of them, a twentieth of all."""
SHARE_OF_TIME = 0.1
"""The watch rests so long that it never takes more of a core than this."""
LOOK_CLOSER = 2.0
"""Seconds at most for the exact count of a run that seems to be over its memory."""


@frozen
class Room:
    """What is left on one file system the run can write to."""

    path: Path
    bytes_free: int | None
    """None on a file system that does not count."""
    inodes_free: int
    inodes: int
    """0 where inodes are made as needed and cannot run out."""


@frozen
class Sample:
    """One measurement. None: the kernel sees to that limit, or nobody asked for it."""

    rooms: tuple[Room, ...] = ()
    memory: int | None = None
    tasks: int | None = None
    memory_available: int | None = None


def judge(sample: Sample, limits: Limits) -> str | None:
    """The sentence why the run must be stopped, if it must."""
    for room in sample.rooms:
        if lack := lacking(room, limits):
            return lack
    if limits.memory is not None and sample.memory is not None and sample.memory > limits.memory:
        return memory_reached(limits.memory)
    if limits.pids is not None and sample.tasks is not None and sample.tasks > limits.pids:
        return pids_reached(limits.pids)
    available, floor = sample.memory_available, limits.memory_free
    if available is not None and floor is not None and available < floor:
        return (
            f"the machine has only {human_size(available)} of memory left "
            f"(the floor is {human_size(floor)})"
        )
    return None


def lacking(room: Room, limits: Limits) -> str | None:
    """What there is too little of, as a sentence."""
    if limits.disk_free is None:
        return None
    if room.bytes_free is not None and room.bytes_free < limits.disk_free:
        return (
            f"the file system of {room.path} has only {human_size(room.bytes_free)} left "
            f"(the floor is {human_size(limits.disk_free)})"
        )
    floor = min(INODES_FREE, room.inodes // 20)
    if room.inodes_free < floor:
        return (
            f"the file system of {room.path} has only {room.inodes_free} inodes left "
            f"(the floor is {floor})"
        )
    return None


def memory_reached(limit: int) -> str:
    return f"the memory limit of {human_size(limit)} was reached"


def pids_reached(limit: int) -> str:
    return f"the limit of {limit} processes and threads was reached"


def human_size(size: int) -> str:
    """`64 MiB`, `1.5 GiB`; one digit after the point where it says something."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(value, 1) < 1024:
            return f"{round(value, 1):g} {unit}"
        value /= 1024
    return f"{round(value, 1):.16g} TiB"


def check_room(limits: Limits, writable: Sequence[Path]) -> None:
    """Refuse a run that the watch would stop at once for want of disk."""
    for path in writable:
        try:
            lack = lacking(_room(path, path), limits)
        except OSError as error:
            raise AgsError("start the run", subject=path, cause=error.strerror or "") from error
        if lack:
            raise AgsError(
                "start the run",
                subject=path,
                cause=lack,
                hint="make room there, or lower `disk_free` under [limits] in the settings",
            )


async def watch(
    init_pid: int,
    limits: Limits,
    writable: Sequence[Path],
    *,
    contained: bool,
    interval: float = 0.25,
) -> str:
    """Wait until the run must be stopped and say why. The caller cancels it when the run ends.

    It samples, so a run can overshoot between two looks; the floors leave the machine that slack.
    """
    with _watched(init_pid, limits, writable, contained=contained) as watched:
        while True:
            begun = time.monotonic()
            if reason := judge(await watched.sample(), limits):
                return reason
            took = time.monotonic() - begun
            await asyncio.sleep(max(interval, took / SHARE_OF_TIME))


@frozen
class _Watched:
    """What a watch looks at. Descriptors: a run may rename paths, but not what we hold open."""

    init: int
    born: int | None
    limits: Limits
    contained: bool
    disks: tuple[tuple[Path, int], ...]
    tmpfs: tuple[int, ...]

    async def sample(self) -> Sample:
        rooms = tuple(_room(path, descriptor) for path, descriptor in self.disks)
        # Nothing but this floor stands between the machine and a run without a memory limit.
        available = memory_available() if not self.contained or self.limits.memory is None else None
        if self.contained:
            return Sample(rooms, memory_available=available)
        pids = self._pids()
        return Sample(rooms, await self._memory(pids), self._tasks(pids), available)

    def _pids(self) -> list[int]:
        if processes.start_time(self.init) != self.born:
            return []
        return [self.init, *processes.descendants(self.init, self.limits.pids)]

    async def _memory(self, pids: Sequence[int]) -> int | None:
        if self.limits.memory is None:
            return None
        files = sum(map(_used, self.tmpfs))
        upper = files + sum(map(processes.resident, pids))
        # Shared pages count in each process there, so look closer before it costs a run its life.
        return upper if upper <= self.limits.memory else files + await _proportional(pids)

    def _tasks(self, pids: Sequence[int]) -> int | None:
        if self.limits.pids is None:
            return None
        return sum(len(processes.threads(pid)) for pid in pids)


async def _proportional(pids: Sequence[int]) -> int:
    """Exact for as many as there is time for, or a run could keep us busy; the rest in full."""
    until = time.monotonic() + LOOK_CLOSER
    total = 0
    for pid in pids:
        exact = time.monotonic() < until
        total += processes.proportional(pid) if exact else processes.resident(pid)
        await asyncio.sleep(0)  # the kernel walks all its pages: others go first in between
    return total


@contextmanager
def _watched(
    init: int, limits: Limits, writable: Sequence[Path], *, contained: bool
) -> Iterator[_Watched]:
    with ExitStack() as held:
        disks = _one_per_device([(path, _hold(held, path)) for path in writable])
        tmpfs: list[int] = []
        for path in () if contained else _own_tmpfs(init):
            with suppress(OSError):  # covered by a later mount, or the run has just ended
                tmpfs.append(_hold(held, path))
        born = processes.start_time(init)
        yield _Watched(init, born, limits, contained, tuple(disks), tuple(tmpfs))


def _hold(held: ExitStack, path: Path) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    return descriptor


def _one_per_device(places: Sequence[tuple[Path, int]]) -> list[tuple[Path, int]]:
    by_device = {os.fstat(descriptor).st_dev: (path, descriptor) for path, descriptor in places}
    return list(by_device.values())


def _own_tmpfs(init: int) -> list[Path]:
    """The run's own tmpfs mounts, which are memory; those of the host it sees are not its doing."""
    before, seen, after = processes.mounts(), processes.mounts(init), processes.mounts()
    # Twice: the host may mount one, or take one away, while we look at what the run sees.
    hosts = {mount.device for mount in (*before, *after)}
    own = {
        mount.device: mount.path
        for mount in seen
        if mount.kind == "tmpfs" and mount.device not in hosts
    }
    root = Path(f"/proc/{init}/root")
    return [root / path.relative_to("/") for path in own.values()]


def _room(path: Path, place: Path | int) -> Room:
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize if status.f_blocks else None
    return Room(path, free, status.f_favail, status.f_files)


def _used(descriptor: int) -> int:
    status = os.fstatvfs(descriptor)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def memory_available() -> int | None:
    """Bytes the machine can still give out without swapping."""
    with suppress(OSError):
        text = Path("/proc/meminfo").read_text()
        if match := re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE):
            return int(match[1]) * 1024
    return None
