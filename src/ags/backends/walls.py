"""Looks at a finished sandbox from outside, before its command runs: is every wall really there?

What bwrap was asked for can differ from what stands: a path may have been swapped for a link
between our look at it and the mount, or a program by that name may not do what it says.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Bind, Cover, Mask, MountStep, ReadOnly

NAMESPACES = ("user", "ipc", "pid", "net", "uts", "cgroup", "mnt")
STATUS = {
    "NoNewPrivs": "1",
    "Seccomp": "2",
    "CapInh": "0000000000000000",
    "CapPrm": "0000000000000000",
    "CapEff": "0000000000000000",
    "CapBnd": "0000000000000000",
    "CapAmb": "0000000000000000",
}


@frozen
class Expected:
    """One mount as it must be seen inside."""

    target: PurePosixPath
    inode: tuple[int, int] | None
    """Device and inode of what must be there; None where only the mode matters."""
    writable: bool


def expect(mounts: Sequence[MountStep]) -> tuple[Expected, ...]:
    """Taken before the start, so that a later swap of a source shows."""
    last = {step.target: index for index, step in enumerate(mounts)}
    expected = []
    for index, step in enumerate(mounts):
        if last[step.target] != index:
            continue
        if isinstance(step, Bind):
            facts = _look(step.source)
            inode = step.inode or (facts.st_dev, facts.st_ino)
            expected.append(Expected(step.target, inode, step.writable))
        elif isinstance(step, ReadOnly | Mask | Cover):
            expected.append(Expected(step.target, None, writable=False))
    return tuple(expected)


def _look(source: Path) -> os.stat_result:
    try:
        facts = source.lstat()
    except OSError as error:
        raise AgsError(
            "mount", subject=source, cause=error.strerror or str(error), exit_code=125
        ) from error
    if stat.S_ISLNK(facts.st_mode):
        raise AgsError("mount", subject=source, cause="it has become a link", exit_code=125)
    return facts


def check(pid: int, expected: tuple[Expected, ...]) -> None:
    """Raises at the first wall that is not as it must be. `pid` is the waiting command."""
    _check_namespaces(pid)
    _check_status(pid)
    check_mounts(pid, expected)


def check_mounts(pid: int, expected: tuple[Expected, ...]) -> None:
    """Each is the very thing that was judged, read-only if it must be, and not behind a link."""
    inside = f"/proc/{pid}/root"
    links: dict[str, bool] = {}
    for mount in expected:
        _check_mount(inside, mount, links)


def _check_namespaces(pid: int) -> None:
    for name in NAMESPACES:
        if os.readlink(f"/proc/{pid}/ns/{name}") == os.readlink(f"/proc/self/ns/{name}"):
            raise _breach(f"it has no {name} namespace of its own")


def _check_status(pid: int) -> None:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    for name, must in STATUS.items():
        if found.get(name) != must:
            raise _breach(f"{name} is {found.get(name)}, not {must}")


def _check_mount(inside: str, mount: Expected, links: dict[str, bool]) -> None:
    target = str(mount.target)
    try:
        if _behind_a_link(inside, os.path.dirname(target), links):
            raise _breach(f"{target} is reached through a link")
        facts = os.lstat(inside + target)
        read_only = bool(os.statvfs(inside + target).f_flag & os.ST_RDONLY)
    except OSError as error:
        raise _breach(f"{target}: {error.strerror}") from error
    if mount.inode and (facts.st_dev, facts.st_ino) != mount.inode:
        raise _breach(f"{target} is not what was to be mounted there")
    if not mount.writable and not read_only:
        raise _breach(f"{target} can be written to")


def _behind_a_link(inside: str, folder: str, links: dict[str, bool]) -> bool:
    """Whether any folder on the way is a link. Absolute ones would lead us astray on the host."""
    if folder == "/":
        return False
    if folder not in links:
        above = _behind_a_link(inside, os.path.dirname(folder), links)
        links[folder] = above or os.path.islink(inside + folder)
    return links[folder]


def _breach(cause: str) -> AgsError:
    return AgsError(
        "start the sandbox",
        cause=f"a wall is not as it must be: {cause}",
        hint="nothing was run; `ags doctor` checks this machine",
        exit_code=125,
    )
