"""Folders for a moment. Named by their process, so that the next one can clear up after a kill."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ags.kernel import processes
from ags.workspace.tree import Owner, acting_as

MARK = r"(?P<world>[0-9]+)-(?P<pid>[0-9]+)-(?P<start>[0-9]+)"
OURS = re.compile(rf"ags-(?:git|scratch)-{MARK}-.+")


@contextmanager
def folder(kind: str, owner: Owner) -> Iterator[Path]:
    """An empty folder that is `owner`'s, and gone afterwards with all that is in it."""
    with acting_as(owner):
        made = Path(tempfile.mkdtemp(prefix=f"ags-{kind}-{mark()}-"))
    try:
        yield made
    finally:
        with acting_as(owner):
            shutil.rmtree(made, ignore_errors=True)  # of links it removes the link


def sweep() -> None:
    """Remove those of our own whose process was killed."""
    place = tempfile.gettempdir()
    with os.scandir(place) as entries:
        left = [entry.name for entry in entries if _is_left(entry)]
    for name in left:
        shutil.rmtree(f"{place}/{name}", ignore_errors=True)


def _is_left(entry: os.DirEntry[str]) -> bool:
    match = OURS.fullmatch(entry.name)
    if match is None or not is_dead(match):
        return False
    try:
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return facts.st_uid == os.geteuid() and stat.S_ISDIR(facts.st_mode)


def mark() -> str:
    """For a name: this very process."""
    return f"{_world()}-{os.getpid()}-{processes.start_time(os.getpid())}"


def is_dead(found: re.Match[str]) -> bool:
    """Whether the process of a `MARK` is gone."""
    # What is of another pid namespace may live there, whatever that number is here.
    here = int(found["world"]) == _world()
    return here and processes.start_time(int(found["pid"])) != int(found["start"])


def _world() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
