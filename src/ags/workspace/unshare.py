"""Files of a workspace that have a further name outside: a run that writes one changes both."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path

from ags.errors import AgsError
from ags.frozen import frozen
from ags.workspace.tree import (
    Found,
    Inode,
    Owner,
    acting_as,
    closing,
    descend,
    look,
    open_top,
    parts,
    shown,
)

FICLONE = 0x40049409
CHUNK = 1 << 20
ATTEMPTS = 3
_SOURCE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TARGET = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_SWAPPED = (errno.ENOENT, errno.ELOOP, errno.ENXIO)
"""Gone, a link, a socket: not the file that was there a moment ago."""
_HINT = 'or set [workspace] hard_links = "allow" to let the run change both'


@frozen
class Unshared:
    """What was done."""

    files: int
    bytes: int
    left: int
    """Still shared, but the run can neither write to them nor make them writable."""
    missed: int
    """Not what was found any more, so left alone: worth a second survey."""


def refuse(shared: Iterable[Found]) -> None:
    """For who would rather be asked."""
    paths = [shown(found.path) for found in shared]
    if not paths:
        return
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    raise AgsError(
        "start on this workspace",
        cause=f"files in it have a further name outside: {', '.join(paths[:3])}{more}",
        hint=f'set [workspace] hard_links = "unshare" for copies of its own, {_HINT}',
    )


def unshare(root: Path, shared: Iterable[Found], owner: Owner) -> Unshared:
    """Put a private copy in place of each file that is still what was found.

    Never with more rights than the owner's: root would copy what the run may not read.
    """
    with closing(open_top(root)) as top, acting_as(owner):
        work = _Work(top, owner)
        ordered = sorted(shared, key=lambda found: found.path.rpartition("/"))
        for folder, group in groupby(ordered, key=lambda found: found.path.rpartition("/")[0]):
            work.settle_folder(folder, group)
    return Unshared(work.files, work.bytes, work.left, work.missed)


class _Work:
    """Names that shared one inode within the workspace come to share one copy."""

    def __init__(self, top: int, owner: Owner) -> None:
        self.top = top
        self.owner = owner
        self.copies: dict[Inode, Found] = {}
        self.files = self.bytes = self.left = self.missed = 0

    def settle_folder(self, path: str, group: Iterable[Found]) -> None:
        try:
            folder = descend(self.top, parts(path))
        except (FileNotFoundError, NotADirectoryError):
            self.missed += len(list(group))
            return
        with closing(folder):
            for found in group:
                self.settle(folder, found)

    def settle(self, folder: int, found: Found) -> None:
        try:
            if not _is(folder, parts(found.path)[-1], found.inode):
                self.missed += 1
            elif not self.link(folder, found):
                self.copy(folder, found)
        except OSError as error:
            if isinstance(error, PermissionError) and self.harmless(folder, found):
                self.left += 1
                return
            raise _failure(found, (error.strerror or str(error)).lower()) from error

    def harmless(self, folder: int, found: Found) -> bool:
        name = parts(found.path)[-1]
        facts = look(folder, name)
        return facts is None or (
            facts.st_uid != self.owner.uid
            and not os.access(
                name, os.W_OK, dir_fd=folder, effective_ids=True, follow_symlinks=False
            )
        )

    def link(self, folder: int, found: Found) -> bool:
        """A further name for the copy that was made of the same file."""
        copy = self.copies.get(found.inode)
        name = parts(found.path)[-1]
        if copy is None:
            return False
        *leading, source = parts(copy.path)
        with (
            suppress(OSError),
            closing(descend(self.top, leading)) as origin,
            _spare(folder) as spare,
        ):
            os.link(source, spare, src_dir_fd=origin, dst_dir_fd=folder, follow_symlinks=False)
            if _is(folder, spare, copy.inode) and _is(folder, name, found.inode):
                os.rename(spare, name, src_dir_fd=folder, dst_dir_fd=folder)
                self.files += 1
                return True
        return False

    def copy(self, folder: int, found: Found) -> None:
        try:
            source = os.open(parts(found.path)[-1], _SOURCE, dir_fd=folder)
        except OSError as error:
            if error.errno not in _SWAPPED:
                raise
            self.missed += 1
            return
        with closing(source):
            for _ in range(ATTEMPTS):
                if self.replace(folder, source, found):
                    return
        raise _failure(found, "it is being written to right now")

    def replace(self, folder: int, source: int, found: Found) -> bool:
        """False when the file changed while it was read."""
        name = parts(found.path)[-1]
        before = os.fstat(source)
        if Inode.of(before) != found.inode:
            self.missed += 1
            return True
        with _spare(folder) as spare:
            made = _copy(folder, spare, source, before)
            if _touched(before, os.fstat(source)):
                return False
            if not _is(folder, name, found.inode):
                self.missed += 1
                return True
            os.rename(spare, name, src_dir_fd=folder, dst_dir_fd=folder)
        self.copies[found.inode] = Found(found.path, made)
        self.files += 1
        self.bytes += before.st_size
        return True


def _failure(found: Found, cause: str) -> AgsError:
    return AgsError(
        "give the workspace its own copy of a hard-linked file",
        subject=shown(found.path),
        cause=cause,
        hint=f"see to it that you can read it and write to its folder, {_HINT}",
    )


@contextmanager
def _spare(folder: int) -> Iterator[str]:
    """A name for a file in the making, gone afterwards unless it was renamed."""
    name = f".ags-copy-{secrets.token_hex(8)}"
    try:
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _is(folder: int, name: str, inode: Inode) -> bool:
    facts = look(folder, name)
    return facts is not None and Inode.of(facts) == inode


def _touched(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size)


def _copy(folder: int, name: str, source: int, facts: os.stat_result) -> Inode:
    with closing(os.open(name, _TARGET, 0o600, dir_fd=folder)) as target:
        _copy_content(source, target, facts.st_size)
        _copy_facts(source, target, facts)
        return Inode.of(os.fstat(target))


def _copy_content(source: int, target: int, size: int) -> None:
    """The first `size` bytes. Holes stay holes, and a file system that can shares the blocks."""
    with suppress(OSError):
        fcntl.ioctl(target, FICLONE, source)
        return
    position = 0
    while position < size:
        try:
            start = os.lseek(source, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break  # only a hole is left
            raise
        position = min(os.lseek(source, start, os.SEEK_HOLE), size)
        _copy_range(source, target, start, position)
    os.ftruncate(target, size)


def _copy_range(source: int, target: int, start: int, stop: int) -> None:
    while start < stop:
        try:
            done = os.copy_file_range(source, target, stop - start, start, start)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV):
                raise
            done = os.pwrite(target, os.pread(source, min(CHUNK, stop - start), start), start)
        if done == 0:
            return  # it was cut short meanwhile, which the caller notices
        start += done


def _copy_facts(source: int, target: int, facts: os.stat_result) -> None:
    with suppress(PermissionError):  # only to groups that the owner is in
        os.fchown(target, -1, facts.st_gid)
    made = os.fstat(target)
    same = (made.st_uid, made.st_gid) == (facts.st_uid, facts.st_gid)
    # Somebody else's set-user-id bit would now speak for the owner.
    os.fchmod(target, stat.S_IMODE(facts.st_mode) & (0o7777 if same else 0o777))
    for name in os.listxattr(source):
        with suppress(OSError):
            os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
