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

OURS = re.compile(r"ags-(?:git|scratch)-(?P<world>[0-9]+)-(?P<pid>[0-9]+)-(?P<start>[0-9]+)-.+")


@contextmanager
def folder(kind: str, owner: Owner) -> Iterator[Path]:
    """An empty folder that is `owner`'s, and gone afterwards with all that is in it."""
    me = f"{_world()}-{os.getpid()}-{processes.start_time(os.getpid())}"
    with acting_as(owner):
        made = Path(tempfile.mkdtemp(prefix=f"ags-{kind}-{me}-"))
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
    # What is of another pid namespace may live there, whatever that number is here.
    if match is None or int(match["world"]) != _world():
        return False
    try:
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    if facts.st_uid != os.geteuid() or not stat.S_ISDIR(facts.st_mode):
        return False
    return processes.start_time(int(match["pid"])) != int(match["start"])


def _world() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
