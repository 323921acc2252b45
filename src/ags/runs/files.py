"""Where runs are, and reading their records."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from ags import records
from ags.errors import AgsError, Missing
from ags.runs.record import FORMAT, ID, NAME, Damaged, Run


def directory(home: Path, run_id: str) -> Path:
    if not re.fullmatch(ID, run_id):
        raise Missing("find the run", subject=ascii(run_id)[:60], cause="this is not a run's id")
    return home / "runs" / run_id


def find(home: Path, name: str) -> Path:
    """The directory of the run of that name, or of that id."""
    if re.fullmatch(NAME, name):
        found = id_of(home, name)
        if found is None and re.fullmatch(ID, name):
            found = name
        if found is not None and directory(home, found).is_dir():
            return directory(home, found)
    cause = "there is no run of this name"
    raise Missing("find the run", subject=ascii(name)[:60], cause=cause, hint="see `ags list`")


def load(run_dir: Path) -> Run:
    return load_with_facts(run_dir)[0]


def load_with_facts(run_dir: Path) -> tuple[Run, os.stat_result]:
    """The record, and the facts of the file it came from."""
    path = run_dir / "run.json"
    try:
        data, facts = records.read_file(path)
        run = records.decode(Run, data)
        if run.format != FORMAT:
            raise ValueError(f"format {run.format} is not known to this version of ags")
        if run.id != run_dir.name:
            raise ValueError(f"it is the record of {run.id[:40]!r}")
        if not re.fullmatch(NAME, run.name):
            raise ValueError(f"name is {run.name[:60]!r}")
    except (OSError, ValueError) as error:
        cause = (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
        hint = f"its files are kept in {run_dir}"
        raise AgsError("read the record of a run", subject=path, cause=cause, hint=hint) from error
    return _settled(run), facts


def _settled(run: Run) -> Run:
    """A linked worktree that is gone leaves its work to the repository that it was of."""
    # In place the files themselves were there: another folder's must not be taken for them.
    if run.common is None or run.mode != "separate" or os.path.lexists(run.project / ".git"):
        return run
    return replace(run, project=run.common.parent if run.common.name == ".git" else run.common)


def ids(home: Path) -> list[str]:
    """In the order of creation."""
    try:
        return sorted(name for name in os.listdir(home / "runs") if re.fullmatch(ID, name))
    except FileNotFoundError:
        return []


def names(home: Path) -> list[str]:
    """Of all runs, in no order."""
    try:
        return [name for name in os.listdir(home / "names") if re.fullmatch(NAME, name)]
    except FileNotFoundError:
        return []


def load_all(home: Path) -> tuple[list[Run], list[Damaged]]:
    """All that can be read, and what cannot."""
    found: list[Run] = []
    damaged: list[Damaged] = []
    for run_id in ids(home):
        try:
            found.append(load(directory(home, run_id)))
        except AgsError as error:
            if directory(home, run_id).is_dir():  # it may have been removed meanwhile
                damaged.append(Damaged(run_id, error.cause))
    return found, damaged


def id_of(home: Path, name: str) -> str | None:
    """The id that a name leads to, whether or not such a run exists."""
    try:
        run_id = os.path.basename(os.readlink(home / "names" / name))
    except OSError:
        return None
    return run_id if re.fullmatch(ID, run_id) else None
