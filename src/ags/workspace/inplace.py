"""Work on the person's own files: a snapshot before, one after, and the way back.

A snapshot is a commit of the files exactly as they lie on the disk, made inside the fence and
held by a ref of ours. At the end it tells the truth whatever the agent did: it is made with a git
directory of its own and the index of the start. That index was made before the agent came, and by
a file's time of change, which nobody can set, git knows what to read again. What was ignored at
the start, or could not be read, stays out of both, so that no undo ever takes it for the agent's.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ags import records
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import MIB, Plan
from ags.proc import ProcessError
from ags.text import encode
from ags.workspace import checkout, collect, git, ignored, inside, lfs, private
from ags.workspace.checkout import SUBMODULE
from ags.workspace.git import Repository
from ags.workspace.patchtext import RawChange
from ags.workspace.scratch import scratch
from ags.workspace.tree import acting_as, closing, descend, open_top, shown

BEGAN, INDEX = "start", "index"
"""In the run's folder: what the snapshot at the end starts from; the person's index as it was."""
UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
KEPT = "nothing is lost: the files and the run's own git directory are as the agent left them"
UNCONVERTED = b"* -text -ident -filter !working-tree-encoding\n"
NAMED = 10
LINK = 0o120000

SETTINGS = git.as_environment(inside.SETTINGS | private.APART_SETTINGS)


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


async def start(place: Place, runner: inside.Runner, plan: Plan) -> Start:
    """The snapshot before the agent is let in; what it is given must be built by then."""
    staged = await private.staged(place.project, place.git_dir / "index")
    seen = await _snapshot(place, runner, plan, None)
    own = [private.content(place.git_dir, f"info/{name}exclude") for name in ("global-", "")]
    exclude = b"\n".join([*filter(None, own), await ignored.rules(place.project, seen.commit)])
    left = b"".join(_pattern(path) for path in (*seen.left_out, *seen.ignored))
    sizes = f"{seen.time} {len(seen.index)} {len(exclude)}\n".encode()
    records.replace_file(place.folder / BEGAN, sizes + seen.index + exclude + left)
    await private.pin(place.project, place.run, seen.commit, "start")
    return Start(place.run, seen.ref, seen.head, staged, seen.commit, _told(seen))


async def finish(place: Place, began: Start, runner: inside.Runner, plan: Plan) -> Finish:
    """The snapshot after the agent, and its commits on the person's branch or on one of ours."""
    seen = await _snapshot(place, runner, plan, began)
    await private.pin(place.project, place.run, seen.commit, "end")
    done = Finish(seen.commit, seen.head, notes=_told(seen))
    if seen.head is None or seen.head == began.head:
        return done
    if began.head is not None:
        missing = await lfs.bring(place.project, place.git_dir, began.head, seen.head)
        done = replace(done, notes=(*done.notes, *missing))
    try:
        return replace(done, moved=await _forward(place, began, seen.ref, seen.head))
    except AgsError as error:
        return await _kept(place, done, seen.head, error.cause)


async def undo(place: Place, began: Start, ended: Finish) -> tuple[str, ...]:
    """Files, branch and index as before the agent, or an error and nothing changed."""
    swap = _Swap(place)
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
    swap.clear()
    return notes


@frozen
class _Seen:
    """What a snapshot tells beside its bundle. Names are an agent's."""

    commit: str
    head: str | None
    ref: str | None
    left_out: tuple[bytes, ...]
    ignored: tuple[bytes, ...]
    index: bytes
    time: int
    bundle: int
    """Where it begins."""


async def _snapshot(place: Place, runner: inside.Runner, plan: Plan, began: Start | None) -> _Seen:
    sizes, given, at = b"", b"", began or Start("", None, None, None, "")
    if began is not None:
        sizes, _, given = (place.folder / BEGAN).read_bytes().partition(b"\n")
    own = private.INSIDE if (place.workspace / ".git").is_file() else place.workspace / ".git"
    words = (str(own), place.project.object_format, at.head or "", at.commit)
    settled = tuple((private.APART_ENVIRONMENT | SETTINGS).items())
    with tempfile.TemporaryFile() as file:
        said = await inside.run(
            runner,
            plan,
            inside.Script(collect.SNAPSHOT, (*words, *sizes.decode().split()), settled),
            workspace=PurePosixPath(place.workspace),
            limits=replace(
                plan.limits, timeout=collect.MOST_SECONDS, file_size=collect.MOST_BUNDLE
            ),
            output=file.fileno(),
            stdin=given,
        )
        seen = _parse(file) if said.code == 0 else None
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


def _parse(file: BinaryIO) -> _Seen | None:
    file.seek(0)
    sizes = re.fullmatch(rb"(\d{1,9}) (\d{1,9}) (\d{1,12})\n", file.readline(64))
    if sizes is None:
        return None
    entries, index = file.read(int(sizes[1])).split(b"\0")[:-1], file.read(int(sizes[2]))
    if b"" not in entries[3:]:
        return None
    middle = entries.index(b"", 3)
    commit, head, ref = (os.fsdecode(entry) for entry in entries[:3])
    left, ignored = tuple(entries[3:middle]), tuple(entries[middle + 1 :])
    time = int(sizes[3])
    return _Seen(commit, head or None, ref or None, left, ignored, index, time, file.tell())


def _told(seen: _Seen) -> tuple[str, ...]:
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
    with collect.locked(project) as lock:
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
        await _set_branch(project, ref, began.head, head)
        lock.install()
    return Moved(ref, began.head, head, await private.staged(project, lock.index))


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
    with collect.locked(project) as lock:
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


class _Swap:
    """Files of the person's, changed all or none.

    What comes and what goes passes through a folder of ours in the workspace: only within one
    file system does a file move at once, and to move it back takes no room.
    """

    def __init__(self, place: Place) -> None:
        self._owner, self._format = place.project.owner, place.project.object_format
        self._place = place.workspace.resolve() / f".ags-undo-{secrets.token_hex(8)}"
        self._steps: list[Callable[[], None]] = []
        self._open = ExitStack()
        self._top = self._stage = -1

    def bring(self, changed: Sequence[RawChange], made: Path) -> None:
        """Only if all is as the agent left it; `made` has what comes."""
        with acting_as(self._owner):
            try:
                self._top = self._open.enter_context(closing(open_top(self._place.parent)))
                found = self._check(changed)
                os.mkdir(self._place.name, 0o700, dir_fd=self._top)
                stage = descend(self._top, [self._place.name])
                self._stage = self._open.enter_context(closing(stage))
                self._swap(changed, found, made)
            except BaseException as error:
                self.back()
                if isinstance(error, OSError):
                    raise _refused((error.strerror or str(error)).lower()) from error
                raise

    def _swap(
        self, changed: Sequence[RawChange], found: Sequence[os.stat_result | None], made: Path
    ) -> None:
        for n, each in enumerate(changed):
            if each.new_mode:
                self._prepare(f"new{n}", each.new_mode, found[n], made / str(n))
        for n, each in enumerate(changed):
            if not each.new_mode:
                self._step(each.path, f"old{n}", coming=False)
                self._same(f"old{n}", found[n])
        for n, each in enumerate(changed):
            if each.new_mode and found[n]:
                self._save(each.path, f"old{n}")
                self._same(f"old{n}", found[n])
                self._move(each.path, f"new{n}", coming=True)
            elif each.new_mode:
                self._step(each.path, f"new{n}", coming=True)

    def _save(self, path: str, name: str) -> None:
        """So that the file that comes takes the place of the old one in one step."""
        try:
            with self._parent(path) as (folder, own):
                there = self._stage
                os.link(own, name, src_dir_fd=folder, dst_dir_fd=there, follow_symlinks=False)
        except OSError:  # a file system without hard links
            self._step(path, name, coming=False)
        else:
            self._steps.append(partial(self._move, path, name, coming=True))

    def _check(self, changed: Sequence[RawChange]) -> list[os.stat_result | None]:
        found = [self._look(each.path) for each in changed]
        odd = [
            shown(each.path) for each, (mode, *_) in zip(changed, found, strict=True) if mode < 0
        ]
        if odd:
            advice = "no file, or not to be read; look at it, remove it, and undo again"
            raise _refused(f"{', '.join(odd[:NAMED])}: {advice}")
        others = [
            shown(each.path)
            for each, (mode, name, _) in zip(changed, found, strict=True)
            if mode != each.old_mode or (mode and name != each.old_id)
        ]
        if others:
            more = f" and {len(others) - NAMED} more" * (len(others) > NAMED)
            raise _refused(f"not as the agent left it: {', '.join(others[:NAMED])}{more}")
        return [facts for _, _, facts in found]

    def _look(self, path: str) -> tuple[int, str, os.stat_result | None]:
        """Mode, id and facts of what is there; 0 for nothing, or only a folder."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with self._parent(path) as (folder, name):
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    return 0, "", None
                if stat.S_ISLNK(facts.st_mode):
                    target = os.fsencode(os.readlink(name, dir_fd=folder))
                    return LINK, self._id(io.BytesIO(target), len(target)), facts
                if not stat.S_ISREG(facts.st_mode):
                    return -1, "", None
                with open(os.open(name, flags, dir_fd=folder), "rb") as file:
                    facts = os.fstat(file.fileno())
                    mode = 0o100755 if facts.st_mode & 0o100 else 0o100644
                    return mode, self._id(file, facts.st_size), facts
        except (FileNotFoundError, NotADirectoryError):
            return 0, "", None
        except OSError:
            return -1, "", None

    def _id(self, file: BinaryIO, size: int) -> str:
        made = hashlib.new(self._format, b"blob %d\0" % size)
        while piece := file.read(MIB):
            made.update(piece)
        return made.hexdigest()

    def _same(self, name: str, seen: os.stat_result | None) -> None:
        """What was moved is what was looked at."""
        now = os.stat(name, dir_fd=self._stage, follow_symlinks=False)
        if seen is None or _marks(now) != _marks(seen):
            raise OSError("a file changed just now")

    def _prepare(self, name: str, mode: int, now: os.stat_result | None, content: Path) -> None:
        if mode == LINK:
            os.symlink(content.read_bytes(), os.fsencode(name), dir_fd=self._stage)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with (
            content.open("rb") as source,
            open(os.open(name, flags, 0o666, dir_fd=self._stage), "wb") as file,
        ):
            shutil.copyfileobj(source, file, MIB)
            file.flush()
            kept = now if now and stat.S_ISREG(now.st_mode) else os.fstat(file.fileno())
            bits = stat.S_IMODE(kept.st_mode) & 0o666
            os.fchmod(file.fileno(), bits | (bits & 0o444) >> 2 if mode & 0o100 else bits)

    def _step(self, path: str, name: str, *, coming: bool) -> None:
        self._move(path, name, coming=coming)
        self._steps.append(partial(self._move, path, name, coming=not coming))

    def _move(self, path: str, staged: str, *, coming: bool) -> None:
        """Between its place and our folder, with the folders above it made or removed."""
        with self._parent(path, make=coming) as (folder, name):
            if coming:
                os.rename(staged, name, src_dir_fd=self._stage, dst_dir_fd=folder)
                return
            os.rename(name, staged, src_dir_fd=folder, dst_dir_fd=self._stage)
        above = path.split("/")[:-1]
        with suppress(OSError):
            while above:
                with self._parent("/".join(above)) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
                above.pop()

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder a file is in, reached without passing a link."""
        *above, name = os.fsdecode(encode(path)).split("/")
        if any(part.lower() in ("", ".", "..", ".git") for part in (*above, name)):
            raise OSError("no name for a file")
        with ExitStack() as opened:
            here = self._top
            for part in above:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                here = opened.enter_context(closing(descend(here, [part])))
            yield here, name

    def back(self) -> None:
        """All as it was found."""
        with acting_as(self._owner):
            try:
                while self._steps:
                    self._steps[-1]()
                    self._steps.pop()
            except OSError as error:
                cause = f"{(error.strerror or str(error)).lower()}, and the way back failed, too"
                hint = f"what is missing lies in {self._place}"
                raise AgsError("undo", cause=cause, hint=hint) from error
        self.clear()

    def clear(self) -> None:
        with acting_as(self._owner), self._open:
            if self._stage >= 0:
                with closing(os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._stage)) as here:
                    for name in os.listdir(here):
                        os.unlink(name, dir_fd=self._stage)
                os.rmdir(self._place.name, dir_fd=self._top)


def _marks(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _refused(cause: str) -> AgsError:
    return AgsError("undo", cause=cause, hint="nothing was changed")
