"""The agents' programs as they lie in the state folder: `agents/<agent>/<version>/`, and `current`.

A version's folder appears by one rename and is never changed. Whoever uses one holds a shared lock
on it, so that it stays for as long as they do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from ags import records
from ags.errors import AgsError
from ags.frozen import frozen
from ags.programs.release import VERSION

FOLDER, CURRENT, FACTS = "agents", "current", "ags.json"
UNFINISHED, REPLACED = ".new-", ".old-"


@frozen
class Facts:
    """What was noted down at the installation."""

    package: str
    version: str
    path: str
    """Of the executable, below the folder."""
    node: str = ""
    """The Node that it was tried with, on the host; empty if it needs none."""
    size: int = 0


@frozen
class Installed:
    """A program that nobody else could have changed."""

    agent: str
    version: str
    folder: Path
    executable: Path
    node: Path | None = None
    size: int = 0

    @property
    def inner(self) -> str:
        """The executable, below the folder."""
        return str(self.executable.relative_to(self.folder))


def home_of(ags_home: Path, agent: str) -> Path:
    """Of all versions of an agent."""
    return ags_home / FOLDER / agent


def current(ags_home: Path, agent: str) -> Installed | None:
    """The version that runs are given; None if there is none. One that cannot be trusted raises."""
    try:
        version = os.readlink(home_of(ags_home, agent) / CURRENT)
    except OSError:
        return None
    return look(ags_home, agent, version)


def versions(ags_home: Path, agent: str) -> tuple[str, ...]:
    """All that are there, in no order."""
    with contextlib.suppress(OSError), os.scandir(home_of(ags_home, agent)) as entries:
        return tuple(
            each.name
            for each in entries
            if re.fullmatch(VERSION, each.name) and each.is_dir(follow_symlinks=False)
        )
    return ()


def look(ags_home: Path, agent: str, version: str) -> Installed:
    """One version, judged: whose it is, who could write to it, and that its program is there."""
    folder = home_of(ags_home, agent) / version
    if not re.fullmatch(VERSION, version):
        raise _refused(agent, folder, "its name is no version")
    try:
        for place in (folder.parent.parent, folder.parent, folder):
            _check(agent, place, os.lstat(place), stat.S_ISDIR)
        facts = records.decode(Facts, records.read_file(folder / FACTS)[0])
        executable = _executable(agent, folder, facts.path)
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise _refused(agent, folder, f"it is damaged: {cause.lower()}") from error
    node = Path(facts.node) if facts.node else None
    if node is not None and not os.access(node, os.X_OK):
        raise _refused(agent, folder, f"the Node that it runs with is gone: {node}")
    return Installed(agent, version, folder, executable, node, facts.size)


def _executable(agent: str, folder: Path, path: str) -> Path:
    named = folder / path
    real = named.resolve(strict=True)
    if not real.is_relative_to(folder.resolve()):
        raise _refused(agent, named, "it leads out of its folder")
    facts = os.lstat(real)
    _check(agent, real, facts, stat.S_ISREG)
    if not facts.st_mode & 0o111:
        raise _refused(agent, named, "it is no program")
    return named


def _check(agent: str, place: Path, facts: os.stat_result, kind: Callable[[int], bool]) -> None:
    if not kind(facts.st_mode):
        raise _refused(agent, place, "it is of another kind than it was made")
    if facts.st_uid not in (0, os.geteuid()):
        raise _refused(agent, place, "it belongs to somebody else")
    if facts.st_mode & 0o022:
        raise _refused(agent, place, "others may write to it")


def _refused(agent: str, place: Path, cause: str) -> AgsError:
    hint = f"install it anew: `ags update-agents {agent}`"
    return AgsError(f"use the installed {agent}", subject=place, cause=cause, hint=hint)


def switch(ags_home: Path, agent: str, version: str) -> None:
    """Make it the current one, in one step."""
    place = home_of(ags_home, agent)
    new = place / f"{UNFINISHED}{CURRENT}"
    new.unlink(missing_ok=True)
    new.symlink_to(version)
    new.rename(place / CURRENT)


@contextlib.contextmanager
def held(installed: Installed) -> Iterator[int]:
    """For as long as it is in use. The lock goes along with the descriptor, and ends with us."""
    try:
        descriptor = os.open(installed.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        cause = "it was removed just now"
        raise _refused(installed.agent, installed.folder, cause) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not installed.executable.exists():
            raise _refused(installed.agent, installed.folder, "it was removed just now")
        yield descriptor
    finally:
        os.close(descriptor)


def remove_unused(ags_home: Path) -> tuple[Path, ...]:
    """The versions that are neither current nor in use; for `ags cleanup`."""
    removed = []
    for place in sorted((ags_home / FOLDER).glob("*/")):
        kept = os.readlink(place / CURRENT) if (place / CURRENT).is_symlink() else ""
        for version in versions(ags_home, place.name):
            if version != kept and _removed(place / version):
                removed.append(place / version)
    return tuple(removed)


def _removed(folder: Path) -> bool:
    """Whether nobody used it, so that it is gone."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # In one step, before what is in it: nobody is to find half of it.
        old = _aside(folder) if not folder.name.startswith(".") else folder
        shutil.rmtree(old, ignore_errors=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _aside(folder: Path) -> Path:
    return folder.rename(folder.with_name(f"{REPLACED}{os.urandom(4).hex()}"))


def put_away(folder: Path) -> None:
    """Gone from its place at once; from the disk when nobody uses it any more."""
    _removed(_aside(folder))


def sweep(place: Path) -> None:
    """What installations left that were killed. Only for who holds the lock of that place."""
    for entry in (*place.glob(f"{UNFINISHED}*"), *place.glob(f"{REPLACED}*")):
        if entry.is_symlink():
            entry.unlink(missing_ok=True)
        else:
            with contextlib.suppress(OSError):
                _removed(entry)
