"""Git LFS: a commit holds only pointers, so the files they stand for are brought back, too."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ags.errors import AgsError
from ags.model import GIB, MIB
from ags.workspace import git
from ags.workspace.git import Repository
from ags.workspace.tree import acting_as, closing, descend

MOST_BYTES = 16 * GIB
MOST_LISTING = 512 * MIB
LONGEST_POINTER = 1024
POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,15})\n"
)


@dataclass(frozen=True, slots=True)
class Pointer:
    """The file that a blob stands for."""

    oid: str
    size: int

    @property
    def folders(self) -> tuple[str, str]:
        return self.oid[:2], self.oid[2:4]


async def bring(
    project: Repository, git_dir: Path, base: str, commit: str, *, most: int = MOST_BYTES
) -> tuple[str, ...]:
    """Copy what new pointers stand for from an agent's git directory; tells what is missing."""
    if not _uses(project):
        return ()
    wanted = await _pointers(project, base, commit)
    missing = sum(not there for there in _brought(project, git_dir, wanted, most))
    if not missing:
        return ()
    return (f"the content of {missing} files in Git LFS: it is not in the workspace's own store",)


def _uses(project: Repository) -> bool:
    return (project.common / "lfs").is_dir()


def _brought(
    project: Repository, git_dir: Path, wanted: Sequence[Pointer], room: int
) -> Iterator[bool]:
    """For each pointer whether its content is there, or is now."""
    for pointer in wanted:
        place = project.common.joinpath("lfs/objects", *pointer.folders, pointer.oid)
        if os.path.lexists(place):
            yield True
            continue
        room -= pointer.size
        yield room >= 0 and _copied(git_dir, pointer, place, project)


async def _pointers(project: Repository, base: str, commit: str) -> tuple[Pointer, ...]:
    listed = await git.run(
        project, "rev-list", "--objects", "--no-object-names", commit, f"^{base}"
    )
    kinds = await git.run(
        project, "cat-file", "--batch-check", stdin=listed.stdout, most=MOST_LISTING
    )
    small = [
        name
        for name, kind, size in (line.split() for line in kinds.text.splitlines())
        if kind == "blob" and int(size) <= LONGEST_POINTER
    ]
    contents = await git.run(
        project,
        *("cat-file", "--batch"),
        stdin="".join(f"{name}\n" for name in small).encode(),
        most=MOST_LISTING,
    )
    return tuple(dict.fromkeys(_parsed(contents.stdout)))


def _parsed(batch: bytes) -> Iterator[Pointer]:
    """Each object as `cat-file --batch` has it: a line with its size, then so many bytes."""
    at = 0
    while at < len(batch):
        start = batch.index(b"\n", at) + 1
        size = int(batch[at:start].split()[2])
        if match := POINTER.fullmatch(batch[start : start + size]):
            yield Pointer(match[1].decode(), int(match[2]))
        at = start + size + 1


def _copied(git_dir: Path, pointer: Pointer, place: Path, project: Repository) -> bool:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with (
            closing(os.open(git_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as top,
            closing(descend(top, ("lfs", "objects", *pointer.folders))) as folder,
            open(os.open(pointer.oid, flags, dir_fd=folder), "rb") as source,
        ):
            facts = os.fstat(source.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size != pointer.size:
                return False
            with acting_as(project.owner):
                place.parent.mkdir(parents=True, exist_ok=True)
                _copy(source, pointer, place)
    except OSError:
        return False
    return True


def _copy(source: BinaryIO, pointer: Pointer, place: Path) -> None:
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix="ags-", delete=False) as target:
        try:
            while chunk := source.read(MIB):
                digest.update(chunk)
                target.write(chunk)
            if digest.hexdigest() != pointer.oid:
                raise AgsError(
                    "take in a file of Git LFS",
                    subject=pointer.oid,
                    cause="its content is not what its name says",
                )
            os.fchmod(target.fileno(), 0o644)
            os.rename(target.name, place)
        except BaseException:
            os.unlink(target.name)
            raise
