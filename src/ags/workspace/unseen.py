"""What git has no eye for in a folder: empty folders, and what is neither file nor link."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from ags.frozen import frozen
from ags.workspace.protect import PROTECTED
from ags.workspace.tree import Found, Inode, Owner, acting_as, closing, descend, open_top, parts
from ags.workspace.tree import look as look_at

MOST_ENTRIES = 500_000
MOST_KEPT = 10_000
DEEPEST = 100
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HELD = frozenset(each.path for each in PROTECTED)
"""Stays as it is; where it was not there, an empty folder of ours stands for it meanwhile."""


@frozen
class Folder:
    """An empty one."""

    path: str
    mode: int


@frozen
class Unseen:
    """Paths are an agent's, once it was there."""

    empty: tuple[Folder, ...] = ()
    special: tuple[Found, ...] = ()
    """Pipes, sockets, devices."""
    shut: tuple[str, ...] = ()
    """Folders that their owner cannot get into."""


def look(top: Path, owner: Owner, *, opened: Collection[str] | None = None) -> Unseen:
    """With `opened`, folders that are shut are opened for their owner, but for those named so."""
    with acting_as(owner), closing(open_top(top.resolve())) as here:
        walk = _Walk(opened)
        with closing(os.open(".", _OPEN, dir_fd=here)) as folder:
            walk.through(folder, "", 0)
    return Unseen(
        tuple(walk.empty[:MOST_KEPT]), tuple(walk.special[:MOST_KEPT]), tuple(walk.shut[:MOST_KEPT])
    )


def remove(top: Path, special: Found, owner: Owner) -> None:
    """If it is still the very one."""
    *above, name = parts(special.path)
    with (
        acting_as(owner),
        suppress(OSError),
        closing(open_top(top.resolve())) as here,
        closing(descend(here, above)) as folder,
    ):
        facts = look_at(folder, name)
        if facts is not None and Inode.of(facts) == special.inode:
            os.unlink(name, dir_fd=folder)


class _Walk:
    def __init__(self, opened: Collection[str] | None) -> None:
        self._opened = opened
        self._left = MOST_ENTRIES
        self.empty: list[Folder] = []
        self.special: list[Found] = []
        self.shut: list[str] = []

    def through(self, folder: int, place: str, depth: int) -> None:
        nothing = True
        for entry in self._entries(folder):
            nothing = False
            path = f"{place}{entry.name}"
            if entry.name == ".git" or path in _HELD:
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < DEEPEST:
                    self._into(folder, entry.name, path, depth)
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                self._note(folder, entry.name, path)
        if nothing and place:
            mode = stat.S_IMODE(os.fstat(folder).st_mode)
            self.empty.append(Folder(place.removesuffix("/"), mode))

    def _note(self, folder: int, name: str, path: str) -> None:
        if (facts := look_at(folder, name)) is not None:
            self.special.append(Found(path, Inode.of(facts)))

    def _entries(self, folder: int) -> Iterator[os.DirEntry[str]]:
        with os.scandir(folder) as entries:
            for entry in entries:
                self._left -= 1
                if self._left < 0:
                    return
                yield entry

    def _into(self, folder: int, name: str, path: str, depth: int) -> None:
        with suppress(OSError):
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_IMODE(facts.st_mode) & 0o700 != 0o700:
                self.shut.append(path)
                if self._opened is not None and path not in self._opened:
                    _open_up(folder, name)
            with closing(os.open(name, _OPEN, dir_fd=folder)) as inner:
                self.through(inner, f"{path}/", depth + 1)


def _open_up(folder: int, name: str) -> None:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with closing(os.open(name, flags, dir_fd=folder)) as there:
        os.chmod(f"/proc/self/fd/{there}", stat.S_IMODE(os.fstat(there).st_mode) | 0o700)
