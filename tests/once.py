"""What is fetched once, for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DONE = "done"


@contextmanager
def once(name: str, fill: Callable[[Path], None], mode: int = 0o700) -> Iterator[Path]:
    """A folder that the first worker fills, and the last one out removes."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    place = Path(f"/tmp/ags-{name}-{run}")
    using = _enter(place)
    try:
        os.fchmod(using, mode)
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / DONE).exists():
                fill(place)
                (place / DONE).touch()
        yield place
        _leave(place, using)
    finally:
        os.close(using)


def _enter(place: Path) -> int:
    """Held, so that nobody removes it; anew if somebody just has."""
    while True:
        with suppress(FileNotFoundError, FileExistsError):
            place.mkdir(exist_ok=True)
            using = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(using, fcntl.LOCK_SH)
            if os.fstat(using).st_nlink:
                return using
            os.close(using)


def _leave(place: Path, using: int) -> None:
    try:
        fcntl.flock(using, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    removed(place)


def removed(place: Path) -> None:
    """By rm, which takes some 60 % of the processor time of shutil: environments are large."""
    subprocess.run(("rm", "-rf", "--", place), check=True)
