"""One change to a repository of the person's at a time, whoever makes it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ags.errors import AgsError
from ags.runs.lock import flock_in_turn
from ags.workspace.git import Repository
from ags.workspace.tree import closing

PATIENCE = 60.0
"""Seconds; a merge of a large project takes some."""


@asynccontextmanager
async def alone(project: Repository) -> AsyncIterator[None]:
    """While it holds, no other apply or undo is half done there, which would look like changes of
    the person's. The lock is on the git directory itself, and goes with whoever has it."""
    with closing(_opened(project)) as descriptor:
        if not await _is_taken(descriptor):
            cause = "another apply or undo is under way there"
            hint = "wait for its end, then try again"
            raise AgsError("change the project", subject=project.common, cause=cause, hint=hint)
        yield


def _opened(project: Repository) -> int:
    try:
        return os.open(project.common, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("change the project", subject=project.common, cause=cause) from error


async def _is_taken(descriptor: int) -> bool:
    try:
        return await flock_in_turn(descriptor, PATIENCE)
    except OSError:
        return True  # a file system without such locks: as well as can be
