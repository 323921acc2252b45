"""Whether a user could open a path, judged by owner and mode alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def reachable(path: Path, uid: int, gid: int | None = None) -> bool:
    """No capability is assumed: a process in the sandbox has none, even with the host's uid 0."""
    try:
        real = path.resolve(strict=True)
        above = all(_may(parent.stat(), uid, gid, os.X_OK) for parent in real.parents)
        facts = real.stat()
    except OSError:
        return False
    need = os.R_OK | (os.X_OK if stat.S_ISDIR(facts.st_mode) else 0)
    return above and _may(facts, uid, gid, need)


def _may(facts: os.stat_result, uid: int, gid: int | None, need: int) -> bool:
    if facts.st_uid == uid:
        granted = facts.st_mode >> 6
    elif facts.st_gid == gid:
        granted = facts.st_mode >> 3
    else:
        granted = facts.st_mode
    return granted & need == need
