"""Runs for who only looks: nothing here takes as long to load as what it takes to start one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from ags import runs
from ags.errors import AgsError
from ags.runs import Run
from ags.store import Filter, Listing, Order, Store

ALL = Filter()


class Shelf:
    """The person's runs. None is shown at work if nobody tends it any more."""

    def __init__(self, ags_home: Path, *, store: Store | None = None) -> None:
        """`store` is kept open by who gives it; without one, each question opens the index."""
        self.ags_home = ags_home
        self.notes: list[str] = []
        """What the person should hear of: found on the way, not asked for."""
        self._kept = store

    def listing(
        self,
        where: Filter = ALL,
        limit: int | None = None,
        offset: int = 0,
        order: Order = "newest",
    ) -> Listing:
        if not (self.ags_home / "runs").is_dir():
            return Listing((), 0, ())
        with self._store() as store:
            self._swept(store.unfinished())
            return store.listing(where, order, limit, offset)

    def sweep(self) -> None:
        """Notice runs that died with nobody there to say so."""
        if (self.ags_home / "runs").is_dir():
            runs.tidy(self.ags_home)
            with self._store() as store:
                self._swept(store.unfinished())

    def find(self, name: str) -> Run:
        return runs.load(self.run_dir(name))

    def run_dir(self, name: str) -> Path:
        """Of the run of that name, which is looked after first."""
        run_dir = runs.find(self.ags_home, name)
        self._swept((run_dir.name,))
        return run_dir

    def at_work(self, name: str, what: str) -> Path:
        """The directory of a run that somebody tends."""
        run_dir = self.run_dir(name)
        if (run := runs.load(run_dir)).is_final:
            cause = f"it is not at work: it is {run.state}"
            raise AgsError(what, subject=run.name, cause=cause, hint=f"see `ags show {run.name}`")
        return run_dir

    @contextlib.contextmanager
    def _store(self) -> Iterator[Store]:
        store = self._kept or Store(self.ags_home)
        try:
            yield store
            self.notes += store.notes
            store.notes.clear()
        finally:
            if store is not self._kept:
                store.close()

    def _swept(self, among: Iterable[str]) -> None:
        for run in runs.sweep(self.ags_home, among):
            self.notes.append(
                f"{run.name} was interrupted: its supervisor is gone. Its work is kept"
                f" (`ags diff {run.name}`); `ags restart {run.name}` starts it anew"
            )
