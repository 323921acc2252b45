"""The folder that a log-in has while it is made. Whoever is killed leaves theirs to be swept."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ags import records
from ags.errors import AgsError
from ags.workspace.separate import remove_folder
from ags.workspace.tree import closing

FOLDER = "auth"
"""Below AGS_HOME."""


@contextmanager
def room(ags_home: Path) -> Iterator[Path]:
    """An empty folder, locked for as long as it is in use, and gone afterwards."""
    top = ags_home / FOLDER
    records.private_folder(top)
    place = top / os.urandom(6).hex()
    with ExitStack() as used:
        with _locked(top):  # so that nobody sweeps it before it is locked itself
            place.mkdir(mode=0o700)
            used.enter_context(_locked(place))
        try:
            yield place
        finally:
            with suppress(AgsError, OSError):  # what cannot go now is swept later
                remove_folder(top, place.name)


def left(ags_home: Path) -> tuple[Path, ...]:
    """Those that nobody uses any more."""
    top = ags_home / FOLDER
    found = sorted(top.iterdir()) if top.is_dir() else []
    return tuple(each for each in found if _is_ours(each) and not _in_use(each))


def sweep(ags_home: Path) -> tuple[Path, ...]:
    """Remove them. Each was the home of an agent, with whatever traps are in it."""
    if not (found := left(ags_home)):
        return ()
    with _locked(ags_home / FOLDER):
        found = left(ags_home)
        for each in found:
            remove_folder(each.parent, each.name)
    return found


def _is_ours(place: Path) -> bool:
    named = re.fullmatch("[0-9a-f]{12}", place.name) is not None
    return named and place.is_dir() and not place.is_symlink()


def _in_use(place: Path) -> bool:
    """By its lock, which ends with its process, however that ends."""
    try:
        with _locked(place, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return False
    except (BlockingIOError, FileNotFoundError):
        return True  # or it is gone by now, by its user


@contextmanager
def _locked(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with closing(os.open(folder, flags)) as lock:
        fcntl.flock(lock, how)
        yield
