"""The values everything else passes around: frozen, comparable, free of effects."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Literal

from ags.frozen import frozen

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@frozen
class Identity:
    """Who a sandbox runs as. Inside, `uid` and `gid`; on the host, `host_uid` and `host_gid`."""

    uid: int
    gid: int
    name: str
    home: Path
    host_uid: int
    host_gid: int


@frozen
class Limits:
    """What a run may use. None means: no limit of ours."""

    memory: int | None = None
    """Bytes, for all processes of the run together, tmpfs included."""
    cpus: float | None = None
    pids: int | None = 4096
    timeout: float | None = None
    """Seconds until the run is stopped."""
    file_size: int | None = 16 * GIB
    open_files: int | None = 65536
    disk_free: int | None = 1 * GIB
    """The run is stopped before a writable file system has less room than this."""
    memory_free: int | None = 256 * MIB
    """Without cgroups: the run is stopped before the machine has less memory than this."""


RLIMITS = "rlimits"
"""Who holds a run's limits where there are no control groups."""


def not_held(limits: Limits, limited_by: str) -> str:
    """What of them nobody holds, in words; empty if there is none."""
    if limits.cpus is None or limited_by != RLIMITS:
        return ""
    return (
        f"processors are not limited to {limits.cpus:g} here: that takes control groups"
        " (`ags doctor` says why there are none)"
    )


# Mounts are an ordered list of steps; a later step covers an earlier one.


@frozen
class Bind:
    """A path of the host, seen inside at `target`."""

    source: Path
    target: PurePosixPath
    writable: bool = False
    inode: tuple[int, int] | None = None
    """Device and inode of what was judged; anything else found there later ends the start."""


@frozen
class Tmpfs:
    """Private memory-backed directory that ends with the run."""

    target: PurePosixPath
    size: int
    mode: int = 0o755


@frozen
class Directory:
    """An empty directory on whatever is mounted at that place by then."""

    target: PurePosixPath
    mode: int = 0o755


@frozen
class Text:
    """A made-up read-only file, such as /etc/passwd."""

    target: PurePosixPath
    content: bytes
    mode: int = 0o444


@frozen
class Link:
    """A symbolic link at `target` that says `to`."""

    target: PurePosixPath
    to: str


@frozen
class Proc:
    """A /proc that shows only the run's own processes."""

    target: PurePosixPath = PurePosixPath("/proc")


@frozen
class Dev:
    """The few devices every program expects: null, zero, full, random, urandom, tty, pts."""

    target: PurePosixPath = PurePosixPath("/dev")


@frozen
class Mask:
    """Hides what earlier steps put there: an empty, read-only file or directory in its place."""

    target: PurePosixPath
    kind: Literal["file", "dir"]


@frozen
class Cover:
    """A made-up read-only file in the place of one that earlier steps put there."""

    target: PurePosixPath
    content: bytes


@frozen
class ReadOnly:
    """From here on nobody writes to the mount at `target`; mounts below it keep their own mode."""

    target: PurePosixPath


MountStep = Bind | Tmpfs | Directory | Text | Link | Proc | Dev | Mask | Cover | ReadOnly


@frozen
class Weakening:
    """A protection the person chose to do without: recorded and shown with the run."""

    name: str
    detail: str


@frozen
class Plan:
    """All a backend needs to know. Building one has no effect, nor has rendering it."""

    run: str
    command: tuple[str, ...]
    cwd: PurePosixPath
    environment: tuple[tuple[str, str], ...]
    mounts: tuple[MountStep, ...]
    identity: Identity
    limits: Limits
    hostname: str = "ags"
    ptrace: bool = False
    weakenings: tuple[Weakening, ...] = ()

    @property
    def writable_sources(self) -> tuple[Path, ...]:
        """The host directories the run can write to."""
        return tuple(
            step.source for step in self.mounts if isinstance(step, Bind) and step.writable
        )


@frozen
class Finding:
    """One line of `ags doctor`."""

    section: str
    name: str
    status: Literal["ok", "warn", "fail", "unknown"]
    text: str
    repair: str = ""
    fix: str | None = None
    """The NAME of `ags doctor --fix NAME` that repairs it, where one does."""


@frozen
class Ending:
    """How a sandbox ended: the command's exit code, and what of ours ended it, if anything did."""

    code: int
    stopped_by: str | None = None
    """None, or a sentence such as `the memory limit of 2 GiB was reached`."""
