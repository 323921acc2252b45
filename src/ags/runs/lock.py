"""The lock that tells whether anybody tends a run, and makes its holder the one who writes.

The lock belongs to an open descriptor. It can be handed to another process (`Held.descriptor`, then
`Held.adopt` there) and stays taken until every copy is closed, by whatever end.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ags import records
from ags.errors import AgsError, Missing
from ags.model import KIB
from ags.runs.files import load
from ags.runs.record import Run, check_step

RESERVE, RESERVED = "reserve", 64 * KIB
"""Room for the last word on a run: it may be that the run has filled the disk."""


class Held:
    """A run whose lock is ours: the one way to change a record."""

    def __init__(self, run_dir: Path, descriptor: int) -> None:
        self.run_dir = run_dir
        self.descriptor = descriptor
        self.run = load(run_dir)

    @classmethod
    def adopt(cls, run_dir: Path, descriptor: int) -> Self:
        """In the process that was given the descriptor."""
        os.set_inheritable(descriptor, False)
        if not os.path.samestat(os.fstat(descriptor), os.stat(run_dir / "lock")):
            cause = "the descriptor is not of its lock"
            raise AgsError("take over the run", subject=run_dir.name, cause=cause)
        if not flock(descriptor, 0):
            cause = "another process holds its lock"
            raise AgsError("take over the run", subject=run_dir.name, cause=cause)
        return cls(run_dir, descriptor)

    def save(self, run: Run) -> Run:
        """Written whole or not at all; the disk has it when this returns."""
        if run.id != self.run.id or run.name != self.run.name:
            cause = f"its record is of {run.name} ({run.id})"
            raise AgsError("write the record of a run", subject=self.run.id, cause=cause)
        if run.state != self.run.state:
            check_step(run.id, self.run.state, run.state)
        if run.state == "queued" != self.run.state:
            make_reserve(self.run_dir)
        elif run.is_final:
            (self.run_dir / RESERVE).unlink(missing_ok=True)
        records.replace_file(self.run_dir / "run.json", records.encode(run))
        self.run = run
        return run

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def hold(run_dir: Path, patience: float = 0.5) -> Held:
    """Take the lock of a run that nobody tends."""
    descriptor = open_lock(run_dir)
    is_free = flock(descriptor, patience)
    if not run_dir.is_dir():
        os.close(descriptor)
        raise _gone(run_dir)  # while we waited
    if not is_free:
        os.close(descriptor)
        run = load(run_dir)
        who = run.supervisor
        cause = f"it is at work (process {who.pid})" if who else "it is at work"
        hint = f"stop it first: `ags stop {run.name}`"
        raise AgsError("take the run's lock", subject=run.name, cause=cause, hint=hint)
    return keep(run_dir, descriptor)


def is_alive(run_dir: Path) -> bool:
    """Whether somebody tends it. Never by a pid, which may be another's by now."""
    try:
        descriptor = os.open(run_dir / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: any number may ask at once without seeing each other.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def keep(run_dir: Path, descriptor: int) -> Held:
    try:
        return Held(run_dir, descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def make_reserve(run_dir: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(run_dir / RESERVE, flags, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, RESERVED)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise records.write_error("make room for the run", run_dir / RESERVE, error) from error


def open_lock(run_dir: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(run_dir / "lock", flags, 0o600)
    except FileNotFoundError as error:
        raise _gone(run_dir) from error
    except OSError as error:
        raise records.write_error("open the run's lock", run_dir / "lock", error) from error


def _gone(run_dir: Path) -> Missing:
    """Somebody else has removed it since it was found."""
    cause, hint = "there is no run of this name", "see `ags list`"
    return Missing("find the run", subject=run_dir.name, cause=cause, hint=hint)


def flock(descriptor: int, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)


async def flock_in_turn(descriptor: int, patience: float) -> bool:
    """The same for who has others to serve meanwhile."""
    import asyncio  # not for those who only look

    deadline = time.monotonic() + patience
    while not flock(descriptor, 0):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(0.02)
    return True
