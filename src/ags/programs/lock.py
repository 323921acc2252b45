"""One installation at a time in a folder, whoever starts it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ags import records

NAME = ".lock"
PAUSE = 0.1


@asynccontextmanager
async def locked(folder: Path, tell: Callable[[str], None]) -> AsyncIterator[int]:
    """Wait as long as it takes: whoever has it is at work, since the kernel frees a dead one's.

    The descriptor is for processes that are started meanwhile, as their standard input: should we
    be killed, the lock is held until they have ended as well.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(folder / NAME, flags, 0o600)
    except OSError as error:
        raise records.write_error("take the lock", folder / NAME, error) from error
    try:
        waiting = False
        while not _taken(descriptor):
            if not waiting:
                tell(f"another ags is installing in {folder}: waiting for it")
            waiting = True
            await asyncio.sleep(PAUSE)
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
