"""Which places may be deleted with all that is below them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase

from ags.hooks.expand import WILD, as_text, is_known
from ags.hooks.model import Ground

CACHES = (".cache", ".npm", ".cargo/registry", ".gradle/caches")
"""In the home: what tools make again."""


def places(path: str, cwds: frozenset[str | None]) -> Iterator[str | None]:
    """Where it may lead; None where that cannot be known."""
    for cwd in cwds:
        if not is_known(path) or (cwd is None and not path.startswith("/")):
            yield None
        else:
            yield "/" + posixpath.normpath(posixpath.join(cwd or "/", path)).lstrip("/")


def below(path: str, folder: str) -> bool:
    """It, or in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def why_not_delete(path: str, cwds: frozenset[str | None], ground: Ground) -> str:
    """Empty if it may go with all that is below."""
    for place in places(path, cwds):
        if place is None:
            return "it cannot be seen what it deletes: write the path out"
        if why := _why_not(place, ground):
            return why
    return ""


def _why_not(place: str, ground: Ground) -> str:
    whole = place
    while set(posixpath.basename(whole)) <= {WILD, "."} and whole != "/":
        whole = posixpath.dirname(whole)
    for folder in (ground.workspace, *ground.writable):
        if below(folder, whole):
            return f"it deletes all of {as_text(folder)}, or more"
        if below(place, folder):
            inside = place[len(folder) :].split("/")
            return "it deletes the repository itself" if any(map(_is_git, inside)) else ""
    caches = (posixpath.join(ground.home, name) for name in CACHES)
    if any(below(whole, folder) for folder in (*ground.scratch, *caches)):
        return ""
    return f"{as_text(place)} is outside the workspace"


def _is_git(name: str) -> bool:
    return name == ".git" or (name.startswith(".") and fnmatchcase(".git", as_text(name)))
