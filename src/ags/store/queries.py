"""All SQL there is. Values in, values out; whoever calls has opened the transaction."""

from __future__ import annotations

import functools
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from ags.frozen import frozen
from ags.model import Weakening
from ags.runs import FINAL, Mode, Moment, Run, State

Order = Literal["newest", "oldest", "name"]
Stamp: TypeAlias = tuple[int, int, int]
"""Time, inode and size of a run.json: as long as they are the same, so is what is in it."""

BUSY = 5.0
"""Seconds to wait for another process's write, which takes milliseconds."""

_CREATE_RUNS = (
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        mtime INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL,
        name TEXT NOT NULL, agent BLOB NOT NULL, goal BLOB NOT NULL, mode TEXT NOT NULL,
        project BLOB NOT NULL, branch BLOB, state TEXT NOT NULL, asking INTEGER NOT NULL,
        created TEXT NOT NULL, started TEXT, ended TEXT,
        exit_code INTEGER, stopped_by BLOB, weakenings TEXT NOT NULL,
        files INTEGER, insertions INTEGER, deletions INTEGER, applied INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX runs_by_state ON runs (state)",
)
_ADD_CLIENTS = (
    "DELETE FROM runs",  # to be read again, with what is new
    "ALTER TABLE runs ADD COLUMN client BLOB NOT NULL DEFAULT x''",
    "ALTER TABLE runs ADD COLUMN bundle BLOB NOT NULL DEFAULT x''",
)

_COLUMNS = (
    "id, name, agent, goal, mode, project, branch, state, asking, created, started, ended,"
    " exit_code, stopped_by, weakenings, files, insertions, deletions, applied, client, bundle"
)
_PUT = (
    f"INSERT OR REPLACE INTO runs ({_COLUMNS}, mtime, inode, size)"  # noqa: S608
    " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_WHERE = """
    WHERE (:states IS NULL OR instr(:states, ',' || state || ','))
      AND (:agent IS NULL OR agent = :agent)
      AND (:project IS NULL OR project = :project)
      AND (:mode IS NULL OR mode = :mode)
      AND (:asking IS NULL OR asking = :asking)
      AND (:client IS NULL OR client = :client)
      AND (:bundle IS NULL OR bundle = :bundle)
      AND (:words IS NULL OR instr(name, :words) OR instr(goal, CAST(:words AS BLOB)))
"""
_ORDERS: dict[Order, str] = {
    "newest": "ORDER BY id DESC LIMIT :limit OFFSET :offset",
    "oldest": "ORDER BY id LIMIT :limit OFFSET :offset",
    "name": "ORDER BY name, id LIMIT :limit OFFSET :offset",
}


@frozen
class Filter:
    """Which runs are meant; None and empty mean any."""

    states: tuple[State, ...] = ()
    agent: str | None = None
    project: Path | None = None
    mode: Mode | None = None
    asking: bool | None = None
    words: str | None = None
    """Part of the name or of the goal."""
    client: str | None = None
    """Empty: the person's own."""
    group: str | None = None


class Unusable(Exception):
    """A file that is no index of ours, or no longer."""


class Summary(NamedTuple):
    """A run as a list shows it. A tuple, because a list makes a thousand of them at once."""

    id: str
    name: str
    agent: str
    goal: str
    mode: Mode
    project: Path
    branch: str | None
    state: State
    asking: bool
    created: Moment
    started: Moment | None
    ended: Moment | None
    exit_code: int | None
    stopped_by: str | None
    weakenings: tuple[str, ...]
    """Their names."""
    files: int | None
    insertions: int | None
    deletions: int | None
    applied: bool
    """Whether its result went somewhere and was not undone since."""
    client: str
    group: str


def connect(target: Path | Literal[":memory:"]) -> sqlite3.Connection:
    """A connection that begins no transaction by itself."""
    db = sqlite3.connect(target, timeout=BUSY, isolation_level=None)
    _use_wal(db)
    # Without a power cut nothing is lost, and after one the index is made anew where it is old.
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def _use_wal(db: sqlite3.Connection) -> None:
    """Where two make a database at once, SQLite refuses this without waiting for its time-out."""
    until = time.monotonic() + BUSY
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.02)


@contextmanager
def writing(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, and from the start the only one who writes."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def version(db: sqlite3.Connection) -> int:
    (number,) = db.execute("PRAGMA user_version").fetchone()
    return int(number)


def set_version(db: sqlite3.Connection, number: int) -> None:
    db.execute(f"PRAGMA user_version = {number:d}")


def check(db: sqlite3.Connection) -> None:
    """Whether the file is sound and the tables are ours: a fraction of a millisecond."""
    (answer,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if answer != "ok":
        raise Unusable(" ".join(answer.split()))
    stamps(db)
    select(db, Filter(), "newest", 1, 0)


def copied(path: Path, into: sqlite3.Connection, version: int) -> bool:
    """Whether the whole of an index was brought over; if not, `into` is good for nothing."""
    try:
        source = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0)
    except sqlite3.Error:
        return False
    try:
        if source.execute("PRAGMA user_version").fetchone() != (version,):
            return False
        source.backup(into)
        check(into)
    except (sqlite3.Error, Unusable):
        return False
    finally:
        source.close()
    return True


def create_runs(db: sqlite3.Connection) -> None:
    for statement in _CREATE_RUNS:
        db.execute(statement)


def add_clients(db: sqlite3.Connection) -> None:
    for statement in _ADD_CLIENTS:
        db.execute(statement)


def put(db: sqlite3.Connection, rows: Iterable[tuple[Run, Stamp]]) -> None:
    db.executemany(_PUT, (_row(run, stamp) for run, stamp in rows))


def delete(db: sqlite3.Connection, ids: Iterable[str]) -> None:
    db.executemany("DELETE FROM runs WHERE id = ?", ((each,) for each in ids))


def delete_all(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM runs")


def stamps(db: sqlite3.Connection) -> dict[str, Stamp]:
    rows = db.execute("SELECT id, mtime, inode, size FROM runs")
    return {run_id: (mtime, inode, size) for run_id, mtime, inode, size in rows}


def select(
    db: sqlite3.Connection, where: Filter, order: Order, limit: int | None, offset: int
) -> list[Summary]:
    text = " ".join(("SELECT", _COLUMNS, "FROM runs", _WHERE, _ORDERS[order]))
    paging = {"limit": -1 if limit is None else limit, "offset": offset}
    # Many runs, few projects; and a Path costs as much as all the rest of a row.
    folder = functools.cache(lambda blob: Path(_text(blob)))
    return [_summary(row, folder) for row in db.execute(text, _parameters(where) | paging)]


def count(db: sqlite3.Connection, where: Filter) -> dict[State, int]:
    text = " ".join(("SELECT state, count(*) FROM runs", _WHERE, "GROUP BY state"))
    return dict(db.execute(text, _parameters(where)).fetchall())


def unfinished(db: sqlite3.Connection) -> list[str]:
    text = "SELECT id FROM runs WHERE NOT instr(?, ',' || state || ',') ORDER BY id"
    return [run_id for (run_id,) in db.execute(text, (_listed(FINAL),))]


def _parameters(where: Filter) -> dict[str, object]:
    return {
        "states": _listed(where.states) if where.states else None,
        "agent": _blob(where.agent),
        "project": None if where.project is None else _blob(str(where.project)),
        "mode": where.mode,
        "asking": where.asking,
        "client": _blob(where.client),
        "bundle": _blob(where.group),
        "words": None if where.words is None else where.words.encode(errors="replace").decode(),
    }


def _listed(states: Iterable[State]) -> str:
    return f",{','.join(states)},"


def _row(run: Run, stamp: Stamp) -> tuple[object, ...]:
    result = run.result
    changes = (result.files, result.insertions, result.deletions) if result else (None,) * 3
    return (
        run.id, run.name, _blob(run.agent), _blob(run.goal), run.mode, _blob(str(run.project)),
        _blob(run.branch), run.state, run.asking,
        _moment(run.created), _moment(run.started), _moment(run.ended),
        run.exit_code, _blob(run.stopped_by), _names(run.weakenings),
        *changes, any(each.undone is None for each in run.applied),
        _blob(run.order.client), _blob(run.group),
        *stamp,
    )  # fmt: skip


def _summary(row: tuple[Any, ...], folder: Callable[[bytes], Path]) -> Summary:
    (
        run_id, name, agent, goal, mode, project, branch, state, asking, created, started, ended,
        exit_code, stopped_by, weakenings, files, insertions, deletions, applied,
        client, bundle,
    ) = row  # fmt: skip
    return Summary(
        run_id, name, _text(agent), _text(goal), mode, folder(project),
        None if branch is None else _text(branch), state, bool(asking),
        _read_moment(created), started and _read_moment(started), ended and _read_moment(ended),
        exit_code, None if stopped_by is None else _text(stopped_by),
        tuple(json.loads(weakenings)) if weakenings else (),
        files, insertions, deletions, bool(applied), _text(client), _text(bundle),
    )  # fmt: skip


# Arguments and paths may hold bytes that are no text; SQLite's TEXT could not.
def _blob(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="surrogatepass")


def _text(blob: bytes) -> str:
    return blob.decode(errors="surrogatepass")


def _names(weakenings: tuple[Weakening, ...]) -> str:
    return json.dumps([each.name for each in weakenings]) if weakenings else ""


def _moment(moment: Moment | None) -> str | None:
    return None if moment is None else f"{moment.wall!r} {moment.uptime!r} {moment.boot}"


def _read_moment(text: str) -> Moment:
    wall, uptime, boot = text.split(" ", 2)
    return Moment(float(wall), float(uptime), boot)
