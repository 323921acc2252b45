"""Control groups: the kernel bounds memory, processes and CPU time of a run as a whole."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from ags.errors import AgsError
from ags.frozen import frozen
from ags.kernel import processes
from ags.kernel.hierarchies import (
    OURS,
    CgroupUnavailable,
    Hierarchy,
    base_v2,
    bases_v1,
    here,
    make,
    members_of,
    name_for,
    reason,
    write,
)
from ags.kernel.watch import memory_reached, pids_reached
from ags.model import MIB, Limits

__all__ = ["Cgroup", "CgroupUnavailable", "Offer", "create", "describe", "sweep"]

CPU_PERIOD = 100_000
CPU_QUOTA_LEAST = 1_000
TRIAL = Limits(memory=64 * MIB, cpus=1, pids=64)


@frozen
class Setting:
    """A value for one file of a cgroup. Optional: not every kernel has the file."""

    file: str
    value: str
    optional: bool = False

    @property
    def controller(self) -> str:
        return self.file.partition(".")[0]


@frozen
class Counts:
    """What the kernel did to a run on account of its limits."""

    killed: int = 0
    memory_full: int = 0
    forks_refused: int = 0


@frozen
class Offer:
    """What would bound a run here, why nothing better would, and how to get that."""

    how: str
    why: str = ""
    repair: str = ""


class Cgroup:
    """A run's own cgroup: one directory in version 2, one per hierarchy in version 1."""

    def __init__(self, how: str, directories: Sequence[Path], limits: Limits) -> None:
        self.how = how
        self.directories = tuple(directories)
        self.limits = limits
        self._ended = False
        self._reached: str | None = None

    def add(self, pid: int) -> None:
        """Move a process in; whatever it starts from then on is born inside."""
        for directory in self.directories:
            try:
                write(directory / "cgroup.procs", str(pid))
            except OSError as error:
                what = "put the run into its cgroup"
                raise AgsError(what, subject=directory, cause=reason(error)) from error

    def hold(self, pids: Iterable[int]) -> None:
        """Add those that are not inside by inheritance: adding again costs as much as at first."""
        for pid in pids:
            if not all(pid in members_of(directory) for directory in self.directories):
                self.add(pid)

    def reached(self) -> str | None:
        """The limit the run ran into, as a sentence. Stays the same from kill or remove on."""
        if not self._ended:
            self._reached = verdict(_counts(self.directories), self.limits)
        return self._reached

    def kill(self, patience: float = 5.0) -> None:
        """End every process inside."""
        self._close_the_books()
        _kill(self.directories, patience)

    def remove(self, patience: float = 2.0) -> None:
        """Take the empty cgroup away."""
        self._close_the_books()
        for directory in self.directories:
            _remove(directory, patience)

    def _close_the_books(self) -> None:
        # Killing forbids forks first, and every fork refused by that would count as the run's.
        self.reached()
        self._ended = True


def create(run: str, limits: Limits, places: Sequence[Hierarchy] | None = None) -> Cgroup:
    """A cgroup that holds all these limits, or CgroupUnavailable and nothing left behind.

    Version 2 where it has the controllers, else version 1.
    """
    name, needs = name_for(run), needed(limits)
    places = here() if places is None else places
    if not needs:
        raise CgroupUnavailable("no limit is set that needs one")
    try:
        return _build(2, dict.fromkeys(needs, base_v2(places, needs)), name, limits)
    except CgroupUnavailable:
        if not any(needs & place.controllers for place in places):
            raise
    return _build(1, bases_v1(places, needs), name, limits)


def describe(limits: Limits = TRIAL) -> Offer:
    """Found out by doing it: a cgroup with these limits is made and removed."""
    try:
        group = create("doctor", limits)
    except CgroupUnavailable as error:
        return Offer("rlimits and the watch", error.cause, error.hint)
    group.remove()
    if group.how == "cgroup v2":
        return Offer(group.how)
    return Offer(
        group.how,
        "the controllers of this machine are on version 1",
        "boot with systemd.unified_cgroup_hierarchy=1 to be limited without root, too",
    )


def sweep(*, everywhere: bool = False) -> list[Path]:
    """Remove what dead supervisors left where we would put a cgroup, or in all of the trees."""
    found = [each for parent in _parents(here(), everywhere) for each in parent.glob("ags-*-*")]
    return [directory for directory in found if _swept(directory)]


def needed(limits: Limits) -> frozenset[str]:
    """The controllers these limits take."""
    return frozenset(setting.controller for setting in settings(2, limits))


def settings(version: int, limits: Limits) -> tuple[Setting, ...]:
    """What to write, in order. Reading each back must give the very same text."""
    found: list[Setting] = []
    if limits.memory is not None:
        # No swap, or a run would wear down the disk instead of ending at its limit.
        size = str(limits.memory // processes.PAGE * processes.PAGE)
        found += {
            1: (
                Setting("memory.limit_in_bytes", size),
                Setting("memory.memsw.limit_in_bytes", size, optional=True),
                Setting("memory.swappiness", "0", optional=True),
            ),
            2: (
                Setting("memory.max", size),
                Setting("memory.swap.max", "0", optional=True),
                Setting("memory.oom.group", "1"),
            ),
        }[version]
    if limits.pids is not None:
        found.append(Setting("pids.max", str(limits.pids)))
    if limits.cpus is not None:
        period, quota = str(CPU_PERIOD), str(max(CPU_QUOTA_LEAST, round(limits.cpus * CPU_PERIOD)))
        found += {
            1: (Setting("cpu.cfs_period_us", period), Setting("cpu.cfs_quota_us", quota)),
            2: (Setting("cpu.max", f"{quota} {period}"),),
        }[version]
    return tuple(found)


def configure(directory: Path, setting: Setting) -> None:
    """Write a limit and believe it only when it reads back."""
    file = directory / setting.file
    try:
        if setting.optional and not file.exists():
            return
        write(file, setting.value)
        held = file.read_text().strip()
    except OSError as error:
        raise CgroupUnavailable(
            f"the kernel refuses {setting.file} = {setting.value} ({reason(error)})"
        ) from error
    if held != setting.value:
        raise CgroupUnavailable(f"{setting.file} became {held} instead of {setting.value}")


def verdict(counts: Counts, limits: Limits) -> str | None:
    """The sentence for what happened, the deadliest first."""
    if counts.killed and counts.memory_full and limits.memory is not None:
        return f"{memory_reached(limits.memory)} (the kernel ended a process)"
    if counts.killed:
        return "memory ran out outside the run's own limit (the kernel ended a process of the run)"
    if counts.forks_refused and limits.pids is not None:
        return pids_reached(limits.pids)
    return None


def _build(version: int, bases: Mapping[str, Path], name: str, limits: Limits) -> Cgroup:
    made: list[Path] = []
    try:
        for directory in dict.fromkeys(base / name for base in bases.values()):
            make(directory, version)
            made.append(directory)
        for setting in settings(version, limits):
            configure(bases[setting.controller] / name, setting)
    except CgroupUnavailable:
        for directory in made:
            directory.rmdir()
        raise
    return Cgroup(f"cgroup v{version}", made, limits)


# Leftovers


def _is_leftover(directory: Path) -> bool:
    """Whether its owner is dead, and nobody lives in it but a run."""
    match = OURS.fullmatch(directory.name)
    if match is None or processes.start_time(int(match["pid"])) == int(match["start"]):
        return False
    members = members_of(directory)
    # With a member in another pid namespace, called 0, the owner may only look dead from here.
    # And what has gathered in a supervisor's leaf may be other supervisors.
    return not members or (match["run"] is not None and 0 not in members)


def _swept(directory: Path) -> bool:
    try:
        if not _is_leftover(directory):
            return False
        _kill([directory], patience=1.0)
        _remove(directory, patience=1.0)
    except (OSError, AgsError):
        return False
    return True


def _parents(places: Iterable[Hierarchy], everywhere: bool) -> Iterator[Path]:
    for place in places:
        if everywhere:
            yield from (Path(directory) for directory, _, _ in os.walk(place.top))
        else:
            yield from (place.base, place.top / "ags")


# The files of a cgroup


def _kill(directories: Sequence[Path], patience: float) -> None:
    for directory in directories:
        for file, value in (("cgroup.kill", "1"), ("pids.max", "0")):
            if (directory / file).exists():
                write(directory / file, value)
    until = time.monotonic() + patience
    while left := [(pid, each) for each in directories for pid in members_of(each)]:
        if time.monotonic() > until:
            cause = f"{len(left)} still there, such as {left[0][0]}"
            raise AgsError("end every process of the run", subject=directories[0], cause=cause)
        for pid, directory in left:
            processes.kill(pid, only_if=partial(_is_inside, pid, directory))
        time.sleep(0.005)


def _is_inside(pid: int, directory: Path) -> bool:
    try:
        return f"/{directory.name}\n" in Path(f"/proc/{pid}/cgroup").read_text()
    except processes.GONE:
        return False


def _remove(directory: Path, patience: float) -> None:
    until = time.monotonic() + patience
    while directory.exists():
        try:
            directory.rmdir()
        except OSError as error:
            # The last process may be on its way out still.
            if error.errno != errno.EBUSY or time.monotonic() > until:
                what = "remove the run's cgroup"
                raise AgsError(what, subject=directory, cause=reason(error)) from error
            time.sleep(0.005)


def _counts(directories: Sequence[Path]) -> Counts:
    def count(file: str, key: str = "") -> int:
        return sum(_count(directory / file, key) for directory in directories)

    # Version 1 does not count how often its limit was met (failcnt stays 0 on new kernels).
    mark, limit = count("memory.max_usage_in_bytes"), count("memory.limit_in_bytes")
    return Counts(
        killed=count("memory.events", "oom_kill") + count("memory.oom_control", "oom_kill"),
        memory_full=count("memory.events", "oom") + (0 < limit * 15 // 16 <= mark),
        forks_refused=count("pids.events", "max"),
    )


def _count(file: Path, key: str) -> int:
    """`key 3` among lines of that form, or without a key the file's only number."""
    try:
        text = file.read_text()
    except OSError:
        return 0
    match = re.search(rf"^{key} ?([0-9]+)$", text, re.MULTILINE)
    return int(match[1]) if match else 0
