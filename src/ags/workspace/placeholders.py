"""Empty directories put where a protected path is absent, so that a mount can hold the place.

Directories even where a file is expected: git sees no empty directory, neither on the host nor
inside, so nobody commits one, and taking one away can lose nothing.

Taking one away also lifts the mount on it in every sandbox that has one. So all runs on a
workspace share one file: its lock tells whether another run lives, its lines what is to be taken
away by whoever is the last to leave, or the next to come when nobody was left to do it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from ags import records
from ags.errors import AgsError
from ags.workspace.tree import Inode, Owner, acting_as, closing, descend, look, parts, shown


class Placeholders:
    """A run's share in the placeholders of one workspace, from its start to its end."""

    def __init__(self, top: int, state_dir: Path, owner: Owner) -> None:
        """`top` is the workspace; it stays the caller's to close, after us."""
        self._top = top
        self._owner = owner
        self._file = state_dir / _name(Inode.of(os.fstat(top)))
        self._journal: int | None = self._join()

    def make(self, folder: int, path: str) -> os.stat_result | None:
        """An empty directory at `path`, in its parent `folder`; None if the run cannot make one."""
        name = parts(path)[-1]
        mark = secrets.token_hex(8)
        # Before it is made: killed right after, somebody must still know of it.
        self._note(mark, path, None)
        try:
            with acting_as(self._owner):
                os.mkdir(name, 0o755, dir_fd=folder)
        except OSError as error:
            self._note(mark, path, 0)
            if error.errno == errno.EEXIST:
                return look(folder, name)
            if self._out_of_reach(error, folder):
                return None
            raise AgsError(
                "protect a path that is absent",
                subject=shown(path),
                cause=(error.strerror or str(error)).lower(),
                hint="make its folder writable, or list the path in [workspace] unprotect",
            ) from error
        facts = look(folder, name)
        if facts is not None:
            self._note(mark, path, facts.st_ino)
        return facts

    def close(self) -> None:
        """Leave; the last one out takes the placeholders away."""
        if self._journal is None:
            return
        with closing(self._journal) as journal:
            self._journal = None
            if _alone(journal):
                self._sweep(journal)
                self._file.unlink(missing_ok=True)

    def _join(self) -> int:
        records.private_folder(self._file.parent)
        while True:
            journal = os.open(
                self._file,
                os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
            )
            if _alone(journal):
                self._sweep(journal)
            fcntl.flock(journal, fcntl.LOCK_SH)
            # The last one out may have removed the file while we waited for its lock.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(journal), self._file.stat()):
                    return journal
            os.close(journal)

    def _note(self, mark: str, path: str, number: int | None) -> None:
        assert self._journal is not None
        line = json.dumps({"mark": mark, "path": path, "inode": number})
        os.write(self._journal, line.encode() + b"\n")

    def _out_of_reach(self, error: OSError, folder: int) -> bool:
        """Whether the run cannot create anything there: its own folder it could make writable."""
        if error.errno == errno.EROFS:
            return True
        own = os.fstat(folder).st_uid == self._owner.uid
        return isinstance(error, PermissionError) and not own

    def _sweep(self, journal: int) -> None:
        """Only ever called when no run lives."""
        made = {}
        for line in os.pread(journal, os.fstat(journal).st_size, 0).splitlines():
            with suppress(ValueError):  # half a line, when the machine went down
                note = json.loads(line)
                made[note["mark"]] = (note["path"], note["inode"])
        with acting_as(self._owner):
            for path, number in reversed(made.values()):
                if number != 0:
                    self._remove(path, number)
        os.ftruncate(journal, 0)

    def _remove(self, path: str, number: int | None) -> None:
        *leading, name = parts(path)
        with suppress(OSError), closing(descend(self._top, leading)) as folder:
            facts = look(folder, name)
            if facts and stat.S_ISDIR(facts.st_mode) and number in (None, facts.st_ino):
                os.rmdir(name, dir_fd=folder)  # refuses one that has been put to use


def _name(workspace: Inode) -> str:
    return hashlib.sha256(f"{workspace.device}:{workspace.number}".encode()).hexdigest()[:32]


def _alone(journal: int) -> bool:
    try:
        fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
