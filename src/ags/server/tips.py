"""Where a run of a project begins if nobody says otherwise: asked of git, and only when needed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import TypeAlias

from ags import projects
from ags.errors import AgsError
from ags.projects import Project

Mark: TypeAlias = tuple[int, str]
"""Of what git was asked about: another one means to ask again."""


class Tips:
    """A list has many projects, and a board looks at them again and again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Mark, str]] = {}

    def told(self, id_: str) -> str:
        """What git said last, without asking."""
        return self._known[id_][1] if id_ in self._known else ""

    def is_old(self, project: Project) -> bool:
        return project.id not in self._known or self._known[project.id][0] != _mark(project)

    async def of(self, project: Project) -> str:
        mark = _mark(project)
        if not mark[0] or self.is_old(project):
            head = ""
            with contextlib.suppress(AgsError, OSError):
                head = await projects.head(project)
            self._known[project.id] = (mark, head)
        return self.told(project.id)

    def keep(self, ids: Collection[str]) -> None:
        """Forget all others."""
        self._known = {id_: known for id_, known in self._known.items() if id_ in ids}


def _mark(project: Project) -> Mark:
    return _stamp(project.folder), project.state


def _stamp(folder: Path) -> int:
    """Zero where that cannot be told."""
    for file in (folder / "HEAD", folder / ".git/HEAD"):
        with contextlib.suppress(OSError):
            return os.lstat(file).st_mtime_ns
    return 0
