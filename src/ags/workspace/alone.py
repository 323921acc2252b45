"""One change to a repository of the person's at a time, whoever makes it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ags.errors import AgsError
from ags.runs.lock import flock
from ags.workspace.git import Repository
from ags.workspace.tree import closing

PATIENCE = 60.0
"""Seconds; a merge of a large project takes some."""
PAUSE = 0.05


@asynccontextmanager
async def alone(project: Repository) -> AsyncIterator[None]:
    """While it holds, no other apply or undo is half done there, which would look like changes of
    the person's. The lock is on the git directory itself, and goes with whoever has it."""
    with closing(_opened(project)) as descriptor:
        until = time.monotonic() + PATIENCE
        while not _is_taken(descriptor):
            if time.monotonic() > until:
                cause = "another apply or undo is under way there"
                hint = "wait for its end, then try again"
                raise AgsError("change the project", subject=project.common, cause=cause, hint=hint)
            await asyncio.sleep(PAUSE)
        yield


def _opened(project: Repository) -> int:
    try:
        return os.open(project.common, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("change the project", subject=project.common, cause=cause) from error


def _is_taken(descriptor: int) -> bool:
    try:
        return flock(descriptor, patience=0)
    except OSError:
        return True  # a file system without such locks: as well as can be
