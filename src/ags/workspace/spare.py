"""A checkout of a project that is kept ready, so that a run need not wait for one.

Taking it is a rename, and takes the same time however large the project is. The next one is made
while the agent is at work. Nothing an agent could touch ever comes back here.

Not an overlay over one shared checkout, which would be as quick: there no folder of the project
can be renamed (`git mv` ends with "Invalid cross-device link"), reading many files takes half as
long again, and each new commit would need a whole checkout before its first run.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import GIB
from ags.proc import ProcessError
from ags.workspace import git, private, separate
from ags.workspace.git import Repository
from ags.workspace.private import Private
from ags.workspace.tree import closing

READY = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})-[0-9a-f]{8}")
ROOM = 4 * GIB
"""With less than this left on the disk, nothing is kept ready."""


@frozen
class _Spare:
    folder: Path
    commit: str
    made: float


async def create(
    building: Coroutine[object, object, Private],
    project: Repository,
    *,
    name: str,
    base: str,
    worktrees: Path,
    spares: Path,
) -> Private:
    """As `separate.create_beside`; at once if a checkout is ready, be it of another commit."""
    if not _ready(spares / _key(project)):
        return await separate.create_beside(
            building, project, name=name, base=base, worktrees=worktrees
        )
    made = await building
    if not await _take(project, base, spares, worktrees, name, made.git_dir):
        await separate.create(
            project, name=name, base=base, worktrees=worktrees, git_dir=made.git_dir
        )
    return made


async def prepare(project: Repository, *, base: str, spares: Path, count: int = 1) -> int:
    """Make what is missing until `count` are ready; how many were made.

    For the time when the agent is at work. Whoever else is at it already is left alone.
    """
    place = spares / _key(project)
    try:
        # When root works for another, that one's git must get here.
        place.mkdir(mode=0o711, parents=True, exist_ok=True)
    except OSError as error:
        raise _failed(place, error) from error
    made = 0
    with _alone(place) as alone:
        if not alone:
            return 0
        _sweep(place)
        while len(_ready(place)) < count and shutil.disk_usage(place).free > ROOM:
            await _make(project, base, place)
            made += 1
    return made


def forget(spares: Path, *, keep: int = 0) -> None:
    """Remove what is ready, but for the `keep` projects that were last given one."""
    places = sorted(_folders(spares), key=lambda place: place.stat().st_mtime, reverse=True)
    for place in [each for each in places if _ready(each)][keep:]:
        with _alone(place) as alone:
            if alone:
                _sweep(place)
                for spare in _ready(place):
                    separate.remove_folder(place, spare.folder.name)


def _key(project: Repository) -> str:
    """Of one project, and of one way to check it out: settings decide what a file looks like."""
    said = [
        os.fsencode(project.common),
        os.fsencode(project.git_dir),
        repr((project.owner, project.settings)).encode(errors="surrogateescape"),
        private.content(project.common, "info/attributes"),
        private.content(project.git_dir, "info/sparse-checkout"),
    ]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:32]


def _claim(project: Repository, base: str, spares: Path, here: Path) -> _Spare | None:
    """Whoever renames it has it. In the run's own folder, it is gone with the run."""
    for spare in sorted(
        _ready(spares / _key(project)), key=lambda each: (each.commit != base, -each.made)
    ):
        try:
            os.rename(spare.folder, here)
        except OSError:  # it is another's now, or on another file system
            continue
        return replace(spare, folder=here)
    return None


async def _take(
    project: Repository, base: str, spares: Path, worktrees: Path, name: str, git_dir: Path
) -> bool:
    spare = _claim(project, base, spares, git_dir.with_name("spare"))
    if spare is None:
        return False
    try:
        return await _use(project, spare, base, separate.reserve(worktrees, name), git_dir)
    finally:
        separate.remove_folder(spare.folder.parent, spare.folder.name)


async def _use(
    project: Repository, spare: _Spare, base: str, workspace: Path, git_dir: Path
) -> bool:
    """Whether the workspace stands; if not, nothing is left of it."""
    done = False
    try:
        if stat.S_ISREG((spare.folder / "index").lstat().st_mode):
            os.rename(spare.folder / "index", git_dir / "index")
            os.rename(spare.folder / "tree", workspace)
            done = spare.commit == base or await _bring(project, spare, base, workspace, git_dir)
    except (OSError, ProcessError):
        pass  # the way without a spare is open, and tells better what is wrong
    finally:
        if not done:
            separate.remove(workspace.parent, workspace.name)
            (git_dir / "index").unlink(missing_ok=True)
    return done


async def _bring(
    project: Repository, spare: _Spare, base: str, workspace: Path, git_dir: Path
) -> bool:
    """From the commit it was made of to the one that is wanted; git looks only at what differs."""
    separate.settle(git_dir)  # else git would read all that was written in the index's second
    same_attributes, _ = await asyncio.gather(
        git.run(
            project,
            *("diff-tree", "-r", "--quiet", spare.commit, base, "--", ":(glob)**/.gitattributes"),
            check=False,
            timeout=separate.MOST_SECONDS,
        ),
        git.run(
            replace(project, work_tree=workspace),
            *(*separate.workers(), "read-tree", "-m", "-u", spare.commit, base),
            env={"GIT_INDEX_FILE": str(git_dir / "index")},
            timeout=separate.MOST_SECONDS,
        ),
    )
    # With other attributes, files that are the same may have to look different.
    return same_attributes.code == 0


async def _make(project: Repository, base: str, place: Path) -> None:
    token = secrets.token_hex(4)
    making = place / f".making-{token}"
    try:
        making.mkdir(mode=0o755)
        (making / "tree").mkdir(mode=0o755)
        if os.geteuid() == 0:
            os.chown(making, project.owner.uid, project.owner.gid)
        # Without workers: the other processors are the agent's.
        await separate.fill(project, base, making / "tree", making / "index")
        making.rename(place / f"{base}-{token}")
        os.utime(place)
    except OSError as error:
        raise _failed(place, error) from error
    finally:
        separate.remove_folder(place, making.name)


def _ready(place: Path) -> list[_Spare]:
    found = []
    for folder in _folders(place):
        if match := READY.fullmatch(folder.name):
            with suppress(FileNotFoundError):  # somebody takes it right now
                found.append(_Spare(folder, match[1], folder.stat().st_mtime))
    return found


def _folders(place: Path) -> Iterator[Path]:
    try:
        yield from (place / entry.name for entry in os.scandir(place) if entry.is_dir())
    except FileNotFoundError:
        return


def _sweep(place: Path) -> None:
    """Only who is alone here makes one, so that what is unfinished was left by somebody killed."""
    for folder in _folders(place):
        if folder.name.startswith(".making-"):
            separate.remove_folder(place, folder.name)


@contextmanager
def _alone(place: Path) -> Iterator[bool]:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with closing(os.open(place / "lock", flags, 0o600)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _failed(place: Path, error: OSError) -> AgsError:
    cause = (error.strerror or str(error)).lower()
    return AgsError("keep a checkout ready", subject=place, cause=cause)
