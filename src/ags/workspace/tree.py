"""A tree that an agent may be changing right now: reached by descriptor, never through a link."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ags.errors import AgsError
from ags.frozen import frozen

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@frozen
class Owner:
    """The ids on the host that a run's files are touched with."""

    uid: int
    gid: int


@frozen
class Inode:
    """What a name stands for. Two looks at a name that differ in this saw two things."""

    device: int
    number: int

    @classmethod
    def of(cls, facts: os.stat_result) -> Inode:
        return cls(facts.st_dev, facts.st_ino)


@frozen
class Found:
    """A path below the workspace, and what was there when it was looked at."""

    path: str
    inode: Inode


@contextmanager
def acting_as(owner: Owner) -> Iterator[None]:
    """Started as root, touch files with the owner's rights only; otherwise with our own.

    Never await inside: the whole process acts so.
    """
    if os.geteuid() != 0 or owner.uid == 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups([])
    os.setegid(owner.gid)
    os.seteuid(owner.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def open_top(path: Path, base: str = "/") -> int:
    """A resolved directory, of the host or below another process's root, without passing a link."""
    try:
        with closing(os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as start:
            return descend(start, path.parts[1:])
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("open the workspace", subject=path, cause=cause) from error


def descend(top: int, parts: Sequence[str]) -> int:
    """A directory below `top`, one name at a time, so that the length of the path is no matter."""
    here = os.open(".", _FOLDER, dir_fd=top)
    for name in parts:
        with closing(here):
            here = os.open(name, _FOLDER, dir_fd=here)
    return here


def look(folder: int, name: str) -> os.stat_result | None:
    """What a name stands for, be it a link; None when nothing is there."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path).parts


def shown(path: str) -> str:
    """A name that may hold anything, such as bytes a terminal obeys, as harmless text."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path)
