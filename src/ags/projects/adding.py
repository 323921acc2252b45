"""Adding a project: by cloning it, or as the person's own folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ags import records
from ags.clients import checked_name
from ags.engine import Engine
from ags.errors import AgsError
from ags.projects.record import (
    PATIENCE,
    RECORD,
    REPOSITORY,
    UNBORN,
    Project,
    Record,
    check_not_ours,
    discard,
    get,
    id_of,
    is_folder,
    is_lock_of,
    known,
    load,
    locked,
    note,
    open_place,
    place_of,
    save,
    seen,
    sweep,
)
from ags.runs import is_alive
from ags.runs.lock import flock
from ags.workspace import git, remote, temporary
from ags.workspace.remote import Person, Progress, Url, checked_url, unheard

LOOK = 0.1
"""Seconds between two looks at whether another ags has finished."""


class Adding:
    """A project that is being added. Its lock is held from here on to `close`, if it is new."""

    def __init__(self, ags_home: Path, url: Url, client: str) -> None:
        """Quick; nothing is fetched yet. Sees to it that there is a record."""
        self._url = url
        self.place = place_of(ags_home, id_of(client, url.key))
        self._lock: int | None = None
        self._born = False
        check_not_ours(ags_home, url)
        record = Record(url.url, url.name, client, time.time())
        while not self._is_begun(ags_home, record):
            pass

    def _is_begun(self, ags_home: Path, record: Record) -> bool:
        """False, if it was removed under our hands."""
        lock = open_place(ags_home, self.place)
        try:
            if not flock(lock, PATIENCE):
                self._await_record()
                return True
            if not is_lock_of(lock, self.place):
                return False
            self._claim(record)
            if not is_folder(self.place / REPOSITORY):
                self._lock = lock
            return True
        finally:
            if self._lock is None:
                os.close(lock)

    def _claim(self, record: Record) -> None:
        there = known(self.place)
        self._born = there is None
        try:
            sweep(self.place)
            if there is None or not is_folder(self.place / REPOSITORY):
                save(self.place, replace(there or record, error=""))
        except BaseException:
            self.forget()
            raise

    def _await_record(self) -> None:
        """Whoever is just making it writes this first thing."""
        until = time.monotonic() + 1
        while not (self.place / RECORD).exists() and time.monotonic() < until:
            time.sleep(0.005)

    @property
    def project(self) -> Project:
        return seen(self.place, load(self.place))

    @property
    def new(self) -> bool:
        """Whether there is something to clone, and we are who does it."""
        return self._lock is not None

    async def finish(
        self, person: Person, progress: Progress = unheard, *, keep: bool = True
    ) -> Project:
        """Clone it, or wait for who does. Of one that fails, the reason is kept if you like."""
        if self._lock is None:
            return await self._finished()
        unborn = self.place / f"{UNBORN}{temporary.mark()}"
        try:
            await remote.clone(self._url, unborn, person, progress)
            self._settle(unborn)
        except AgsError as error:
            note(self.place, error)
            if not keep:
                self.forget()
            raise
        except asyncio.CancelledError:
            self.forget()
            raise
        finally:
            shutil.rmtree(unborn, ignore_errors=True)
            self.close()
        return self.project

    def _settle(self, unborn: Path) -> None:
        try:
            os.rename(unborn, self.place / REPOSITORY)
            records.sync_directory(self.place)
        except OSError as error:
            raise records.write_error("clone the repository", self.place, error) from error

    async def _finished(self) -> Project:
        while is_alive(self.place):
            if is_folder(self.place / REPOSITORY):
                break
            await asyncio.sleep(LOOK)
        if known(self.place) is None or not is_folder(self.place / REPOSITORY):
            cause = "another ags was just cloning it, and failed"
            raise AgsError("clone the repository", subject=self._url.shown, cause=cause)
        return self.project

    def forget(self) -> None:
        """As if it had never been asked for, if it was not there before."""
        if self._born and not (self.place / REPOSITORY).exists():
            discard(self.place)

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def begin(ags_home: Path, url: Url, client: str = "") -> Adding:
    """For whoever wants to go on while it is cloned; `add` does it all."""
    return Adding(ags_home, url, checked_name(client) if client else "")


async def add(engine: Engine, url: Url, client: str = "", progress: Progress = unheard) -> Project:
    """Clone it, unless it is there. If that fails, nothing is left of it."""
    with begin(engine.ags_home, url, client) as adding:
        person = Person(engine.environ, engine.home)
        return await adding.finish(person, progress, keep=False)


async def link(ags_home: Path, folder: Path, client: str = "") -> Project:
    """The repository around a folder of the person's, to be used as it is."""
    repository = await git.find(folder)
    client = checked_name(client) if client else ""
    top = repository.work_tree or repository.git_dir
    url = checked_url(str(top))
    check_not_ours(ags_home, url)
    # Not the id of a clone of that folder, which is another project.
    place = place_of(ags_home, id_of(client, f"linked {url.key}"))
    os.close(open_place(ags_home, place))
    with locked(place, "add the project"):
        if known(place) is None:
            save(place, Record(url.url, url.name, client, time.time(), linked=top))
    return get(ags_home, place.name)
