"""Who may ask: the person's own token, and sessions that a log-in code was exchanged for.

All of it is files in `AGS_HOME/server`, named by hashes: it outlives a restart, several servers may
share it, and what is taken away holds at once. A code is taken by removing its file, which only one
can. Codes and tokens have 256 bits: nobody guesses them, so wrong ones lock nobody out.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

from ags import records
from ags.errors import AgsError
from ags.frozen import frozen

Who = Literal["person", "session"]

CODE_LIFE = 600.0
SESSION_LIFE = 30 * 86400.0
"""Seconds without use."""
USE_WRITTEN = 60.0
"""How exactly the last use is known; each request writing would be too much."""
MOST_TOKEN = 200
"""Characters; ours have 43."""
LASTING = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EACCES}
"""What says that there is no such file, or none that is to be trusted."""


class Unsure(AgsError):
    """Whether a token is good cannot be told now: that logs nobody out."""


@frozen
class Session:
    """One browser, or whatever else logged in."""

    created: float
    used: float
    """Kept as the time of its file: to set that brings back none that was ended."""


@frozen
class Code:
    """Good until then, once."""

    expires: float


class Keys:
    """The tokens of one AGS_HOME."""

    def __init__(self, ags_home: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder = ags_home / "server"
        self._clock = clock
        self._endings: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        """For as long as somebody waits for them, by the token's hash."""
        _private_folders(ags_home, self.folder, self._sessions, self._codes)
        self.master()

    @property
    def _sessions(self) -> Path:
        return self.folder / "sessions"

    @property
    def _codes(self) -> Path:
        return self.folder / "codes"

    def master(self) -> str:
        """The person's own token, made on first use."""
        path = self.folder / "token"
        if not path.exists():
            _make_once(path, secrets.token_urlsafe(32))
        return self._read_master(path)

    def _read_master(self, path: Path) -> str:
        try:
            data, facts = _read(path)
        except (OSError, ValueError) as error:
            cause, hint = str(error), "remove that file: a new one is made"
            raise AgsError(
                "read the server's token", subject=path, cause=cause, hint=hint
            ) from error
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise AgsError(
                "use the server's token",
                subject=path,
                cause="others may have read it",
                hint="remove that file: a new one is made",
            )
        token = data.decode(errors="replace").strip()
        if len(token) < 32:
            cause, hint = "it is too short", "remove that file: a new one is made"
            raise AgsError("use the server's token", subject=path, cause=cause, hint=hint)
        return token

    def new_code(self) -> str:
        """To log in with, once and soon."""
        self._forget_old_codes()
        code = secrets.token_urlsafe(32)
        record = records.encode(Code(self._clock() + CODE_LIFE))
        records.replace_file(self._codes / _digest(code), record)
        return code

    def session_for(self, code: str) -> str | None:
        """A new session's token; None if the code is not good, be it wrong, old or used."""
        now = self._clock()
        path = self._codes / _digest(code)
        try:
            is_good = records.decode(Code, _read(path)[0]).expires >= now
        except (OSError, ValueError):
            is_good = False
        if not is_good:
            return None
        self._forget_unused_sessions()
        # The session first: a full disk must not cost the code.
        token = secrets.token_urlsafe(32)
        session = self._sessions / _digest(token)
        records.replace_file(session, records.encode(Session(now, now)))
        self._note_use(session.name)
        try:
            path.unlink()
        except FileNotFoundError:  # somebody else was quicker
            session.unlink()
            return None
        return token

    def who(self, token: str) -> Who | None:
        """Whose token it is. Only hashes are compared, so time tells nothing of the token."""
        if not token or len(token) > MOST_TOKEN:
            return None
        digest = _digest(token)
        if self._is_master(digest):
            return "person"
        session = self._session(digest)
        if session is None:
            return None
        if session.used < self._clock() - SESSION_LIFE:
            self.end(digest)
            return None
        if session.used < self._clock() - USE_WRITTEN:
            self._note_use(digest)
        return "session"

    async def until_ended(self, token: str, beat: float) -> None:
        """Until it is good no more: at once if ended here, within a beat if by another process."""
        ending = self._endings.setdefault(_digest(token), asyncio.Event())
        while self._may_be_good(token) and not ending.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(beat):
                    await ending.wait()

    def _may_be_good(self, token: str) -> bool:
        try:
            return self.who(token) is not None
        except Unsure:
            return True

    def end_session(self, token: str) -> None:
        self.end(_digest(token))

    def end(self, digest: str) -> None:
        """The session of that name, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            (self._sessions / digest).unlink()
        if (ending := self._endings.get(digest)) is not None:
            ending.set()

    def sessions(self) -> Iterator[tuple[str, Session]]:
        for path in sorted(self._sessions.iterdir()):
            if (session := self._session(path.name)) is not None:
                yield path.name, session

    def _is_master(self, digest: str) -> bool:
        """Read each time: once its file is removed or replaced, the old one is nobody's."""
        try:
            return hmac.compare_digest(digest, _digest(self._read_master(self.folder / "token")))
        except Unsure:
            raise
        except AgsError:
            return False

    def _session(self, digest: str) -> Session | None:
        try:
            data, facts = _read(self._sessions / digest)
            return Session(records.decode(Session, data).created, facts.st_mtime)
        except (OSError, ValueError):
            return None

    def _note_use(self, digest: str) -> None:
        with contextlib.suppress(OSError):  # ended meanwhile, or a disk that takes nothing
            os.utime(self._sessions / digest, (self._clock(),) * 2, follow_symlinks=False)

    def _forget_unused_sessions(self) -> None:
        for digest, session in self.sessions():
            if session.used < self._clock() - SESSION_LIFE:
                self.end(digest)

    def _forget_old_codes(self) -> None:
        for path in self._codes.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < self._clock() - CODE_LIFE:
                    path.unlink()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    try:
        return records.read_file(path)
    except OSError as error:
        if error.errno in LASTING:
            raise
        cause, hint = (error.strerror or str(error)).lower(), "try again in a moment"
        raise Unsure("look up the token", cause=cause, hint=hint) from error


def _private_folders(*folders: Path) -> None:
    for folder in folders:
        try:
            records.private_folder(folder)
        except OSError as error:
            raise records.write_error("make the server's folder", folder, error) from error


def _make_once(path: Path, text: str) -> None:
    """Whoever is first makes it; all others find that one, whole."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    records.replace_file(new, text.encode() + b"\n")
    try:
        os.link(new, path)
    except FileExistsError:
        return
    finally:
        new.unlink()
