"""Work on the person's own files: a snapshot before, one after, and the way back.

A snapshot is a commit of the files exactly as they lie on the disk, made inside the fence and
held by a ref of ours. At the end it tells the truth whatever the agent did: it is made with a git
directory of its own and the index of the start. That index was made before the agent came, and by
a file's time of change, which nobody can set, git knows what to read again. What was ignored at
the start, or could not be read, stays out of both, so that no undo ever takes it for the agent's.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ags import records
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Plan
from ags.proc import ProcessError
from ags.workspace import (
    apart,
    checkout,
    collect,
    git,
    ignored,
    index,
    inside,
    lfs,
    private,
    snapshot,
    unseen,
)
from ags.workspace.checkout import SUBMODULE
from ags.workspace.git import Repository
from ags.workspace.patchtext import RawChange
from ags.workspace.scratch import scratch
from ags.workspace.snapshot import Seen
from ags.workspace.swap import Swap
from ags.workspace.tree import Found, shown
from ags.workspace.unseen import Folder, Unseen

BEGAN, INDEX, MOVING, REPOSITORY = "start", "index", "moving.json", "repository"
"""In the run's folder: what the snapshot at the end starts from; the person's index as it was; the
move of a branch that is about to be made; where the project's objects and refs are."""
UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
KEPT = "nothing is lost: the files and the run's own git directory are as the agent left them"
UNCONVERTED = b"* -text -ident -filter !working-tree-encoding\n"

SETTINGS = git.as_environment(inside.SETTINGS | apart.SETTINGS)


@frozen
class Place:
    """A run in the person's own folder."""

    project: Repository
    workspace: Path
    git_dir: Path
    """The private one of the run."""
    run: str
    branch: str
    """Where commits go that cannot go to the person's own branch."""
    folder: Path
    """Of the run, out of the agent's reach: what the end and undo need is kept there."""


@frozen
class Start:
    """How all was when the agent came."""

    run: str
    ref: str | None
    head: str | None
    index: str | None
    """A hash of what is staged; None when nothing ever was."""
    commit: str
    """The snapshot."""
    notes: tuple[str, ...] = ()
    unseen: Unseen = Unseen()
    """What no snapshot holds."""


@frozen
class Moved:
    """A branch of the person's that went along with the agent's commits."""

    ref: str
    before: str | None
    after: str
    index: str | None
    """A hash of what was staged then."""


@frozen
class Finish:
    """How all is when the agent has gone."""

    commit: str
    """The snapshot."""
    head: str | None
    """Where the agent's own HEAD was."""
    moved: Moved | None = None
    kept_branch: str | None = None
    notes: tuple[str, ...] = ()
    made: tuple[Found, ...] = ()
    """What is no file and was not there before."""
    emptied: tuple[Folder, ...] = ()
    """Folders that were there, empty, and are not so any more."""


async def start(place: Place, runner: inside.Runner, plan: Plan) -> Start:
    """The snapshot before the agent is let in; what it is given must be built by then."""
    records.replace_file(place.folder / REPOSITORY, os.fsencode(place.project.common))
    staged = await private.staged(place.project, place.git_dir / "index")
    seen = await _snapshot(place, runner, plan, None)
    own = [private.content(place.git_dir, f"info/{name}exclude") for name in ("global-", "")]
    exclude = b"\n".join([*filter(None, own), await ignored.rules(place.project, seen.commit)])
    left = b"".join(_pattern(path) for path in (*seen.left_out, *seen.ignored))
    sizes = f"{seen.time} {len(seen.index)} {len(exclude)}\n".encode()
    records.replace_file(place.folder / BEGAN, sizes + seen.index + exclude + left)
    await private.pin(place.project, place.run, seen.commit, "start")
    found = unseen.look(place.workspace, place.project.owner)
    return Start(place.run, seen.ref, seen.head, staged, seen.commit, _told(seen), found)


async def finish(place: Place, began: Start, runner: inside.Runner, plan: Plan) -> Finish:
    """The snapshot after the agent, and its commits on the person's branch or on one of ours."""
    index.clear(place.project)
    made, emptied = _since(place, began.unseen)
    seen = await _snapshot(place, runner, plan, began)
    await private.pin(place.project, place.run, seen.commit, "end")
    done = Finish(seen.commit, seen.head, notes=_told(seen), made=made, emptied=emptied)
    if seen.head is None or seen.head == began.head:
        return done
    if began.head is not None:
        missing = await lfs.bring(place.project, place.git_dir, began.head, seen.head)
        done = replace(done, notes=(*done.notes, *missing))
    try:
        moved = await _resumed(place, seen.head) or await _forward(
            place, began, seen.ref, seen.head
        )
        return replace(done, moved=moved)
    except AgsError as error:
        return await _kept(place, done, seen.head, error.cause)


async def repository(project: Path, folder: Path) -> Repository:
    """Of the run with this folder. A linked worktree may be gone, and what the run did is still in
    the repository that it was of."""
    noted = private.content(folder, REPOSITORY)
    common = Path(os.fsdecode(noted)) if noted else None
    found: Repository | None = None
    with suppress(AgsError, OSError):
        found = await git.find(project)
    # Where the worktree was there may be another's by now, or a folder in another repository.
    if common is not None and (common / "objects").is_dir():
        return found if found and found.common == common else await git.find_bare(common)
    if found is None:
        hint = "`ags diff --patch NAME` prints the change as it was stored"
        raise AgsError("find the repository", subject=project, cause="it is gone", hint=hint)
    return found


async def undo(place: Place, began: Start, ended: Finish) -> tuple[str, ...]:
    """Files, branch and index as before the agent, or an error and nothing changed."""
    index.clear(place.project)
    swap = Swap(place.project, place.workspace, ended.made)
    async with scratch(place.project, UNCONVERTED) as bare:
        found = await checkout.changes(bare, ended.commit, began.commit)
        changed = [each for each in found if SUBMODULE not in (each.old_mode, each.new_mode)]
        made = await _written(bare, changed)
        swap.bring(changed, made)
    try:
        notes = await _backward(place, ended.moved)
    except BaseException:
        swap.back()
        raise
    swap.empty_folders(ended.emptied)
    swap.clear()
    return notes


def _since(place: Place, before: Unseen) -> tuple[tuple[Found, ...], tuple[Folder, ...]]:
    """What the agent made that is no file, and the empty folders that it filled or took away."""
    owner = place.project.owner
    now = unseen.look(place.workspace, owner, opened=before.shut)
    made = [each for each in now.special if each not in before.special]
    # Git would open it, and wait.
    for each in [each for each in made if each.path.rpartition("/")[2] == ".gitattributes"]:
        unseen.remove(place.workspace, each, owner)
        made.remove(each)
    still = {each.path for each in now.empty}
    return tuple(made), tuple(each for each in before.empty if each.path not in still)


async def _snapshot(place: Place, runner: inside.Runner, plan: Plan, began: Start | None) -> Seen:
    sizes, given, at = b"", b"", began or Start("", None, None, None, "")
    if began is not None:
        sizes, _, given = (place.folder / BEGAN).read_bytes().partition(b"\n")
    own = private.INSIDE if (place.workspace / ".git").is_file() else place.workspace / ".git"
    words = (str(own), place.project.object_format, at.head or "", at.commit)
    settled = tuple((apart.ENVIRONMENT | SETTINGS).items())
    with tempfile.TemporaryFile() as file:
        said = await inside.run(
            runner,
            plan,
            inside.Script(snapshot.SCRIPT, (*words, *sizes.decode().split()), settled),
            workspace=PurePosixPath(place.workspace),
            limits=replace(
                plan.limits, timeout=collect.MOST_SECONDS, file_size=collect.MOST_BUNDLE
            ),
            output=file.fileno(),
            stdin=given,
        )
        seen = snapshot.parse(file) if said.code == 0 else None
        if seen is None:
            raise inside.failed("take a snapshot of the files", place.workspace, said, KEPT)
        known = at.commit or seen.head
        came = await collect.take_in(
            place.project, file, base=known, subject=place.branch, at=seen.bundle
        )
    parents = await git.run(place.project, "rev-list", "--parents", "-n1", came)
    if came != seen.commit or (seen.head or came) not in (*parents.text.split(), at.head):
        raise AgsError("take in the snapshot", subject=place.run, cause="it is another's")
    return seen


def _told(seen: Seen) -> tuple[str, ...]:
    reason = {True: "a repository of its own", False: "a submodule, or it cannot be read"}
    return tuple(
        f"{shown(os.fsdecode(path))}: {reason[path.endswith(b'/')]}; it is not watched"
        for path in seen.left_out
    )


def _pattern(path: bytes) -> bytes:
    """For git's list of what to ignore: this path from the top, whatever it holds."""
    plain = re.sub(rb"([^\w/.\x80-\xff-])", rb"\\\1", path)
    return b"/" + re.sub(rb"\\[\n\r]", b"?", plain) + b"\n"


async def _is_new(project: Repository, commit: str) -> bool:
    """Whether the person has it on no branch."""
    refs = ("--branches", "--tags", "--remotes")
    return bool((await git.run(project, "rev-list", "-n1", commit, "--not", *refs)).text)


async def _kept(place: Place, done: Finish, head: str, why: str) -> Finish:
    if not await _is_new(place.project, head):
        return done
    try:
        await collect.move_branch(place.project, place.branch, head, None)
    except AgsError as error:
        return replace(done, notes=(*done.notes, f"{error}; {error.hint}"))
    note = (
        f"the agent's commits are on {place.branch}, because {why}; its files are as it left "
        f"them. Once those are committed or stashed: git merge {place.branch}"
    )
    return replace(done, kept_branch=place.branch, notes=(*done.notes, note))


async def _forward(place: Place, began: Start, ref: str | None, head: str) -> Moved:
    """Take the person's branch along, and the index; the error says why that cannot be."""
    project = place.project
    if ref is None or ref != began.ref:
        raise _stays("the agent was not on the branch that you had checked out")
    if began.head and not await collect.is_ancestor(project, began.head, head):
        raise _stays("the agent rewrote history")
    if any((project.git_dir / name).exists() for name in UNFINISHED):
        raise _stays("a merge, cherry-pick or revert is not finished")
    await checkout.holder(project, ref)
    with index.locked(project) as lock:
        if await private.position(project) != private.Position(began.ref, began.head):
            raise _stays("you have committed or changed branches since")
        if await private.staged(project, lock.index) != began.index:
            raise _stays("you have staged something since")
        records.replace_file(place.folder / INDEX, lock.index.read_bytes() if began.index else b"")
        if began.index:
            shutil.copystat(lock.index, place.folder / INDEX)
        try:
            await lock.follow(began.head, head)
        except ProcessError as error:
            raise _stays("what you have staged is in the way") from error
        moved = Moved(ref, began.head, head, await private.staged(project, lock.new))
        records.replace_file(place.folder / MOVING, records.encode(moved))
        await _set_branch(project, ref, began.head, head)
        lock.install()
    return moved


async def _resumed(place: Place, head: str) -> Moved | None:
    """The move that one of us had begun who was killed, brought to its end."""
    if (noted := private.content(place.folder, MOVING)) is None:
        return None
    moved, project = records.decode(Moved, noted), place.project
    at = await private.position(project)
    if head != moved.after or at != private.Position(moved.ref, moved.after):
        return None
    with index.locked(project) as lock:
        if await private.staged(project, lock.index) != moved.index:
            await lock.follow(moved.before, moved.after)
            lock.install()
    return moved


def _stays(cause: str) -> AgsError:
    return AgsError("move the branch", cause=cause)


async def _backward(place: Place, moved: Moved | None) -> tuple[str, ...]:
    if moved is None:
        return ()
    project = place.project
    at = await git.run(project, "rev-parse", "--verify", "--quiet", moved.ref, check=False)
    if at.text.strip() != moved.after:
        name = shown(moved.ref.removeprefix("refs/heads/"))
        return (f"{name} has gone on since, so the agent's commits stay in it",)
    with index.locked(project) as lock:
        if (await private.position(project)).ref != moved.ref:
            await _set_branch(project, moved.ref, moved.after, moved.before)
            return ()
        if await private.staged(project, lock.index) == moved.index:
            lock.put(place.folder / INDEX)
        else:
            await lock.follow(moved.after, moved.before)
        await _set_branch(project, moved.ref, moved.after, moved.before)
        lock.install()
    return ()


async def _set_branch(project: Repository, ref: str, old: str | None, new: str | None) -> None:
    change = ("-d", ref) if new is None else (ref, new)
    none = "0" * len(old or new or "")
    await git.run(project, "update-ref", "-m", "ags: in place", *change, old or none)


async def _written(bare: Repository, changed: Sequence[RawChange]) -> Path:
    """The files to come, by their number, so that no name of anybody's counts."""
    entries = (f"100644 {each.new_id}\t{n}\0" for n, each in enumerate(changed) if each.new_mode)
    listed = "".join(entries).encode()
    await git.run(bare, "update-index", "-z", "--index-info", stdin=listed)
    await git.run(bare, "checkout-index", "-a", "-q", timeout=collect.MOST_SECONDS)
    assert bare.work_tree is not None
    return bare.work_tree
