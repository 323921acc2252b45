"""What a repository brings for agents (settings, hooks, plugins, servers), once the person saw it.

An approval is bound to the client, the project, and each file's path and content: a byte that
changes ends it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ags import records
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import MIB

FILE = "trust.json"
MOST_FILES = 2000
DEEPEST = 100
LARGEST = 16 * MIB
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@frozen
class Supplied:
    """What was found in a repository: files by their paths, and what is in each."""

    files: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


def supplied(root: Path, wanted: Iterable[str], folder: str = ".") -> Supplied:
    """Those of the wanted paths that are there, in every folder from the root to `folder`."""
    paths = sorted(_present(root, wanted, folder))
    files = tuple(dict.fromkeys(file for path in paths for file in _files(root, path, set())))
    return Supplied(files, tuple(_digest(root, file) for file in files))


def _digest(root: Path, file: str) -> str:
    name = os.fsencode(file)
    return hashlib.sha256(b"%d %s%s" % (len(name), name, _content(root, file))).hexdigest()


def approved(ags_home: Path, client: str, project: Path, found: Supplied) -> bool:
    """Whether the person has approved just this. What is not there needs no approval."""
    return set(found.digests) <= set(_read(ags_home).get(_key(client, project), []))


def approve(ags_home: Path, client: str, project: Path, found: Supplied) -> None:
    known = _read(ags_home)
    key = _key(client, project)
    known[key] = sorted({*known.get(key, []), *found.digests})
    records.replace_file(ags_home / FILE, json.dumps(known, indent=1).encode())


def forget(ags_home: Path, client: str, project: Path) -> bool:
    """Whether there was an approval to take back."""
    known = _read(ags_home)
    if known.pop(_key(client, project), None) is None:
        return False
    records.replace_file(ags_home / FILE, json.dumps(known, indent=1).encode())
    return True


def _key(client: str, project: Path) -> str:
    return f"{client}:{project}"


def _read(ags_home: Path) -> dict[str, list[str]]:
    path = ags_home / FILE
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        cause = f"it cannot be read: {error}"
        raise AgsError("see what you approved", subject=path, cause=cause) from error
    if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
        raise AgsError("see what you approved", subject=path, cause="it is not what AGS wrote")
    return found


def _present(root: Path, wanted: Iterable[str], folder: str) -> Iterator[str]:
    steps = [part for part in Path(folder).parts if part != "."]
    levels = ["/".join(steps[:count]) for count in range(len(steps) + 1)]
    for level in levels:
        for name in wanted:
            path = f"{level}/{name}" if level else name
            if os.path.lexists(root / path):
                yield path


def _files(root: Path, path: str, seen: set[str]) -> Iterator[str]:
    """All below it. A link counts by what it says, together with what it leads to in here."""
    place = root / path
    if place.is_symlink():
        yield path
        yield from _led_to(root, path, seen)
    elif not place.is_dir():
        yield path
    elif path not in seen:
        seen.add(path)
        for name in _listed(place, path, len(seen)):
            yield from _files(root, f"{path}/{name}", seen)


def _led_to(root: Path, path: str, seen: set[str]) -> Iterator[str]:
    top, real = root.resolve(), Path(os.path.realpath(root / path))
    if top.is_relative_to(real) or real.is_relative_to(top / ".git"):
        cause = "it leads to the repository itself"
        raise AgsError("look at what the repository brings", subject=root / path, cause=cause)
    # What lies elsewhere is not the repository's, or is not there inside.
    if real.is_relative_to(top) and os.path.lexists(real) and not real.is_symlink():
        yield from _files(root, str(real.relative_to(top)), seen)


def _listed(folder: Path, path: str, folders: int) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    if max(folders, len(names)) > MOST_FILES or path.count("/") > DEEPEST:
        raise AgsError("look at what the repository brings", subject=folder, cause="too much")
    return sorted(names)


def _content(root: Path, file: str) -> bytes:
    place = root / file
    facts = os.lstat(place)
    if stat.S_ISLNK(facts.st_mode):
        return b"link " + os.fsencode(os.readlink(place))
    if not stat.S_ISREG(facts.st_mode):
        return b"special"
    if facts.st_size > LARGEST:
        raise AgsError("look at what the repository brings", subject=place, cause="it is too large")
    with open(os.open(place, _READ), "rb") as reader:
        return b"file " + hashlib.sha256(reader.read()).digest()
