"""The real file: read when it has changed, renewed by one at a time, replaced whole.

Between the endpoint's answer and the rename lies the one moment in which a crash loses a log-in:
the old refresh token is spent and the new one is nowhere yet. All that can fail is done before
the request leaves, so what is left is one write to a file that is open and has its room.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

from ags import records
from ags.errors import AgsError
from ags.frozen import frozen
from ags.logins import document
from ags.logins.base import Account, Form, Held
from ags.logins.grant import Given
from ags.secrets import Secret

WHAT = "renew the log-in"
PATIENCE = 60.0
"""Seconds to wait for whoever renews it already."""
STALE = 10.0
"""Seconds after which an agent's own lock counts as left behind, as agents themselves have it."""
PAUSE = 0.05
ENOUGH = 60.0
"""Seconds that a token must still be good for to be given in place of a new one."""
QUIET = 30.0
"""Seconds after a renewal in which no other is asked for."""
ROOM = 64 << 10

Ask = Callable[[Secret], Awaitable[Given]]
"""Has the endpoint renew this refresh token."""


@frozen
class Renewed:
    """The log-in as it is in the file by now, and what the endpoint said beside; None if it was
    not asked."""

    held: Held
    given: Given | None = None


class Broker:
    """One log-in file. It is outside; nothing of the run can reach it."""

    def __init__(self, form: Form, path: Path, *, shared: bool) -> None:
        """`shared` with the person's own agent, which may renew it at any time as well."""
        self.form = form
        # The file, not the link to it, is what gets replaced.
        self.path = Path(os.path.realpath(path)) if shared else path
        self._shared = shared
        self._seen: tuple[int, ...] = ()
        self._logins: tuple[Held, ...] = ()

    def current(self) -> tuple[Held, ...]:
        """The log-ins now; none if the file is gone. While it is being written, those before."""
        try:
            facts = os.lstat(self.path)
        except FileNotFoundError:
            self._seen, self._logins = (), ()
            return ()
        except OSError:
            return self._logins
        if _mark(facts) != self._seen:
            with contextlib.suppress(AgsError):
                self.read()
        return self._logins

    def held(self, account: Account) -> Held | None:
        return next((each for each in self.current() if each.account == account), None)

    def read(self) -> bytes:
        """All of the file; an error if that is no log-in."""
        try:
            data, facts = _read_private(self.path)
            logins = document.read(self.form, data)
        except document.BadFile as bad:
            cause = str(bad)
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
        else:
            self._seen, self._logins = _mark(facts), logins
            return data
        hint = f"log in anew, with the agent itself or `ags auth {self.form.agent}`"
        raise AgsError("read the log-in", subject=self.path, cause=cause, hint=hint)

    async def renew(self, account: Account, stale: Callable[[Held], bool], ask: Ask) -> Renewed:
        """`stale` tells of what is in the file whether it is what the agent has already."""
        async with self._only_one():
            data = self.read()
            held = self._of(account)
            refresh = held.token("refresh")
            if refresh is None or (_good(held) and (not stale(held) or self._quiet())):
                return Renewed(held)
            with self._draft() as draft:
                given = await ask(refresh)
                # From here on nothing waits for anything but the disk.
                kept = self._store(draft, self._latest(data), account, refresh, given)
            return Renewed(self._of(account), given if kept else None)

    def _of(self, account: Account) -> Held:
        for held in self._logins:
            if held.account == account:
                return held
        cause = "the log-in is no longer in the file"
        raise AgsError(WHAT, subject=self.path, cause=cause)

    def _quiet(self) -> bool:
        """It was renewed just now; an agent that asks again and again must not wear it out."""
        with contextlib.suppress(OSError):
            return abs(time.time() - os.lstat(self.path).st_mtime) < QUIET
        return False

    @contextlib.contextmanager
    def _draft(self) -> Iterator[int]:
        """A new file beside the old one, with its owner, its mode and room for its content."""
        place = self._beside("new")
        try:
            facts = os.lstat(self.path)
            # One of somebody who was killed; under the lock it is nobody's.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            draft = os.open(place, flags, 0o600)
        except OSError as error:
            raise records.write_error(WHAT, self.path, error) from error
        try:
            try:
                if (facts.st_uid, facts.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(draft, facts.st_uid, facts.st_gid)
                os.fchmod(draft, stat.S_IMODE(facts.st_mode))
                os.posix_fallocate(draft, 0, facts.st_size + ROOM)
            except OSError as error:
                raise records.write_error(WHAT, self.path, error) from error
            yield draft
        finally:
            os.close(draft)
            with contextlib.suppress(OSError):
                os.unlink(place)

    def _latest(self, before: bytes) -> bytes:
        """What others changed in the file while we waited stays changed; half of it is nothing."""
        with contextlib.suppress(AgsError):
            return self.read()
        return before

    def _store(
        self, draft: int, data: bytes, account: Account, refresh: Secret, given: Given
    ) -> bool:
        """Whether it was ours to store: a log-in of just now is not overwritten."""
        held = next((e for e in document.read(self.form, data) if e.account == account), None)
        if held is None or held.token("refresh") != refresh:
            return False
        made = document.renewed(self.form, data, account, given.tokens, given.expires)
        try:
            os.pwrite(draft, made, 0)
            os.ftruncate(draft, len(made))
            os.fsync(draft)
            os.rename(self._beside("new"), self.path)
            records.sync_directory(self.path.parent)
        except OSError as error:
            raise records.write_error(WHAT, self.path, error) from error
        self.read()
        return True

    def _beside(self, what: str) -> Path:
        return self.path.with_name(f".{self.path.name.lstrip('.')}.ags-{what}")

    @contextlib.asynccontextmanager
    async def _only_one(self) -> AsyncIterator[None]:
        """Of all runs, whichever AGS_HOME they have; and of the person's own agents that lock."""
        try:
            async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(_locked(self._beside("lock")))
                if self._shared and self.form.claims:
                    place = self.path if self.form.claims == "file" else self.path.parent
                    await stack.enter_async_context(_claimed(Path(f"{place}.lock")))
                held = stack.pop_all()
        except TimeoutError as error:
            cause = f"somebody else has been renewing it for {PATIENCE:g} s"
            raise AgsError(WHAT, subject=self.path, cause=cause) from error
        except OSError as error:
            raise records.write_error(WHAT, self.path, error) from error
        async with held:
            yield


@contextlib.asynccontextmanager
async def _locked(place: Path) -> AsyncIterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(place, flags, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(PAUSE)
        yield
    finally:
        os.close(lock)


@contextlib.asynccontextmanager
async def _claimed(place: Path) -> AsyncIterator[None]:
    """As agents written in JavaScript lock: a folder, touched now and then while it is held."""
    while True:
        try:
            os.mkdir(place)
            break
        except FileExistsError:
            with contextlib.suppress(OSError):
                if time.time() - os.lstat(place).st_mtime > STALE:
                    os.rmdir(place)
                    continue
            await asyncio.sleep(PAUSE)
    touching = asyncio.create_task(_touched(place))
    try:
        yield
    finally:
        touching.cancel()
        with contextlib.suppress(OSError):
            os.rmdir(place)


async def _touched(place: Path) -> None:
    with contextlib.suppress(OSError):
        while True:
            await asyncio.sleep(STALE / 4)
            os.utime(place)


def _read_private(path: Path) -> tuple[bytes, os.stat_result]:
    """Of a plain file that nobody else could have put there."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise document.BadFile("it is not a file")
        if facts.st_uid not in (0, os.geteuid()):
            raise document.BadFile("it belongs to somebody else")
        if facts.st_mode & 0o022:
            raise document.BadFile("others may write to it")
        return file.read(document.MOST + 1), facts


def _mark(facts: os.stat_result) -> tuple[int, ...]:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def _good(held: Held) -> bool:
    return held.expires is None or held.expires - time.time() > ENOUGH
