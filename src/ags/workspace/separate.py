"""A workspace of its own for a run: a checkout of the base commit, made and removed by us.

The host checks files out with a git that knows no filter. Where attributes ask for one, the
filter runs in the sandbox afterwards, on the paths that want it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ags.errors import AgsError
from ags.model import Plan
from ags.proc import ProcessError
from ags.workspace import git, inside
from ags.workspace.git import Repository
from ags.workspace.private import Private
from ags.workspace.tree import Owner, acting_as, closing, look, shown

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?")
MOST_SECONDS = 900.0
"""For a checkout: the largest repositories take minutes."""
DEEPEST = 100
# As many of git's workers as there are processors, once that gains more than starting them takes.
PARALLEL = ("-c", "checkout.workers=0", "-c", "checkout.thresholdForParallelism=2000")


def workers() -> tuple[str, ...]:
    """They take half as much processor time again, which is only a gain where some is left."""
    # Who runs right now; unlike the load, without those who wait for a disk.
    running = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
    return PARALLEL if int(running) <= (os.cpu_count() or 1) else ()


# Files are removed first, because git does not write anew what looks unchanged. A filter that
# fails or is missing leaves a file as it is in the repository; one that breaks git does so for
# all files, and is told.
APPLY_FILTERS = (
    inside.WITHOUT
    + r"""
list=/tmp/ags-filtered
filtered > $list || exit
xargs -0 rm -f -- < $list || exit
without required
git checkout-index --force --index --quiet -z --stdin < $list && exit
echo broken
without smudge process
exec git checkout-index --force --index --quiet -z --stdin < $list
"""
)


async def create(
    project: Repository, *, name: str, base: str, worktrees: Path, git_dir: Path
) -> Path:
    """Check `base` out to `worktrees`/`name`; the index goes to the private `git_dir`."""
    return await _create(project, name, base, worktrees, git_dir / "index")


async def create_beside(
    building: Coroutine[object, object, Private],
    project: Repository,
    *,
    name: str,
    base: str,
    worktrees: Path,
) -> Private:
    """The same, while the private git directory is being built."""
    private = asyncio.ensure_future(building)
    try:
        index = worktrees / name / ".git/index"
        workspace = await _create(project, name, base, worktrees, index)
    except BaseException:
        private.cancel()
        await asyncio.gather(private, return_exceptions=True)
        raise
    try:
        made = await private
        shutil.move(index, made.git_dir / "index")  # from one disk to another it is a copy of ours
        if os.geteuid() == 0:
            os.chown(made.git_dir / "index", project.owner.uid, project.owner.gid)
    except BaseException:
        remove(worktrees, workspace.name)
        raise
    return made


async def _create(project: Repository, name: str, base: str, worktrees: Path, index: Path) -> Path:
    workspace = reserve(worktrees, name)
    try:
        await fill(project, base, workspace, index, workers())
    except BaseException as error:
        remove(worktrees, name)
        if isinstance(error, ProcessError):
            raise _explained(error, project, base) from error
        raise
    return workspace


async def fill(
    project: Repository,
    base: str,
    workspace: Path,
    index: Path,
    options: Sequence[str] = (),
) -> None:
    """Check `base` out to a new, empty folder."""
    _furnish(workspace, project.owner)
    await git.run(
        replace(project, work_tree=workspace),
        *(*options, "read-tree", "-u", "--reset", base),
        env={"GIT_INDEX_FILE": str(index)},
        timeout=MOST_SECONDS,
    )


def settle(git_dir: Path) -> bool:
    """Call it last thing before the agent starts: makes the first look at a large tree quick.

    Git reads again each file as young as its index, in whole seconds, since it may have changed
    since without a trace. Once that second is over and nobody but us was there, none has.
    """
    index = git_dir / "index"
    facts = index.lstat()  # a filter had the directory, and may have put a link there
    second = int(facts.st_mtime)
    # The kernel's clock for files lags a little.
    if not stat.S_ISREG(facts.st_mode) or time.time() < second + 1.01:
        return False
    os.utime(index, (second + 1, second + 1), follow_symlinks=False)
    return True


async def wants_filters(project: Repository, workspace: Path, git_dir: Path) -> bool:
    """Whether some attribute may ask for a filter, so that `apply_filters` has work to do."""
    for name in ("attributes", "global-attributes"):
        with suppress(FileNotFoundError):
            if b"filter" in (git_dir / "info" / name).read_bytes():
                return True
    if not _may_list(git_dir / "index", b".gitattributes"):
        return False
    found = await git.run(
        replace(project, work_tree=workspace),
        *("grep", "--quiet", "--cached", "-e", "filter", "--", ":(glob)**/.gitattributes"),
        check=False,
        env={"GIT_INDEX_FILE": str(git_dir / "index")},
    )
    return found.code == 0


def _may_list(index: Path, name: bytes) -> bool:
    """A quick look at git's index: whether the name can be in it."""
    content = index.read_bytes()
    # From version 4 on names are written as what differs from the one before.
    return name in content or content[:7] != b"DIRC\0\0\0" or content[7] > 3


async def apply_filters(runner: inside.Runner, plan: Plan, workspace: Path) -> tuple[str, ...]:
    """In the sandbox that the agent will have, before the agent has it. Returns what to tell."""
    with tempfile.TemporaryFile() as output:
        said = await inside.run(
            runner,
            plan,
            inside.Script(APPLY_FILTERS),
            workspace=PurePosixPath(workspace),
            limits=replace(plan.limits, timeout=MOST_SECONDS),
            output=output.fileno(),
        )
        broken = os.fstat(output.fileno()).st_size > 0
    if said.code != 0:
        raise inside.failed("run the repository's filters", workspace, said, hint="")
    if not broken:
        return ()
    return ("files with a filter are as the repository has them: a filter broke off",)


def remove(worktrees: Path, name: str) -> None:
    """Take the workspace away, whatever is in it, and nothing that a link in it leads to."""
    _check(name)
    remove_folder(worktrees, name)


def remove_all(workspaces: Iterable[tuple[Path, str]]) -> None:
    for each in workspaces:
        remove(*each)


def remove_folder(parent: Path, name: str) -> None:
    with closing(os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
        facts = look(folder, name)
        if facts is None:
            return
        if not stat.S_ISDIR(facts.st_mode) or facts.st_dev != os.fstat(folder).st_dev:
            raise AgsError(
                "remove the workspace", subject=parent / name, cause="it is not what we made"
            )
        with acting_as(Owner(facts.st_uid, facts.st_gid)):
            _empty(folder, name, facts.st_dev)
        os.rmdir(name, dir_fd=folder)


def _empty(folder: int, name: str, device: int) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with closing(os.open(name, flags, dir_fd=folder)) as top:
        # What is nested too deep for our descriptors is moved up, and then is its own turn.
        while _clear(top, top, device, DEEPEST):
            pass


def _clear(here: int, top: int, device: int, room: int) -> bool:
    """Remove what is in a folder; whether something was moved to the top instead."""
    os.chmod(here, 0o700)
    moved = False
    with os.scandir(here) as listing:
        entries = [
            (entry.name, entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in listing
        ]
    for name, number, is_folder in entries:
        if not is_folder:
            os.unlink(name, dir_fd=here)
        elif room == 0:
            os.rename(name, f".ags-{number}", src_dir_fd=here, dst_dir_fd=top)
            moved = True
        else:
            moved |= _remove_folder(here, name, top, device, room)
    return moved


def _remove_folder(here: int, name: str, top: int, device: int, room: int) -> bool:
    path = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    with closing(path):
        if os.fstat(path).st_dev != device:
            raise AgsError(
                "remove the workspace", subject=shown(name), cause="something is mounted there"
            )
        os.chmod(f"/proc/self/fd/{path}", 0o700)
        with closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=path)) as fd:
            moved = _clear(fd, top, device, room - 1)
    os.rmdir(name, dir_fd=here)
    return moved


def reserve(worktrees: Path, name: str) -> Path:
    """An empty folder for the workspace, which is nobody else's from then on."""
    _check(name)
    workspace = worktrees / name
    try:
        # When root works for another, that one's git must get here.
        worktrees.mkdir(mode=0o711, parents=True, exist_ok=True)
        workspace.mkdir(mode=0o755)
    except OSError as error:
        raise _not_made(workspace, error) from error
    return workspace


def _furnish(workspace: Path, owner: Owner) -> None:
    try:
        # The place that the private git directory is mounted on.
        (workspace / ".git").mkdir()
        if os.geteuid() == 0:
            for path in (workspace, workspace / ".git"):
                os.chown(path, owner.uid, owner.gid)
    except OSError as error:
        raise _not_made(workspace, error) from error


def _not_made(workspace: Path, error: OSError) -> AgsError:
    cause = (error.strerror or str(error)).lower()
    return AgsError("make the workspace", subject=workspace, cause=cause)


def _check(name: str) -> None:
    if not NAME.fullmatch(name):
        raise AgsError(
            "use the name",
            subject=shown(name),
            cause="a name is of small letters, digits and dashes, 48 at most",
        )


def _explained(error: ProcessError, project: Repository, base: str) -> AgsError:
    return AgsError(
        "check out the base commit",
        subject=project.work_tree or project.git_dir,
        cause=inside.shown_lines(error.said) or error.cause,
        hint=f"in a partial clone, `git checkout {base[:12]}` fetches what is missing"
        if project.is_partial
        else "",
    )
