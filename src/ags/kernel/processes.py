"""What /proc says about a process. Any question may come too late: the process is gone by then."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ags.frozen import frozen

PROC = Path("/proc")
PAGE = os.sysconf("SC_PAGE_SIZE")
GONE = (FileNotFoundError, ProcessLookupError)


@frozen
class MountPoint:
    """One line of mountinfo: `root` of the file system is seen at `path`."""

    device: str
    root: str
    path: Path
    writable: bool
    kind: str
    options: frozenset[str]


def children(pid: int) -> list[int]:
    """The processes `pid` started and has not waited for."""
    return _reader()(pid)


def descendants(pid: int, at_most: int | None = None) -> list[int]:
    """All processes below `pid`, parents first; the search ends once it has more than `at_most`.

    The tree moves while it is read, so one that keeps forking may be missed or be gone.
    """
    children_of = _reader()
    found: list[int] = []
    seen = {pid}
    waiting = deque([pid])
    while waiting and (at_most is None or len(found) <= at_most):
        new = [child for child in children_of(waiting.popleft()) if child not in seen]
        seen.update(new)
        found += new
        waiting += new
    return found


def _reader() -> Callable[[int], list[int]]:
    if (PROC / "thread-self/children").exists():
        return _listed_children
    table = _scanned_children()  # a kernel without CONFIG_PROC_CHILDREN: one pass for all questions
    return lambda pid: table.get(pid, [])


def _listed_children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in threads(pid):
        with contextlib.suppress(*GONE):
            found += map(int, _read(pid, f"task/{thread}/children").split())
    return found


def _scanned_children() -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    for pid in (int(each.name) for each in PROC.iterdir() if each.name.isdecimal()):
        if fields := _stat(pid):
            table.setdefault(int(fields[1]), []).append(pid)
    return table


def threads(pid: int) -> list[int]:
    """Thread ids, the main one included. Each thread has children of its own."""
    try:
        with os.scandir(f"/proc/{pid}/task") as entries:
            return [int(entry.name) for entry in entries]
    except GONE:
        return []


def resident(pid: int) -> int:
    """Bytes in memory. What it shares with others is counted in full."""
    try:
        return int(_read(pid, "statm").split()[1]) * PAGE
    except GONE:
        return 0


def proportional(pid: int) -> int:
    """Bytes in memory, each shared page divided among its users. Slower than `resident`."""
    try:
        match = re.search(r"^Pss:\s+(\d+) kB$", _read(pid, "smaps_rollup"), re.MULTILINE)
    except OSError:
        return resident(pid)
    return int(match[1]) * 1024 if match else resident(pid)


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to start: together with the pid, a name no later process gets."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def kill(pid: int, *, only_if: Callable[[], bool]) -> None:
    """By descriptor: between listing and signalling, a number may pass to somebody else.

    `only_if` is asked once the process is held and says whether it still is the one meant.
    """
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if only_if():
            signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(process)


def mounts(pid: int | None = None) -> list[MountPoint]:
    """The mounts a process sees (None: our own), paths as it sees them."""
    try:
        text = (PROC / ("self" if pid is None else str(pid)) / "mountinfo").read_text(
            errors="surrogateescape"
        )
    except (*GONE, PermissionError):
        return []
    return [parse_mount(line) for line in text.splitlines()]


def parse_mount(line: str) -> MountPoint:
    """`36 35 0:33 / /mnt rw,noatime shared:1 - tmpfs none rw,size=4k`."""
    place, _, system = line.partition(" - ")
    _, _, device, root, path, flags, *_ = place.split(" ")
    kind, _, options = system.split(" ")[:3]
    return MountPoint(
        device=device,
        root=_unescape(root),
        path=Path(_unescape(path)),
        writable="rw" in flags.split(","),
        kind=kind,
        options=frozenset(options.split(",")),
    )


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _stat(pid: int) -> list[str] | None:
    """The fields after the program's name, which may itself hold spaces and brackets."""
    with contextlib.suppress(*GONE, PermissionError):
        return _read(pid, "stat").rpartition(")")[2].split()
    return None


def _read(pid: int, name: str) -> str:
    # Bare descriptors: a watch asks this of every process several times a second.
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts).decode(errors="replace")
