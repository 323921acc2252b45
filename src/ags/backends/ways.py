"""Looks, before a sandbox is built, at the way to every mount: no link may lead one astray.

bwrap follows links when it makes what it mounts on, and it does so where the whole host is still
below `/oldroot`: it would make, or overwrite, a file of the person's. The look at the finished
walls ends such a start too, but only after that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from ags.errors import AgsError
from ags.model import Bind, Directory, Link, MountStep, ReadOnly, Text


def check(mounts: Sequence[MountStep]) -> None:
    """Raises at a link in a folder of the host's, where something is to be made or mounted.

    Whoever wrote to that folder may have put it there, such as an agent in its home.
    """
    standing: dict[str, int] = {}
    for number, step in enumerate(mounts):
        found = [standing[each] for each in _upwards(str(step.target)) if each in standing]
        # The latest one is seen there: it covers what was mounted below it before.
        ground = mounts[max(found)] if found else None
        if isinstance(ground, Bind):
            _check_way(ground.source, step.target.relative_to(ground.target))
        if not isinstance(step, Directory | Text | Link | ReadOnly):
            standing[str(step.target)] = number


def _upwards(path: str) -> Iterator[str]:
    """A path, then every folder above it."""
    yield path
    while (above := os.path.dirname(path)) != path:
        yield (path := above)


def _check_way(place: Path, way: PurePosixPath) -> None:
    for name in way.parts:
        place /= name
        try:
            mode = os.lstat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return  # from here on nothing is there to be followed
        except OSError as error:
            raise _astray(place, (error.strerror or str(error)).lower()) from error
        if stat.S_ISLNK(mode):
            raise _astray(place, "there is a link where something is to be mounted")


def _astray(place: Path, cause: str) -> AgsError:
    return AgsError(
        "start the sandbox",
        subject=place,
        cause=cause,
        hint="nothing was run; look who put it there, an agent perhaps, and take it away",
        exit_code=125,
    )
