"""`agents.db`, an index over `runs/`. It may be old, broken or gone: the runs themselves tell.

Every question first compares the facts of each run.json with those it was indexed by, and reads
again what differs. So a writer that is killed between record and index leaves nothing wrong, and
a supervisor need not write here at all.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from ags import runs
from ags.errors import AgsError
from ags.frozen import frozen
from ags.runs import Damaged, Run, State
from ags.runs.lock import flock
from ags.store import migrations, queries
from ags.store.queries import Filter, Order, Stamp, Summary, Unusable

T = TypeVar("T")

PATIENCE = 10.0
RACY = 0.1
"""A file changed so shortly ago could change once more and keep its facts: clocks tick coarsely."""

ALL = Filter()
# Equal to no file's, nor to each other: what has one of these is read again.
UNSURE: Stamp = (0, 0, 0)
NO_RECORD: Stamp = (-1, -1, -1)
# Our SQL is right, so where it is in error, the tables are not ours.
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
_UNWRITABLE = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
}  # fmt: skip


@frozen
class Listing:
    """One page of runs; `total` is how many there are on all pages."""

    runs: tuple[Summary, ...]
    total: int
    damaged: tuple[Damaged, ...]


class Store:
    """The index, opened. `notes` is what the person should hear about it."""

    def __init__(self, home: Path, db: sqlite3.Connection | None = None) -> None:
        self.notes: list[str] = []
        self._home = home
        self._path = home / "agents.db"
        self._db = db or self._opened()

    @classmethod
    def in_memory(cls, home: Path) -> Self:
        """Nobody else's, for a process that lives long and must not wait for others.

        It begins with what the index on the disk knows, where that can be had at once.
        """
        db = _made()
        if not queries.copied(home / "agents.db", db, version=len(migrations.STEPS)):
            db.close()
            db = _made()
        return cls(home, db)

    def listing(
        self,
        where: Filter = ALL,
        order: Order = "newest",
        limit: int | None = None,
        offset: int = 0,
    ) -> Listing:
        def ask() -> Listing:
            damaged = self._refresh()
            found = queries.select(self._db, where, order, limit, offset)
            whole = limit is None and not offset
            total = len(found) if whole else sum(queries.count(self._db, where).values())
            return Listing(tuple(found), total, tuple(damaged))

        return self._reliably(ask)

    def counts(self, where: Filter = ALL) -> dict[State, int]:
        """How many runs there are in each state that has any."""

        def ask() -> dict[State, int]:
            self._refresh()
            return queries.count(self._db, where)

        return self._reliably(ask)

    def unfinished(self) -> tuple[str, ...]:
        """The ids a sweep has to look at."""

        def ask() -> tuple[str, ...]:
            self._refresh()
            return tuple(queries.unfinished(self._db))

        return self._reliably(ask)

    def rebuild(self) -> None:
        """Forget all, and read every run again."""

        def forget() -> None:
            with queries.writing(self._db):
                queries.delete_all(self._db)
            self._refresh()

        self._reliably(forget)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _refresh(self) -> list[Damaged]:
        """Make the index say what `runs/` says; returns what could not be read."""
        there, known = _stamps(self._home), queries.stamps(self._db)
        differ = [each for each in there if known.get(each) != there[each]]
        differ += known.keys() - there.keys()
        if not differ:
            return []
        # Read while nobody else writes: what was read before could be older than what is indexed.
        with queries.writing(self._db):
            return self._read_again(differ)

    def _read_again(self, ids: Iterable[str]) -> list[Damaged]:
        sound: list[tuple[Run, Stamp]] = []
        damaged: list[Damaged] = []
        for run_id in ids:
            run_dir = runs.directory(self._home, run_id)
            try:
                run, facts = runs.load_with_facts(run_dir)
                sound.append((run, _settled(facts)))
            except AgsError as error:
                if run_dir.is_dir():  # else it was removed
                    damaged.append(Damaged(run_id, error.cause))
        queries.put(self._db, sound)
        queries.delete(self._db, set(ids) - {run.id for run, _ in sound})
        return damaged

    def _reliably(self, ask: Callable[[], T]) -> T:
        """Again with a sound index if this one is broken, or in memory if it cannot be written."""
        for _ in range(3):
            try:
                return ask()
            except (sqlite3.Error, Unusable) as error:
                self._db.close()
                self._db = self._instead(error)
        raise AgsError("read the index of runs", subject=self._path, cause="it breaks repeatedly")

    def _opened(self) -> sqlite3.Connection:
        try:
            if self._path.exists():
                return _open(self._path)
            with self._alone():  # a file's first use is the one time that SQLite does not wait
                return _open(self._path)
        except (sqlite3.Error, OSError, Unusable) as error:
            return self._instead(error)

    def _instead(self, error: Exception) -> sqlite3.Connection:
        if _is_broken(error):
            try:
                return self._renewed()
            except (sqlite3.Error, OSError, Unusable) as again:
                error = again
        if _code(error) in _UNWRITABLE or isinstance(error, OSError):
            return self._in_memory(error)
        hint = "another ags may be stuck; try again"
        raise AgsError(
            "use the index of runs", subject=self._path, cause=str(error), hint=hint
        ) from error

    def _renewed(self) -> sqlite3.Connection:
        """Move the unusable file aside and begin a new one, unless somebody has already."""
        with self._alone():
            try:
                return _open(self._path)
            except (sqlite3.Error, Unusable) as error:
                if not _is_broken(error):
                    raise
                aside = _move_aside(self._path)
                self.notes.append(
                    f"the index of runs could not be used ({error}): it was moved to {aside}"
                    " and made anew from the runs"
                )
            return _open(self._path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(f"{self._path}.lock", flags, 0o600)
        try:
            if not flock(descriptor, PATIENCE):
                cause = f"another ags has been making it for {PATIENCE:g} s"
                raise AgsError("make the index of runs", subject=self._path, cause=cause)
            yield
        finally:
            os.close(descriptor)

    def _in_memory(self, error: Exception) -> sqlite3.Connection:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self.notes.append(f"the index of runs cannot be written ({reason}): done without it")
        return _made()


def rebuild(home: Path) -> Listing:
    """The index, and the links from names to runs, made anew from `runs/`."""
    runs.relink(home, runs.load_all(home)[0])
    with Store(home) as store:
        store.rebuild()
        return store.listing()


def _made() -> sqlite3.Connection:
    db = queries.connect(":memory:")
    migrations.migrate(db)
    return db


def _open(path: Path) -> sqlite3.Connection:
    # SQLite gives its other files the mode of this one.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    db = queries.connect(path)
    try:
        migrations.migrate(db)
        queries.check(db)
    except BaseException:
        db.close()
        raise
    return db


def _is_broken(error: Exception) -> bool:
    return isinstance(error, Unusable) or _code(error) in _BROKEN


def _code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _stamps(home: Path) -> dict[str, Stamp]:
    found = {}
    for run_id in runs.ids(home):
        try:
            found[run_id] = _stamp(os.lstat(f"{home}/runs/{run_id}/run.json"))
        except OSError:
            found[run_id] = NO_RECORD
    return found


def _settled(facts: os.stat_result) -> Stamp:
    return UNSURE if time.time() - facts.st_mtime < RACY else _stamp(facts)


def _stamp(facts: os.stat_result) -> Stamp:
    return facts.st_mtime_ns, facts.st_ino, facts.st_size


def _move_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.aside-{time.time_ns():x}")
    for end in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            os.rename(f"{path}{end}", f"{aside}{end}")
    return aside
