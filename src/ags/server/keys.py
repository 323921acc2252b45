"""Idempotency keys: the same request sent again begins nothing anew, even after a crash.

`server/keys/<hash of the key>` says which runs a request was about to start, by name and id, from
before the first one is started, and which were. Who works on one holds its lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ags import records
from ags.errors import AgsError, Unfit
from ags.frozen import frozen

KEEP = 24 * 3600.0
"""Seconds a key is remembered."""
KEY = re.compile(r"[!-~]([ -~]{0,198}[!-~])?")
_FILE = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16}\.new)?")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Busy(AgsError):
    """The same request is being answered right now."""

    def __init__(self) -> None:
        super().__init__(
            "start the runs",
            cause="a request with this Idempotency-Key is under way",
            hint="send it again in a moment: the answer will be the same",
        )


@frozen
class Named:
    """One run. Its name may be another's by the time it is looked for; its id never is."""

    name: str
    id: str


@frozen
class Record:
    body: str
    """The hash of the request."""
    names: tuple[str, ...]
    at: float
    begun: tuple[Named, ...] = ()
    chosen: tuple[Named, ...] = ()
    """All, as they were to be. An older version wrote the names alone: of those nothing is known
    that is not in `begun`."""


class Key:
    """One key that nobody else works on. `record` is None as long as nothing was begun by it."""

    def __init__(self, path: Path, body: str) -> None:
        self._path = path
        self._body = body
        self._lock: int | None = None
        self.record: Record | None = None

    def take(self) -> None:
        while (lock := _open(self._path)) is not None:
            self._hold(lock)
            # Replaced or swept between the look and the lock: then look again.
            if _is_at(lock, self._path):
                self.record = self._known()
                return
            self.release()

    def keep(self, chosen: tuple[Named, ...]) -> Record:
        """From here on the same request means these runs, whatever it meant before."""
        names = tuple(each.name for each in chosen)
        if self.record is not None:
            return self._write(replace(self.record, names=names, chosen=chosen), first=False)
        _make(self._path.parent)
        _sweep(self._path.parent)
        return self._write(Record(self._body, names, time.time(), chosen=chosen), first=True)

    def note(self, run: Named) -> None:
        assert self.record is not None
        self._write(replace(self.record, begun=(*self.record.begun, run)), first=False)

    def drop(self) -> None:
        """From here on the same request is a new one."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        self.record = None
        self.release()

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            # Not by closing alone: a child that is just being started may have a copy.
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def _known(self) -> Record | None:
        try:
            record = records.decode(Record, records.read_file(self._path)[0])
        except (OSError, ValueError) as error:
            hint = "use another key, or remove that file"
            cause = "what is known of this key cannot be read"
            raise AgsError("start the runs", subject=self._path, cause=cause, hint=hint) from error
        # Of the future: the clock was set back, and the request may be the same all the same.
        if time.time() - record.at > KEEP:
            self._path.unlink(missing_ok=True)
            self.release()
            return None
        if record.body != self._body:
            raise Unfit(
                "start the runs",
                cause="this Idempotency-Key came with another request before",
                hint="each request has a key of its own",
            )
        return record

    def _hold(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise Busy from None
        self._lock = lock

    def _write(self, record: Record, *, first: bool) -> Record:
        """It has its name only once it is whole and locked."""
        new = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            lock = os.open(new, flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with open(lock, "wb", closefd=False) as file:
                    file.write(records.encode(record))
                os.fsync(lock)
                _named(new, self._path, first=first)
            except BaseException:
                os.close(lock)
                raise
            records.sync_directory(self._path.parent)
        except OSError as error:
            raise records.write_error("start the runs", self._path, error) from error
        finally:
            new.unlink(missing_ok=True)
        self.release()
        self._lock, self.record = lock, record
        return record


@contextlib.contextmanager
def opened(ags_home: Path, key: str | None, body: str) -> Iterator[Key | None]:
    """The key for as long as its request is worked on; None where there is none."""
    if key is None:
        yield None
        return
    if not KEY.fullmatch(key):
        cause = "an Idempotency-Key is 1 to 200 printable ASCII characters"
        raise Unfit("start the runs", cause=cause)
    hashed = hashlib.sha256(key.encode()).hexdigest()
    held = Key(ags_home / "server" / "keys" / hashed, body)
    try:
        held.take()
        yield held
    finally:
        held.release()


def _make(folder: Path) -> None:
    try:
        records.private_folder(folder)
    except OSError as error:
        raise records.write_error("start the runs", folder, error) from error


def _open(path: Path) -> int | None:
    try:
        return os.open(path, _READ)
    except FileNotFoundError:
        return None


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _named(new: Path, path: Path, *, first: bool) -> None:
    if not first:
        os.rename(new, path)
        return
    try:
        os.link(new, path, follow_symlinks=False)
    except FileExistsError:
        raise Busy from None


def _sweep(folder: Path) -> None:
    """Forget what is older than a day, and what a killed server left half written."""
    oldest = time.time() - KEEP
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _FILE.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)
