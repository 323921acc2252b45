"""Which directory a run works on."""

from __future__ import annotations

import stat
from pathlib import Path

from ags.errors import AgsError


def find_root(cwd: Path, uid: int, stop_at: frozenset[Path] = frozenset()) -> Path:
    """The nearest enclosing repository that the person, or whoever owns `cwd`, made; else `cwd`.

    Like git it stays on one file system. Somebody else's `.git` further up, as anybody may put
    one in /tmp, ends the search: it must not widen what a run can write to.
    """
    try:
        start = cwd.resolve(strict=True)
        here = start.stat()
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("use the current directory", subject=cwd, cause=cause) from error
    for folder in (start, *start.parents):
        if folder in stop_at or folder.stat().st_dev != here.st_dev:
            break
        if (maker := _maker(folder)) is not None:
            trusted = maker in (uid, here.st_uid) and maker == folder.stat().st_uid
            return folder if trusted else start
    return start


def _maker(folder: Path) -> int | None:
    """Who made the `.git` that is there, if one is."""
    try:
        facts = (folder / ".git").lstat()
    except OSError:
        return None
    is_mark = stat.S_IFMT(facts.st_mode) in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK)
    return facts.st_uid if is_mark else None
