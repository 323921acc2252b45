"""One bounded look at everything in a workspace, for what a run must not reach or change."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ags.frozen import frozen
from ags.workspace.tree import Found, Inode, closing, look, open_top

MOST_ENTRIES = 400_000
MOST_DEPTH = 128
MOST_FOUND = 256
"""Repositories, and sockets: each will be a mount, and many mounts make a slow start."""
LONGEST_PATH = 4096 - 64
"""What can be mounted at its own path below the root that bwrap builds."""
BARE = {"HEAD", "objects", "refs"}


@frozen
class Survey:
    """What is in a workspace besides ordinary files."""

    entries: int = 0
    repositories: tuple[Found, ...] = ()
    """Each `.git` below the top, directory or file, and each bare repository."""
    anchors: tuple[Found, ...] = ()
    """The directories that lead to the repositories."""
    sockets: tuple[Found, ...] = ()
    shared: tuple[Found, ...] = ()
    """Files that have a further name outside of what the run can write to."""
    specials: int = 0
    """FIFOs and devices."""
    mounts: tuple[str, ...] = ()
    """Other file systems, not looked into."""
    unsettled: tuple[str, ...] = ()
    """Not looked into (unreadable, too deep), or a repository that no mount can cover."""
    truncated: str | None = None
    """Why the rest was not looked at: a sentence's end, such as `it has more than 9 entries`."""


def survey(
    root: Path,
    held: Iterable[str] = (),
    *,
    most_entries: int = MOST_ENTRIES,
    most_depth: int = MOST_DEPTH,
) -> Survey:
    """Walk the workspace once. `held` are the paths that will be read-only inside.

    A name below those does not count as the run's own: a file that also has a name elsewhere in
    the workspace could be changed through that one.
    """
    walk = _Walk(root, {".git", *held}, most_entries, most_depth)
    walk.run()
    return walk.result()


def mount_points(root: Path) -> tuple[str, ...]:
    """Where, below `root`, something else is mounted."""
    table = Path("/proc/self/mountinfo").read_bytes().splitlines()
    places = (os.fsdecode(_unescape(line.split(b" ")[4])) for line in table)
    prefix = f"{root}/"
    return tuple(
        sorted({place.removeprefix(prefix) for place in places if place.startswith(prefix)})
    )


def _unescape(field: bytes) -> bytes:
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), field)


@dataclass(slots=True)
class _Folder:
    fd: int
    path: str
    inode: Inode
    held: bool
    pending: list[str] = field(default_factory=list)

    def at(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


class _Walk:
    """Depth first, with one descriptor per level."""

    def __init__(self, root: Path, held: set[str], most_entries: int, most_depth: int) -> None:
        self.root = root
        self.most_entries = most_entries
        self.most_depth = most_depth
        self.room = LONGEST_PATH - len(os.fsencode(root))
        self.held = _by_folder(held)
        self.mounts = set(mount_points(root))
        self.skipped = _by_folder(self.mounts)
        self.stack: list[_Folder] = []
        self.entries = 0
        self.specials = 0
        self.repositories: list[Found] = []
        self.anchors: dict[str, Found] = {}
        self.sockets: list[Found] = []
        self.links: dict[Inode, tuple[int, list[str]]] = {}
        self.unsettled: list[str] = []
        self.truncated: str | None = None

    def result(self) -> Survey:
        shared = [
            Found(path, inode)
            for inode, (count, paths) in self.links.items()
            if len(paths) < count
            for path in paths
        ]
        return Survey(
            self.entries,
            tuple(self.repositories),
            tuple(self.anchors.values()),
            tuple(self.sockets),
            tuple(shared),
            self.specials,
            tuple(sorted(self.mounts)),
            tuple(self.unsettled),
            self.truncated,
        )

    def run(self) -> None:
        with closing(open_top(self.root)) as top:
            try:
                self.enter(top, ".", "", held=False)
                while self.stack and self.truncated is None:
                    folder = self.stack[-1]
                    if folder.pending:
                        self.step(folder, folder.pending.pop())
                    else:
                        os.close(self.stack.pop().fd)
            finally:
                for folder in self.stack:
                    os.close(folder.fd)

    def step(self, folder: _Folder, name: str) -> None:
        """Into a directory, unless it is not ours to look into."""
        path = folder.at(name)
        held = folder.held or name in self.held.get(folder.path, ())
        if not held and name == ".git" and (facts := look(folder.fd, name)) is not None:
            held = True
            self.found_repository(path, facts)
        if len(self.stack) > self.most_depth or len(os.fsencode(path)) > self.room:
            self.unsettled.append(path)
        else:
            self.enter(folder.fd, name, path, held=held)

    def enter(self, parent: int, name: str, path: str, *, held: bool) -> None:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        except PermissionError:
            self.unsettled.append(path or ".")
            return
        except (FileNotFoundError, NotADirectoryError):
            return  # gone or replaced since it was listed
        facts = os.fstat(fd)
        # Mounted since the table was read, or a subvolume, which the table does not have.
        if self.stack and facts.st_dev != self.stack[0].inode.device:
            os.close(fd)
            self.mounts.add(path)
            return
        self.stack.append(_Folder(fd, path, Inode.of(facts), held))
        self.read(self.stack[-1])

    def read(self, folder: _Folder) -> None:
        with os.scandir(folder.fd) as listing:
            entries = list(islice(listing, self.most_entries - self.entries + 1))
        self.entries += len(entries)
        if self.entries > self.most_entries:
            self.truncated = f"it has more than {self.most_entries} entries"
            return
        if not folder.held and {entry.name for entry in entries} >= BARE:
            self.found_bare(folder)
        skipped = self.skipped.get(folder.path, ())
        for entry in entries:
            if entry.name in skipped:
                continue
            if entry.is_dir(follow_symlinks=False):
                # Where git keeps its objects there are only objects, and many.
                if not (folder.held and entry.name == "objects"):
                    folder.pending.append(entry.name)
            elif entry.is_symlink():
                if entry.name == ".git" and folder.path and not folder.held:
                    self.unsettled.append(folder.at(entry.name))
            else:
                self.judge(folder, entry)

    def judge(self, folder: _Folder, entry: os.DirEntry[str]) -> None:
        """A file of any kind."""
        if folder.held and entry.is_file(follow_symlinks=False):
            return
        try:
            facts = entry.stat(follow_symlinks=False)
        except OSError:
            return
        kind = stat.S_IFMT(facts.st_mode)
        if kind == stat.S_IFSOCK:
            self.sockets.append(Found(folder.at(entry.name), Inode.of(facts)))
            self.check_count(self.sockets, "sockets")
        elif kind != stat.S_IFREG:
            self.specials += kind != stat.S_IFDIR and kind != stat.S_IFLNK
        elif entry.name in self.held.get(folder.path, ()):
            return
        elif entry.name == ".git":
            self.found_repository(folder.at(entry.name), facts)
        elif facts.st_nlink > 1:
            _, paths = self.links.setdefault(Inode.of(facts), (facts.st_nlink, []))
            paths.append(folder.at(entry.name))

    def found_bare(self, folder: _Folder) -> None:
        if not folder.path:
            self.unsettled.append(".")
            return
        folder.held = True
        self.add_repository(Found(folder.path, folder.inode), self.stack[1:-1])

    def found_repository(self, path: str, facts: os.stat_result) -> None:
        self.add_repository(Found(path, Inode.of(facts)), self.stack[1:])

    def add_repository(self, found: Found, leading: list[_Folder]) -> None:
        self.repositories.append(found)
        self.anchors |= {folder.path: Found(folder.path, folder.inode) for folder in leading}
        self.check_count(self.repositories, "repositories")

    def check_count(self, found: list[Found], what: str) -> None:
        if len(found) > MOST_FOUND:
            self.truncated = f"it has more than {MOST_FOUND} {what}"


def _by_folder(paths: Iterable[str]) -> dict[str, set[str]]:
    """So that the walk compares names, and only in the few folders where there is one to find."""
    folders: dict[str, set[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, set()).add(name)
    return folders
