"""Files of the person's that git does not track, such as `.env`, brought into a run's workspace."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ags.errors import AgsError
from ags.model import MIB
from ags.workspace.tree import Owner, acting_as, closing, descend, look, open_top

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def bring(
    paths: Iterable[PurePosixPath], *, source: Path, target: Path, exclude: Path, owner: Owner
) -> tuple[PurePosixPath, ...]:
    """Copy each to the same place in the workspace; returns those that are not there to copy.

    They are named in the run's own `exclude` file: what git was not told of is not the agent's
    work, and may be a secret that no branch shall hold.
    """
    missing = []
    with acting_as(owner), exclude.open("ab") as excluded:
        for path in paths:
            if not _brought(path, source, target):
                missing.append(path)
            excluded.write(b"\n/" + _escaped(path) + b"\n")
    return tuple(missing)


def _escaped(path: PurePosixPath) -> bytes:
    special = b"\\*?[]! #"
    return b"".join(b"\\%c" % byte if byte in special else b"%c" % byte for byte in bytes(path))


def _brought(path: PurePosixPath, source: Path, target: Path) -> bool:
    *parents, name = path.parts
    try:
        with (
            closing(open_top(source.resolve())) as top,
            closing(descend(top, parents)) as here,
            closing(open_top(target)) as workspace,
            closing(made(workspace, parents)) as there,
        ):
            return _copied(here, there, name)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise AgsError("copy into the workspace", subject=path, cause=cause) from error


def made(top: int, parents: Iterable[str]) -> int:
    """The folder below `top`, made where it is missing."""
    here = os.dup(top)
    for name in parents:
        with closing(here):
            if look(here, name) is None:
                os.mkdir(name, dir_fd=here)
            here = descend(here, (name,))
    return here


def _copied(here: int, there: int, name: str) -> bool:
    """Whether it was something that can be copied."""
    facts = look(here, name)
    if facts is None:
        return False
    if stat.S_ISLNK(facts.st_mode):
        os.symlink(os.readlink(name, dir_fd=here), name, dir_fd=there)
    elif stat.S_ISDIR(facts.st_mode):
        _copy_folder(here, there, name)
    elif stat.S_ISREG(facts.st_mode):
        _copy_file(here, there, name)
    else:
        return False  # a socket or a pipe is of no use elsewhere
    return True


def _copy_folder(here: int, there: int, name: str) -> None:
    with (
        closing(descend(here, (name,))) as inner,
        closing(made(there, (name,))) as copy,
        closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=inner)) as listed,
    ):
        for each in os.listdir(listed):
            _copied(inner, copy, each)


def _copy_file(here: int, there: int, name: str) -> None:
    with open(os.open(name, _FILE, dir_fd=here), "rb") as reader:
        facts = os.fstat(reader.fileno())
        mode = stat.S_IMODE(facts.st_mode) & 0o777
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, mode, dir_fd=there), "wb") as writer:
            while piece := reader.read(MIB):
                writer.write(piece)
            os.fchmod(writer.fileno(), mode)
