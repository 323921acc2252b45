"""What is written down of a project, and what is seen of it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ags import places, records
from ags.clients import checked_name
from ags.errors import AgsError, Missing
from ags.frozen import frozen
from ags.places import Place
from ags.runs import is_alive
from ags.runs.lock import flock, open_lock
from ags.text import one_line
from ags.workspace import temporary
from ags.workspace.remote import Url

ID = re.compile(r"project-[0-9a-f]{20}")
FORMAT = 1
FOLDER, RECORD, REPOSITORY, UNBORN = "projects", "project.json", "repo.git", ".new-"
MOST_ERROR = 2000
PATIENCE = 0.02
"""Seconds: whoever asks whether a lock is free holds it for an instant."""

State = Literal["cloning", "ready", "failed", "pulling"]


@frozen
class Apart:
    """Branches that the last pull left as they were, though the remote's are others."""

    diverged: tuple[str, ...] = ()
    """They have commits which the remote's have not, and the other way round."""
    gone: tuple[str, ...] = ()
    """The remote has them no more."""
    more: int = 0
    """So many are not named here."""


@frozen
class Record:
    """What `project.json` has."""

    url: str
    name: str
    client: str
    added: float
    linked: Path | None = None
    error: str = ""
    format: int = FORMAT
    apart: Apart = Apart()


@frozen
class Project:
    """A repository for runs, as it is right now."""

    id: str
    url: str
    """Of a linked one, the folder."""
    name: str
    client: str
    """Empty for the person's own."""
    added: float
    """In seconds since the epoch."""
    folder: Path
    """The repository; of a linked one, the person's own folder."""
    linked: bool
    error: str
    """Why the last clone or pull failed; empty if it did not."""
    state: State
    apart: Apart = Apart()


def listed(ags_home: Path, client: str | None = None) -> tuple[Project, ...]:
    """In the order in which they were added. Empty for the person's own, None for all clients'."""
    found = []
    for name in _names(ags_home):
        with contextlib.suppress(AgsError):  # half made by one who was killed, or just removed
            found.append(get(ags_home, name))
    chosen = (each for each in found if client in (None, each.client))
    return tuple(sorted(chosen, key=lambda each: (each.added, each.id)))


def get(ags_home: Path, project_id: str) -> Project:
    """By its id alone, which is all that an address or a path may hold."""
    place = place_of(ags_home, project_id)
    if not is_folder(place) or not os.path.lexists(place / RECORD):
        raise missing(project_id)
    return seen(place, load(place))


def find(ags_home: Path, text: str, client: str | None = None) -> Project:
    """By its id or its name."""
    if ID.fullmatch(text):
        found = [get(ags_home, text)]
    else:
        found = [each for each in listed(ags_home, client) if each.name == text]
    if not found:
        raise missing(text)
    if len(found) > 1:
        which = ", ".join(f"{each.id} ({one_line(each.url)})" for each in found)
        cause = f"there are {len(found)} of this name: {which}"
        raise AgsError("find the project", subject=text, cause=cause, hint="name one by its id")
    if client is not None and found[0].client != client:
        cause = (
            f"it is a project of {found[0].client or 'your own'}, and not of {client or 'yours'}"
        )
        raise AgsError("use the project", subject=text, cause=cause)
    return found[0]


def folder_of(ags_home: Path, text: str, client: str | None = None) -> Path | None:
    """For `--project`: the repository of the project of that id or name; None if there is none."""
    try:
        project = find(ags_home, text, client)
    except Missing:
        return None
    if project.state in ("cloning", "failed"):
        cause = project.error or "it is still being cloned"
        hint = f"see `ags project list`; `ags project add {one_line(project.url)}` tries again"
        raise AgsError("use the project", subject=project.name, cause=cause, hint=hint)
    return project.folder


def find_by_folder(ags_home: Path, folder: Path, client: str | None = None) -> Project | None:
    """The project that a run's repository is of."""
    if folder.name == REPOSITORY and folder.parent.parent == ags_home / FOLDER:
        with contextlib.suppress(AgsError):
            found = get(ags_home, folder.parent.name)
            return found if client in (None, found.client) else None
        return None
    return next((each for each in listed(ags_home, client) if each.folder == folder), None)


def id_of(client: str, key: str) -> str:
    """Clients stay apart: the same repository is another project to each."""
    told = os.fsencode(f"{client}\0{key}")
    return f"project-{hashlib.sha256(told).hexdigest()[:20]}"


def place_of(ags_home: Path, project_id: str) -> Path:
    if not ID.fullmatch(project_id):
        raise missing(project_id)
    return ags_home / FOLDER / project_id


def missing(text: str) -> Missing:
    cause, hint = "there is no such project", "see `ags project list`"
    return Missing("find the project", subject=ascii(text)[1:-1][:80], cause=cause, hint=hint)


def _names(ags_home: Path) -> list[str]:
    try:
        return [name for name in os.listdir(ags_home / FOLDER) if ID.fullmatch(name)]
    except FileNotFoundError:
        return []


def check_not_ours(ags_home: Path, url: Url) -> None:
    """What lies in our own folder is a run's, or a project of some client's."""
    if url.folder is not None and Place(str(ags_home)).holds(str(url.folder), set()):
        cause = f"it lies in {ags_home}, which is AGS's own"
        raise AgsError("add the project", subject=url.shown, cause=cause)


def open_place(ags_home: Path, place: Path) -> int:
    """Its lock, not taken yet, in a folder that is made if there is none."""
    places.make_state_folder(ags_home)
    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
    except OSError as error:
        raise records.write_error("add the project", place, error) from error
    if not is_folder(place):
        cause = "it is not a folder that ags made"
        raise AgsError("add the project", subject=place, cause=cause, hint="see what it is")
    try:
        return open_lock(place)
    except Missing:  # removed under our hands
        return open_place(ags_home, place)
    except AgsError:
        with contextlib.suppress(OSError):
            place.rmdir()  # which it only is if nobody else has begun
        raise


def is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def is_lock_of(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(place / "lock"))
    except OSError:
        return False


@contextlib.contextmanager
def locked(place: Path, what: str) -> Iterator[None]:
    try:
        descriptor = open_lock(place)
    except Missing as error:
        raise missing(place.name) from error
    try:
        if not flock(descriptor, PATIENCE):
            cause, hint = "it is just being cloned or pulled", "wait for the end of that"
            raise AgsError(what, subject=load(place).name, cause=cause, hint=hint)
        if not is_lock_of(descriptor, place):
            raise missing(place.name)
        yield
    finally:
        os.close(descriptor)


def load(place: Path) -> Record:
    path = place / RECORD
    try:
        record = records.decode(Record, records.read_file(path)[0])
        if record.format != FORMAT:
            raise ValueError(f"format {record.format} is not known to this version of ags")
        if record.client:
            checked_name(record.client)
    except FileNotFoundError as error:
        raise missing(place.name) from error
    except (OSError, ValueError) as error:
        cause = (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
        raise AgsError("read the record of a project", subject=path, cause=cause) from error
    return record


def known(place: Path) -> Record | None:
    try:
        return load(place)
    except AgsError:
        return None


def save(place: Path, record: Record) -> None:
    records.replace_file(place / RECORD, records.encode(record))


def note(place: Path, error: AgsError) -> None:
    with contextlib.suppress(AgsError):  # a full disk: the person hears of it as it is
        save(place, replace(load(place), error=(error.cause or str(error))[:MOST_ERROR]))


def seen(place: Path, record: Record) -> Project:
    folder = record.linked or place / REPOSITORY
    there = folder.is_dir() if record.linked else is_folder(folder)
    state, error = _state(place, record, there=there)
    return Project(
        id=place.name,
        url=record.url,
        name=record.name,
        client=record.client,
        added=record.added,
        folder=folder,
        linked=record.linked is not None,
        error=error,
        state=state,
        apart=record.apart,
    )


def _state(place: Path, record: Record, *, there: bool) -> tuple[State, str]:
    if record.linked is not None:
        return ("ready", "") if there else ("failed", "the folder is gone")
    if is_alive(place):
        return ("pulling" if there else "cloning"), ""
    if there:
        return "ready", record.error
    return "failed", record.error or "it was interrupted before its end"


def sweep(place: Path) -> None:
    """Under its lock: what clones that were killed left behind."""
    for name in os.listdir(place):
        if name.startswith(UNBORN):
            shutil.rmtree(place / name, ignore_errors=True)


def set_aside(place: Path) -> Path:
    gone = place.with_name(f".old-{place.name}-{temporary.mark()}")
    try:
        os.rename(place, gone)
    except OSError as error:
        raise records.write_error("remove the project", place, error) from error
    return gone


def discard(place: Path) -> None:
    shutil.rmtree(set_aside(place), ignore_errors=True)
