"""Who the sandbox runs as."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from ags.model import Identity

STAND_IN = 1000
"""The ordinary id that root's own files appear under inside, where nobody is root."""


def resolve(owner: os.stat_result, home: Path) -> Identity:
    """The person; started as root, the owner of the workspace; never root inside.

    `owner` are the facts of the very folder that will be mounted, looked at once: its owner could
    put another one in its place between two looks.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0:
        return Identity(uid, gid, _name(uid), home, uid, gid)
    if owner.st_uid == 0:
        return Identity(STAND_IN, STAND_IN, "agent", home, 0, 0)
    return Identity(
        owner.st_uid,
        _group(owner),
        _name(owner.st_uid),
        _home(owner.st_uid),
        owner.st_uid,
        _group(owner),
    )


def _group(owner: os.stat_result) -> int:
    """The owner's own group: the folder's may be one that the owner is not in, or root's."""
    try:
        return pwd.getpwuid(owner.st_uid).pw_gid
    except KeyError:
        return owner.st_gid or owner.st_uid


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "agent"


def _home(uid: int) -> Path:
    try:
        return Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        return Path("/home/agent")
