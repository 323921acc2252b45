"""Making, removing and sweeping runs, while others do the same."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ags import records
from ags.errors import AgsError
from ags.runs.files import directory, id_of, ids, load
from ags.runs.lock import Held, flock, is_alive, keep, make_reserve, open_lock
from ags.runs.record import Clock, Run, checked_name, moved, now

PATIENCE = 10.0
"""Seconds to wait for another ags that is just making, removing or sweeping a run."""


def create(home: Path, run: Run, patience: float | None = None) -> Held:
    """Make the run's directory and take its name, both or neither. The lock is held from birth."""
    final, unborn = directory(home, run.id), home / "runs" / f".new-{run.id}"
    with _registry(home, patience):
        try:
            check_free(home, run.name)
            # One that leads nowhere was left by a start that was killed.
            (home / "names" / run.name).unlink(missing_ok=True)
            unborn.mkdir(mode=0o700)
            with contextlib.ExitStack() as undo:
                descriptor = open_lock(unborn)
                undo.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                make_reserve(unborn)
                records.replace_file(unborn / "run.json", records.encode(run))
                os.symlink(f"../runs/{run.id}", home / "names" / run.name)
                records.sync_directory(home / "names")
                os.rename(unborn, final)
                undo.pop_all()
            records.sync_directory(final.parent)
        except (AgsError, OSError) as error:
            _tidy(home)
            if isinstance(error, OSError):
                raise records.write_error("make the run", final, error) from error
            raise
    return keep(final, descriptor)


def remove(home: Path, held: Held, patience: float | None = None) -> None:
    """Take away the record and free the name; what it holds must be kept elsewhere by now."""
    with _registry(home, patience):
        gone = home / "runs" / f".old-{held.run.id}"
        try:
            os.rename(held.run_dir, gone)
            if id_of(home, held.run.name) == held.run.id:
                os.unlink(home / "names" / held.run.name)
            shutil.rmtree(gone)
        except OSError as error:
            raise records.write_error("remove the run", held.run_dir, error) from error
    held.close()


def discard(home: Path, run_dir: Path, patience: float | None = None) -> None:
    """Take away a run whose record cannot be read, and all names that lead to it."""
    descriptor = open_lock(run_dir)
    try:
        if not flock(descriptor, 0):
            cause = "somebody is at work on it"
            raise AgsError("remove the run", subject=run_dir.name, cause=cause)
        with _registry(home, patience):
            gone = home / "runs" / f".old-{run_dir.name}"
            os.rename(run_dir, gone)
            _tidy(home)
    except OSError as error:
        raise records.write_error("remove the run", run_dir, error) from error
    finally:
        os.close(descriptor)


def sweep(home: Path, among: Iterable[str] | None = None, clock: Clock = now) -> list[Run]:
    """Runs that nobody tends any more but that had not ended become `interrupted`.

    `among` saves looking at all of them, where an index knows which have not ended.
    """
    looked_at = ids(home) if among is None else among
    swept = (_swept(directory(home, run_id), clock) for run_id in looked_at)
    return [run for run in swept if run is not None]


def tidy(home: Path) -> None:
    """Clear away what a killed start or removal left half done, unless somebody is just at it."""
    if (home / "runs").is_dir():
        with contextlib.suppress(Busy), _registry(home, 0):
            _tidy(home)


def relink(home: Path, found: Iterable[Run]) -> None:
    """Give every run its name again, where the link is gone."""
    with _registry(home):
        for run in found:
            with contextlib.suppress(FileExistsError):
                os.symlink(f"../runs/{run.id}", home / "names" / run.name)


def _swept(run_dir: Path, clock: Clock) -> Run | None:
    with contextlib.suppress(AgsError):  # damaged or just removed: a listing tells
        if is_alive(run_dir) or load(run_dir).is_final:
            return None
        descriptor = open_lock(run_dir)
        if not flock(descriptor, 0):
            os.close(descriptor)
            return None
        with keep(run_dir, descriptor) as held:
            # Between the look and the lock it may have ended by itself, or been swept.
            if held.run.is_final:
                return None
            ended = moved(held.run, "interrupted", clock())
            note = f"interrupted while {held.run.state}: its supervisor was gone"
            return held.save(replace(ended, notes=(*ended.notes, note)))
    return None


class Busy(AgsError):
    """Somebody else is changing the list of runs."""


@contextlib.contextmanager
def _registry(home: Path, patience: float | None = None) -> Iterator[None]:
    """One at a time makes or removes runs, so what is half made belongs to nobody alive."""
    try:
        for folder in (home / "runs", home / "names"):
            records.private_folder(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(home / "names" / ".lock", flags, 0o600)
    except OSError as error:
        raise records.write_error("open the list of runs", home, error) from error
    try:
        patience = PATIENCE if patience is None else patience
        if not flock(descriptor, patience):
            cause = "another ags has been changing it all the while"
            hint = "let that one go on, or end it; then try again"
            raise Busy("change the list of runs", subject=home, cause=cause, hint=hint)
        yield
    finally:
        os.close(descriptor)


def check_free(home: Path, name: str) -> None:
    """Refuse a name that is none, or is in use."""
    checked_name(name)
    holder = id_of(home, name)
    if holder is not None and directory(home, holder).is_dir():
        try:
            state: str = load(directory(home, holder)).state
        except AgsError:
            state = "damaged"
        raise AgsError(
            "start a run of this name",
            subject=name,
            cause=f"run {holder} has it ({state})",
            hint=f"choose another name, or remove that run: `ags rm {name}`",
        )


def _tidy(home: Path) -> None:
    """Within `_registry`."""
    for name in os.listdir(home / "runs"):
        if name.startswith((".new-", ".old-")):
            shutil.rmtree(home / "runs" / name, ignore_errors=True)
    for name in os.listdir(home / "names"):
        path = home / "names" / name
        if path.is_symlink() and not path.exists():
            path.unlink(missing_ok=True)
