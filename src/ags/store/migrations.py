"""How the index came to its present shape, one named step after another. Steps are only added."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from ags.store import queries


def create_runs(db: sqlite3.Connection) -> None:
    queries.create_runs(db)


def add_clients(db: sqlite3.Connection) -> None:
    queries.add_clients(db)


STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (create_runs, add_clients)


def migrate(db: sqlite3.Connection) -> None:
    """The steps that are missing, all or none; several processes may come here at once."""
    if queries.version(db) == len(STEPS):
        return
    with queries.writing(db):
        done = queries.version(db)
        if done > len(STEPS):
            raise queries.Unusable(f"its format is {done}, the newest known here is {len(STEPS)}")
        for step in STEPS[done:]:
            step(db)
        queries.set_version(db, len(STEPS))
