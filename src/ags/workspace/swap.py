"""Files of the person's, changed all or none."""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ags.errors import AgsError
from ags.model import MIB
from ags.text import encode
from ags.workspace.git import Repository
from ags.workspace.patchtext import RawChange
from ags.workspace.tree import Found, Inode, acting_as, closing, descend, open_top, shown
from ags.workspace.unseen import Folder

NAMED = 10
LINK = 0o120000


class Swap:
    """Files of the person's, changed all or none.

    What comes and what goes passes through a folder of ours in the workspace: only within one
    file system does a file move at once, and to move it back takes no room.
    """

    def __init__(self, project: Repository, workspace: Path, special: Sequence[Found] = ()) -> None:
        """`special` is no file, and goes if it is still the same."""
        self._special = {each.path: each.inode for each in special}
        self._owner, self._format = project.owner, project.object_format
        self._place = workspace.resolve() / f".ags-undo-{secrets.token_hex(8)}"
        self._steps: list[Callable[[], None]] = []
        self._open = ExitStack()
        self._top = self._stage = -1

    def bring(self, changed: Sequence[RawChange], made: Path) -> None:
        """Only if all is as the agent left it; `made` has what comes."""
        with acting_as(self._owner):
            try:
                self._top = self._open.enter_context(closing(open_top(self._place.parent)))
                found = self._check(changed)
                os.mkdir(self._place.name, 0o700, dir_fd=self._top)
                stage = descend(self._top, [self._place.name])
                self._stage = self._open.enter_context(closing(stage))
                self._drop_special({each.path for each in changed})
                self._swap(changed, found, made)
            except BaseException as error:
                self.back()
                if isinstance(error, OSError):
                    raise _refused((error.strerror or str(error)).lower()) from error
                raise

    def _drop_special(self, others: Collection[str]) -> None:
        for n, path in enumerate(self._special.keys() - others):
            if self._look(path)[2] is not None:
                self._step(path, f"special{n}", coming=False)

    def _swap(
        self, changed: Sequence[RawChange], found: Sequence[os.stat_result | None], made: Path
    ) -> None:
        for n, each in enumerate(changed):
            if each.new_mode:
                self._prepare(f"new{n}", each.new_mode, found[n], made / str(n))
        for n, each in enumerate(changed):
            if not each.new_mode:
                self._step(each.path, f"old{n}", coming=False)
                self._same(f"old{n}", found[n])
        for n, each in enumerate(changed):
            if each.new_mode and found[n]:
                self._save(each.path, f"old{n}")
                self._same(f"old{n}", found[n])
                self._move(each.path, f"new{n}", coming=True)
            elif each.new_mode:
                self._step(each.path, f"new{n}", coming=True)

    def _save(self, path: str, name: str) -> None:
        """So that the file that comes takes the place of the old one in one step."""
        try:
            with self._parent(path) as (folder, own):
                there = self._stage
                os.link(own, name, src_dir_fd=folder, dst_dir_fd=there, follow_symlinks=False)
        except OSError:  # a file system without hard links
            self._step(path, name, coming=False)
        else:
            self._steps.append(partial(self._move, path, name, coming=True))

    def _check(self, changed: Sequence[RawChange]) -> list[os.stat_result | None]:
        found = [self._look(each.path) for each in changed]
        odd = [
            shown(each.path) for each, (mode, *_) in zip(changed, found, strict=True) if mode < 0
        ]
        if odd:
            advice = "no file, or not to be read; look at it, remove it, and undo again"
            raise _refused(f"{', '.join(odd[:NAMED])}: {advice}")
        others = [
            shown(each.path)
            for each, (mode, name, _) in zip(changed, found, strict=True)
            if mode != each.old_mode or (mode and name != each.old_id)
        ]
        if others:
            more = f" and {len(others) - NAMED} more" * (len(others) > NAMED)
            raise _refused(f"not as the agent left it: {', '.join(others[:NAMED])}{more}")
        return [facts for _, _, facts in found]

    def _look(self, path: str) -> tuple[int, str, os.stat_result | None]:
        """Mode, id and facts of what is there; 0 for nothing, or only a folder."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with self._parent(path) as (folder, name):
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    return 0, "", None
                if stat.S_ISLNK(facts.st_mode):
                    target = os.fsencode(os.readlink(name, dir_fd=folder))
                    return LINK, self._id(io.BytesIO(target), len(target)), facts
                if not stat.S_ISREG(facts.st_mode):
                    ours = self._special.get(path) == Inode.of(facts)
                    return (0, "", facts) if ours else (-1, "", None)
                with open(os.open(name, flags, dir_fd=folder), "rb") as file:
                    facts = os.fstat(file.fileno())
                    mode = 0o100755 if facts.st_mode & 0o100 else 0o100644
                    return mode, self._id(file, facts.st_size), facts
        except (FileNotFoundError, NotADirectoryError):
            return 0, "", None
        except OSError:
            return -1, "", None

    def _id(self, file: BinaryIO, size: int) -> str:
        made = hashlib.new(self._format, b"blob %d\0" % size)
        while piece := file.read(MIB):
            made.update(piece)
        return made.hexdigest()

    def _same(self, name: str, seen: os.stat_result | None) -> None:
        """What was moved is what was looked at."""
        now = os.stat(name, dir_fd=self._stage, follow_symlinks=False)
        if seen is None or _marks(now) != _marks(seen):
            raise OSError("a file changed just now")

    def _prepare(self, name: str, mode: int, now: os.stat_result | None, content: Path) -> None:
        if mode == LINK:
            os.symlink(content.read_bytes(), os.fsencode(name), dir_fd=self._stage)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with (
            content.open("rb") as source,
            open(os.open(name, flags, 0o666, dir_fd=self._stage), "wb") as file,
        ):
            shutil.copyfileobj(source, file, MIB)
            file.flush()
            kept = now if now and stat.S_ISREG(now.st_mode) else os.fstat(file.fileno())
            bits = stat.S_IMODE(kept.st_mode) & 0o666
            os.fchmod(file.fileno(), bits | (bits & 0o444) >> 2 if mode & 0o100 else bits)

    def _step(self, path: str, name: str, *, coming: bool) -> None:
        self._move(path, name, coming=coming)
        self._steps.append(partial(self._move, path, name, coming=not coming))

    def _move(self, path: str, staged: str, *, coming: bool) -> None:
        """Between its place and our folder, with the folders above it made or removed."""
        with self._parent(path, make=coming) as (folder, name):
            if coming:
                os.rename(staged, name, src_dir_fd=self._stage, dst_dir_fd=folder)
                return
            os.rename(name, staged, src_dir_fd=folder, dst_dir_fd=self._stage)
        above = path.split("/")[:-1]
        with suppress(OSError):
            while above:
                with self._parent("/".join(above)) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
                above.pop()

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder a file is in, reached without passing a link."""
        *above, name = os.fsdecode(encode(path)).split("/")
        if any(part.lower() in ("", ".", "..", ".git") for part in (*above, name)):
            raise OSError("no name for a file")
        with ExitStack() as opened:
            here = self._top
            for part in above:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                here = opened.enter_context(closing(descend(here, [part])))
            yield here, name

    def empty_folders(self, folders: Sequence[Folder]) -> None:
        """Those that are missing, made again. That one cannot be is no reason to fail."""
        with acting_as(self._owner):
            for each in folders:
                with suppress(OSError), self._parent(each.path, make=True) as (folder, name):
                    os.mkdir(name, dir_fd=folder)
                    with closing(descend(folder, [name])) as made:
                        os.chmod(f"/proc/self/fd/{made}", each.mode)

    def back(self) -> None:
        """All as it was found."""
        with acting_as(self._owner):
            try:
                while self._steps:
                    self._steps[-1]()
                    self._steps.pop()
            except OSError as error:
                cause = f"{(error.strerror or str(error)).lower()}, and the way back failed, too"
                hint = f"what is missing lies in {self._place}"
                raise AgsError("undo", cause=cause, hint=hint) from error
        self.clear()

    def clear(self) -> None:
        with acting_as(self._owner), self._open:
            if self._stage >= 0:
                with closing(os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._stage)) as here:
                    for name in os.listdir(here):
                        os.unlink(name, dir_fd=self._stage)
                os.rmdir(self._place.name, dir_fd=self._top)


def _marks(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _refused(cause: str) -> AgsError:
    return AgsError("undo", cause=cause, hint="nothing was changed")
