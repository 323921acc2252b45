"""Where a cgroup can be made: the trees of cgroups, our own place in them, and their files."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from ags.errors import AgsError
from ags.frozen import frozen
from ags.kernel import processes
from ags.kernel.processes import MountPoint

RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
OURS = re.compile(rf"ags-(?:(?P<run>{RUN.pattern})-)?(?P<pid>[0-9]+)-(?P<start>[0-9]+)")
"""A run's cgroup, or without `run` the leaf a supervisor moved itself to; and who owns it."""

HINTS = {
    1: "run it as root, or on a machine with cgroup v2, where an ordinary user can be limited",
    2: "start it as `systemd-run --user --scope -p Delegate=yes ags ...`",
}


class CgroupUnavailable(AgsError):
    """No cgroup can hold these limits here. `cause` is one plain sentence."""

    def __init__(self, cause: str, hint: str = "") -> None:
        super().__init__("limit the run with a cgroup", cause=cause, hint=hint)


@frozen
class Hierarchy:
    """A mounted tree of cgroups and our own place in it."""

    version: int
    controllers: frozenset[str]
    """Of version 1, what it was mounted for; a version 2 cgroup says it in cgroup.controllers."""
    top: Path
    own: Path

    @property
    def base(self) -> Path:
        """Our own cgroup as it was given to us: the one above, once we have stepped aside."""
        match = OURS.fullmatch(self.own.name)
        return self.own.parent if match and match["run"] is None else self.own


def here() -> tuple[Hierarchy, ...]:
    """The hierarchies we are in, as this process sees them."""
    try:
        membership = Path("/proc/self/cgroup").read_text(errors="surrogateescape")
    except FileNotFoundError:
        return ()
    return hierarchies(membership, processes.mounts())


def hierarchies(membership: str, mounts: Sequence[MountPoint]) -> tuple[Hierarchy, ...]:
    """Join the lines of /proc/self/cgroup with the mounts that show them."""
    found = []
    for line in membership.splitlines():
        _, names, path = line.split(":", 2)
        controllers = frozenset(names.split(",") if names else ())
        for mount in sorted(mounts, key=lambda mount: not mount.writable):
            if not _is_mount_of(mount, controllers):
                continue
            if own := _seen_at(path, mount):
                version = 1 if controllers else 2
                found.append(Hierarchy(version, controllers, mount.path, own))
                break
    return tuple(found)


def base_v2(places: Sequence[Hierarchy], needs: frozenset[str]) -> Path:
    """The directory whose children get these controllers; made ready where that takes something."""
    place = next((place for place in places if place.version == 2), None)
    if place is None:
        raise CgroupUnavailable("cgroup v2 is not mounted")
    is_root_of_all = not (place.top / "cgroup.type").exists()
    if is_root_of_all and os.access(place.top, os.W_OK):
        return _base_at_the_top(place.top, needs)
    return delegated_base(place.base, needs)


def _base_at_the_top(top: Path, needs: frozenset[str]) -> Path:
    _require_controllers(top, needs)
    _enable(top, needs)
    base = top / "ags"
    make(base, exist_ok=True)
    _enable(base, needs)
    return base


def delegated_base(base: Path, needs: frozenset[str]) -> Path:
    """A cgroup given to us. Only one without processes of its own can pass controllers on."""
    for file in (base, base / "cgroup.procs", base / "cgroup.subtree_control"):
        if not os.access(file, os.W_OK):
            raise CgroupUnavailable(f"the cgroup {base} is not delegated to us", HINTS[2])
    _require_controllers(base, needs)
    if needs <= _words(base / "cgroup.subtree_control"):
        return base
    try:
        step_aside(base)
        _enable(base, needs)
    except CgroupUnavailable:
        _step_back(base)
        raise
    return base


def step_aside(base: Path) -> None:
    """Move ourselves and what we have started into a leaf of `base`, if nobody else is there."""
    own = os.getpid()
    for _ in range(100):  # what we have started may be starting more
        members = members_of(base)
        if not members:
            return
        if members - {own, *processes.descendants(own)}:
            raise CgroupUnavailable(f"other processes share the cgroup {base} with us", HINTS[2])
        make(base / name_for(), exist_ok=True)
        _move(members, base / name_for())
    raise CgroupUnavailable(f"the cgroup {base} does not become empty")


def _step_back(base: Path) -> None:
    aside = base / name_for()
    with contextlib.suppress(OSError, CgroupUnavailable):
        _move(members_of(aside), base)
        aside.rmdir()


def _move(pids: Iterable[int], directory: Path) -> None:
    for pid in pids:
        try:
            write(directory / "cgroup.procs", str(pid))
        except ProcessLookupError:
            continue
        except OSError as error:
            cause = f"process {pid} cannot be moved to {directory} ({reason(error)})"
            raise CgroupUnavailable(cause) from error


def bases_v1(places: Sequence[Hierarchy], needs: frozenset[str]) -> dict[str, Path]:
    """Our own cgroup in the hierarchy of each controller."""
    bases = {name: place.own for place in places for name in place.controllers}
    if missing := needs - bases.keys():
        raise CgroupUnavailable(f"cgroup v1 has no {_list(missing)} controller here")
    return {name: bases[name] for name in needs}


def _require_controllers(directory: Path, needs: frozenset[str]) -> None:
    if missing := needs - _words(directory / "cgroup.controllers"):
        raise CgroupUnavailable(f"the cgroup {directory} has no {_list(missing)} controller")


def _enable(directory: Path, needs: frozenset[str]) -> None:
    file = directory / "cgroup.subtree_control"
    if missing := sorted(needs - _words(file)):
        try:
            write(file, " ".join(f"+{name}" for name in missing))
        except OSError as error:
            cause = f"the controllers {_list(missing)} cannot be used below {directory}"
            raise CgroupUnavailable(f"{cause} ({reason(error)})") from error


def make(directory: Path, version: int = 2, *, exist_ok: bool = False) -> None:
    try:
        directory.mkdir(0o755, exist_ok=exist_ok)
    except OSError as error:
        cause = f"no cgroup can be made in {directory.parent} ({reason(error)})"
        raise CgroupUnavailable(cause, HINTS[version]) from error


def _is_mount_of(mount: MountPoint, controllers: frozenset[str]) -> bool:
    return mount.kind == ("cgroup" if controllers else "cgroup2") and controllers <= mount.options


def _seen_at(path: str, mount: MountPoint) -> Path | None:
    """Where a cgroup path shows up below a mount, if that mount reaches it at all."""
    whole = PurePosixPath(path)
    if ".." in whole.parts or not whole.is_relative_to(mount.root):
        return None
    return mount.path / whole.relative_to(mount.root)


def name_for(run: str | None = None) -> str:
    """Says who owns the cgroup, so that whoever finds it can tell whether its owner still lives."""
    if run is not None and not RUN.fullmatch(run):
        raise AgsError("name the run's cgroup", subject=run, cause="an odd character, or too long")
    own = os.getpid()
    identity = f"{own}-{processes.start_time(own)}"
    return f"ags-{run}-{identity}" if run else f"ags-{identity}"


def members_of(directory: Path) -> set[int]:
    """The processes inside; one of another pid namespace is called 0."""
    try:
        return {int(line) for line in (directory / "cgroup.procs").read_text().split()}
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):  # the cgroup is gone, or just going
            return set()
        raise


def _words(file: Path) -> set[str]:
    try:
        return set(file.read_text().split())
    except OSError:
        return set()


def write(file: Path, text: str) -> None:
    """In one call and without creating: a cgroup has the files its kernel gives it."""
    descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    return error.strerror or str(error)


def _list(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
