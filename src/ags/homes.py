"""An agent's home: kept for each client, lent to a run as a copy, and what comes back of it.

What comes back is hostile: nothing in it is followed, only plain files are taken, and only so many.
What is not taken stays in the run's own home, which is there until the run is removed.

Files keep their modification times on both ways: agents find their latest conversation by them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ags import clients, records
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import MIB
from ags.workspace.bring import made
from ags.workspace.tree import Owner, closing, open_top, shown

FILES, LENT = "files", "lent.json"
MOST_FILES = 20_000
MOST_TOLD = 20
DEEPEST = 32
LARGEST = 256 * MIB
MOST = 1024 * MIB
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def folder(
    ags_home: Path, client: str, agent: str, environ: Mapping[str, str] | None = None
) -> Path:
    """Where an agent's home is kept; without a client, the person's own."""
    return clients.homes(ags_home, client, environ or {}) / agent


@frozen
class Known:
    """A file as it was: how long, and what was in it."""

    size: int
    digest: str


class Home:
    """What of a client's agents is kept, and the copy of it that one run has."""

    def __init__(self, kept: Mapping[str, Path], lent: Path, owner: Owner) -> None:
        """`kept` has the paths below a home that live on (conversations, history, log-ins), each
        with the folder that it is kept in: in a shell, those of several agents."""
        self._kept = dict(kept)
        self._lent = lent
        self._owner = owner

    @property
    def files(self) -> Path:
        """What is mounted as the run's home."""
        return self._lent / FILES

    def lend(self, furnish: Callable[[Path], None] = lambda home: None) -> None:
        """Make the run's copy, with what `furnish` puts there.

        One that is there already goes on as it is: for the run's next turn. By then whatever is
        in it may be a trap, so nothing is written there any more.
        """
        if self.files.exists():
            return
        self._lent.mkdir(mode=0o711, parents=True, exist_ok=True)
        draft = self._lent / f"{FILES}.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        known = {path: _copied(kept, draft, path) for kept, path in self._regular()}
        furnish(draft)
        self._hand_over(draft)
        self._note(known)
        os.rename(draft, self.files)

    def put(self, path: str, data: bytes) -> None:
        """A file of ours in the run's home, whatever an earlier turn left at its place."""
        *above, name = Path(path).parts
        try:
            with closing(open_top(self.files.resolve())) as top, closing(made(top, above)) as there:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=there)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(name, flags, 0o600, dir_fd=there), "wb") as file:
                    file.write(data)
                    if os.geteuid() == 0 and self._owner.uid != 0:
                        os.fchown(file.fileno(), self._owner.uid, self._owner.gid)
        except OSError as error:
            cause = f"what is there in its home is in the way: {error.strerror}"
            raise AgsError("fit the agent out", subject=path, cause=cause) from error

    def give_back(self) -> tuple[str, ...]:
        """Take what the run changed; returns what was left with the run, in words."""
        before = self._noted()
        told: list[str] = []
        with _only_one(self._kept.values()):
            size, now = 0, dict(before)
            found = list(islice(self._regular(self.files), MOST_FILES + 1))
            for kept, path in found[:MOST_FILES]:
                length = os.lstat(self.files / path).st_size
                if length > LARGEST or size + length > MOST:
                    told.append(f"{shown(path)} is too large")
                    continue
                size += length
                try:
                    told += self._given_back(kept, path, before.get(path), now)
                except OSError as error:
                    told.append(f"{shown(path)} cannot be kept: {error.strerror}")
            self._note(now)
        if len(found) > MOST_FILES:
            told.append(f"there are more than {MOST_FILES:,} files, and not all are kept")
        return _few(told)

    def _given_back(
        self, kept: Path, path: str, before: Known | None, now: dict[str, Known]
    ) -> Iterator[str]:
        """See that the next run finds it, and that its own next turn knows; or say why not."""
        mine, theirs = _known(self.files, path), _known(kept, path)
        if mine is None:
            yield f"{shown(path)} cannot be read"
        elif mine == before:
            return
        elif theirs in (None, before, mine):
            if mine != theirs:
                _write(kept, path, self.files)
            now[path] = mine
        # Both have written on: such as histories. What is new in ours goes behind theirs.
        elif before is not None and _known(self.files, path, before.size) == before:
            _write(kept, path, self.files, behind=before.size)
            now[path] = mine
        else:
            yield f"{shown(path)} was changed by another run meanwhile"

    def _regular(self, lent: Path | None = None) -> Iterator[tuple[Path, str]]:
        """What is kept, or what of that is lent: each file with the folder that it is kept in."""
        for path, kept in self._kept.items():
            yield from ((kept, file) for file in _plain_files(lent or kept, path))

    def _hand_over(self, draft: Path) -> None:
        if os.geteuid() != 0 or self._owner.uid == 0:
            return
        for folder, names, files in os.walk(draft):
            for name in (".", *names, *files):
                place = os.path.join(folder, name)
                os.chown(place, self._owner.uid, self._owner.gid, follow_symlinks=False)

    def _note(self, known: dict[str, Known]) -> None:
        written = {path: [each.size, each.digest] for path, each in known.items()}
        records.replace_file(self._lent / LENT, json.dumps(written).encode())

    def _noted(self) -> dict[str, Known]:
        try:
            written = json.loads((self._lent / LENT).read_bytes())
            return {path: Known(int(size), str(digest)) for path, (size, digest) in written.items()}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            what = "see what the run changed in its home"
            raise AgsError(what, subject=self._lent / LENT, cause=str(error)) from error


def _few(told: list[str]) -> tuple[str, ...]:
    """Each becomes a part of the run's record."""
    more = len(told) - MOST_TOLD
    return (*told[:MOST_TOLD], *((f"and {more:,} more",) if more > 0 else ()))


def _plain_files(top: Path, path: str) -> Iterator[str]:
    """Below `top`, never through a link, whoever put it there."""
    above = list(Path(path).parents)[-2::-1]  # without ".", from the top down
    if not all(_is(top / folder, stat.S_ISDIR) for folder in above) or len(above) > DEEPEST:
        return
    place = top / path
    if _is(place, stat.S_ISREG):
        yield path
    elif _is(place, stat.S_ISDIR):
        with suppress(OSError):
            for name in sorted(os.listdir(place)):
                yield from _plain_files(top, f"{path}/{name}")


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(os.lstat(path).st_mode)
    except OSError:
        return False


def _known(top: Path, path: str, most: int | None = None) -> Known | None:
    """What is there, or its first `most` bytes; None if there is nothing to read."""
    digest, size = hashlib.sha256(), 0
    try:
        with open(os.open(top / path, _READ), "rb") as file:
            while data := file.read(MIB if most is None else min(MIB, most - size)):
                digest.update(data)
                size += len(data)
    except OSError:
        return None
    return Known(size, digest.hexdigest())


def _copied(source: Path, target: Path, path: str) -> Known:
    _write(target, path, source)
    known = _known(target, path)
    assert known is not None
    return known


def _write(target: Path, path: str, source: Path, behind: int = 0) -> None:
    """The source's file in the place of the target's, as old as that one is; or what it has after
    the first `behind` bytes at the end of the target's, as old as the newer of the two."""
    place = target / path
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.ags-new")
    draft.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    changed_ns = 0
    with open(os.open(draft, flags, 0o600), "wb") as writer:
        if behind:
            with open(os.open(place, _READ), "rb") as own:
                changed_ns = os.fstat(own.fileno()).st_mtime_ns
                _pour(own, writer)
        with open(os.open(source / path, _READ), "rb") as reader:
            changed_ns = max(changed_ns, os.fstat(reader.fileno()).st_mtime_ns)
            reader.seek(behind)
            _pour(reader, writer)
        writer.flush()
        _set_time(writer.fileno(), changed_ns)
    os.replace(draft, place)


def _set_time(descriptor: int, changed_ns: int) -> None:
    """A run sets the times of its files at will: one in the future would be the latest for ever."""
    then_ns = min(max(changed_ns, 0), time.time_ns())
    os.utime(descriptor, ns=(then_ns, then_ns))


def _pour(reader: BinaryIO, writer: BinaryIO) -> None:
    while data := reader.read(MIB):
        writer.write(data)


@contextmanager
def _only_one(kept: Iterable[Path]) -> Iterator[None]:
    with ExitStack() as held:
        for folder in sorted(set(kept)):  # all in the same order, lest two wait for each other
            records.private_folder(folder)
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
