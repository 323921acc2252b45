"""Where a branch is checked out, and taking those files along when it moves.

The person's index and files are touched only when nothing of theirs is in the way: all tracked
files are as committed, and no untracked one, ignored or not, has a name the change needs.
Filters never run here: agent content must not reach the person's programs. So a change of
attributes, or of files that a filter is for, is left for the person's own git.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ags.errors import AgsError
from ags.text import decode, encode, one_line
from ags.workspace import git
from ags.workspace.git import Repository
from ags.workspace.patchtext import RawChange, parse_raw
from ags.workspace.tree import acting_as, closing, descend, open_top

_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_NAMED = 5
SUBMODULE = 0o160000


class NotTaken(AgsError):
    """A work tree that stays as it is, and the branch with it; `hint` has the command to run."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A git directory whose HEAD, or an operation in progress, has the branch."""

    git_dir: Path
    work_tree: Path | None
    busy: bool


async def holder(repository: Repository, ref: str) -> Repository | None:
    """The one work tree that has the branch checked out, if there is one."""
    if (storage := dict(repository.settings).get("extensions.refstorage", "files")) != "files":
        # There the file HEAD says nothing, and a branch would move under its checkout.
        cause = f"its refs are stored as {one_line(storage)}, where ags cannot see checkouts"
        raise NotTaken("move the branch", subject=one_line(ref), cause=cause)
    found = [each for each in await _holders(repository, ref) if each.work_tree is not None]
    if not found:
        return None
    if len(found) > 1:
        cause = f"{len(found)} work trees have it checked out"
        hint = "check out another branch in all of them but one"
        raise NotTaken("move the branch", subject=one_line(ref), cause=cause, hint=hint)
    here = found[0].work_tree
    assert here is not None
    if found[0].busy:
        cause = "it is being rebased or bisected there"
        hint = "finish that first"
        raise NotTaken("move the branch", subject=here, cause=cause, hint=hint)
    if here == repository.work_tree and found[0].git_dir == repository.git_dir:
        return repository
    return await git.find(here)


async def _holders(repository: Repository, ref: str) -> list[Holder]:
    found = []
    for git_dir in _git_dirs(repository):
        head, busy = _head(git_dir), _operation_on(git_dir)
        if ref == head or ref in busy:
            found.append(Holder(git_dir, await _work_tree(repository, git_dir), ref in busy))
    return found


def _git_dirs(repository: Repository) -> Iterator[Path]:
    yield repository.common
    linked = repository.common / "worktrees"
    if linked.is_dir():
        yield from sorted(each for each in linked.iterdir() if (each / "gitdir").is_file())


async def _work_tree(repository: Repository, git_dir: Path) -> Path | None:
    """Where its files are; None for a bare repository and for a worktree that was deleted."""
    if git_dir == repository.git_dir:
        return repository.work_tree or await _main_work_tree(repository)
    if git_dir == repository.common:
        return await _main_work_tree(repository)
    mark = git_dir / _line(git_dir / "gitdir")
    if mark.exists():
        return mark.parent
    if (git_dir / "locked").exists():
        cause = f"the locked worktree at {one_line(str(mark.parent))} has it and is not there"
        hint = "`git worktree unlock` it, if it is gone for good"
        raise NotTaken("move the branch", subject=git_dir.name, cause=cause, hint=hint)
    return None


async def _main_work_tree(repository: Repository) -> Path | None:
    settings = dict(await git.configuration(repository))
    if settings.get("core.bare", "false").lower() in ("true", "yes", "on", "1"):
        return None
    if place := settings.get("core.worktree"):
        return repository.common / place
    return repository.common.parent if repository.common.name == ".git" else None


def _head(git_dir: Path) -> str:
    """The branch that is checked out, be it by a link as git once made them."""
    head = git_dir / "HEAD"
    return str(head.readlink()) if head.is_symlink() else _line(head).removeprefix("ref:").strip()


def _operation_on(git_dir: Path) -> set[str]:
    """The branches that a rebase or bisect will come back to, during which HEAD has none."""
    names = {_line(git_dir / name / "head-name") for name in ("rebase-merge", "rebase-apply")}
    return names | {f"refs/heads/{_line(git_dir / 'BISECT_START')}"}


def _line(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return decode(content.readline(4096)).rstrip("\n")
    except OSError:
        return ""


async def changes(bare: Repository, old: str, new: str) -> list[RawChange]:
    """What differs between two commits or trees, each file for itself."""
    return parse_raw(
        (await git.run(bare, "diff-tree", "-r", "-z", "--raw", "--full-index", old, new)).stdout
    )


async def check(held: Repository, changed: list[RawChange], old: str, command: str) -> None:
    """Whether the files can follow away from `old`; otherwise say why, and what to run."""
    reason = (
        _unfinished(held)
        or _attributes(changed)
        or await _filtered(held, changed)
        or await _dirty(held, old)
        or _in_the_way(held, changed)
    )
    if reason:
        raise NotTaken("update the work tree", subject=held.work_tree, cause=reason, hint=command)


def _unfinished(held: Repository) -> str:
    if any((held.git_dir / name).exists() for name in _UNFINISHED):
        return "a merge, rebase, cherry-pick or revert is not finished there"
    return ""


def _attributes(changed: list[RawChange]) -> str:
    touched = [each.path for each in changed if _base(each.path).lower() == ".gitattributes"]
    return f"the change has attributes, which can call programs: {_some(touched)}" * bool(touched)


def _base(path: str) -> str:
    return path.rpartition("/")[2]


async def _filtered(held: Repository, changed: list[RawChange]) -> str:
    """Files that are stored otherwise than they lie there, as with Git LFS."""
    names = b"".join(encode(each.path) + b"\0" for each in changed)
    asked = await git.run(held, "check-attr", "--cached", "-z", "--stdin", "filter", stdin=names)
    records = asked.stdout.split(b"\0")
    values = zip(records[0::3], records[2::3], strict=False)
    touched = [decode(name) for name, value in values if value not in (b"unspecified", b"unset")]
    return f"a filter is set for {_some(touched)}, and ags runs none" * bool(touched)


async def _dirty(held: Repository, old: str) -> str:
    # Files that were only touched count as changed until the index has looked at them again.
    await git.run(held, "update-index", "-q", "--refresh", check=False)
    # A look into a submodule would run git there, with settings of its own.
    look = ("-z", "--name-only", "--ignore-submodules=all")
    staged = await git.run(held, "diff-index", "--cached", *look, old)
    edited = await git.run(held, "diff-files", *look)
    names = {decode(each) for each in (staged.stdout + edited.stdout).split(b"\0") if each}
    return f"there are changes of yours in {_some(sorted(names))}" * bool(names)


def _in_the_way(held: Repository, changed: list[RawChange]) -> str:
    """Git would overwrite ignored files, such as a `.env`, without a word."""
    assert held.work_tree is not None
    new = [each.path for each in changed if not each.old_mode]
    gone = {encode(each.path) for each in changed if each.old_mode}
    with acting_as(held.owner), closing(open_top(held.work_tree.resolve())) as top:
        found = [path for path in new if _occupied(top, encode(path).split(b"/"), gone)]
    return f"files of yours that git does not track are in the way: {_some(found)}" * bool(found)


def _occupied(top: int, parts: list[bytes], gone: set[bytes]) -> bool:
    """Whether something that is not `gone` with the change has this name or a part of it."""
    here = os.dup(top)
    try:
        for depth in range(1, len(parts) + 1):
            path, last = b"/".join(parts[:depth]), depth == len(parts)
            try:
                facts = os.stat(parts[depth - 1], dir_fd=here, follow_symlinks=False)
            except FileNotFoundError:
                return False
            if not stat.S_ISDIR(facts.st_mode):
                return path not in gone
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(parts[depth - 1], flags, dir_fd=here)
            os.close(here)
            here = below
            if last:
                return _holds_others(here, path, gone)
        return False
    finally:
        os.close(here)


def _holds_others(folder: int, path: bytes, gone: set[bytes]) -> bool:
    for place, _, names, at in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        del at
        below = b"/".join((path, *(encode(place).split(b"/")[1:])))
        if any(below + b"/" + os.fsencode(name) not in gone for name in names):
            return True
    return False


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(one_line(name) for name in names[:_NAMED]) + more


async def move(
    held: Repository, changed: list[RawChange], old: str, new: str, command: str
) -> None:
    """Take index and files from `old` to `new`, after `check`; or leave them as they were."""
    moved = await git.run(
        held, "read-tree", "-m", "-u", "--no-recurse-submodules", old, new, check=False
    )
    if moved.code == 0:
        return
    said = moved.stderr.decode(errors="replace").strip().removeprefix("error: ")
    left = await put_back(held, changed)
    half = f"; left half-way: {_some(left)}" if left else ""
    raise NotTaken(
        "update the work tree", subject=held.work_tree, cause=one_line(said) + half, hint=command
    )


async def is_at(held: Repository, tree: str) -> bool:
    """Whether the index is that of a commit or tree."""
    look = ("diff-index", "--cached", "--quiet", "--ignore-submodules=all", tree)
    return (await git.run(held, *look, check=False)).code == 0


async def put_back(held: Repository, changed: list[RawChange]) -> list[str]:
    """After git gave up half-way, as on a full disk: undo what it wrote, and only that.

    A file is git's if it is missing or holds the beginning of what git was to write there. The
    index is still the old one. Returns what is neither as it was nor certainly git's.
    """
    listed = await git.run(held, "diff-files", "-z", "--name-only", "--ignore-submodules=all")
    differs = {decode(each) for each in listed.stdout.split(b"\0") if each}
    restored, left = [], []
    for each in changed:
        if each.old_mode == SUBMODULE or (each.old_mode and each.path not in differs):
            continue
        now = _content(held, each.path)
        if now is None:
            restored += [each.path] * bool(each.old_mode)
        elif each.new_mode not in (0, SUBMODULE) and await _begins(held, each.new_id, now):
            _remove(held, each.path)
            restored += [each.path] * bool(each.old_mode)
        else:
            left.append(each.path)
    names = b"".join(encode(path) + b"\0" for path in restored)
    back = await git.run(
        held, "checkout-index", "--index", "-q", "-z", "--stdin", stdin=names, check=False
    )
    return left + (restored if back.code else [])


async def _begins(held: Repository, blob: str, now: bytes) -> bool:
    return (await git.run(held, "cat-file", "blob", blob)).stdout.startswith(now)


def _content(held: Repository, path: str) -> bytes | None:
    """What a file holds or where a link leads; None if there is neither."""
    with _parent(held, path) as (folder, name):
        if folder is None:
            return None
        try:
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return os.readlink(name, dir_fd=folder)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(name, flags, dir_fd=folder), "rb") as file:
                return file.read()
        except (FileNotFoundError, IsADirectoryError):
            return None


def _remove(held: Repository, path: str) -> None:
    with _parent(held, path) as (folder, name):
        if folder is not None:
            os.unlink(name, dir_fd=folder)


@contextmanager
def _parent(held: Repository, path: str) -> Iterator[tuple[int | None, bytes]]:
    """The folder a file is in, reached without passing a link, as its owner reaches it."""
    assert held.work_tree is not None
    *parents, name = encode(path).split(b"/")
    with acting_as(held.owner), closing(open_top(held.work_tree.resolve())) as top:
        try:
            folder = descend(top, [os.fsdecode(each) for each in parents])
        except (FileNotFoundError, NotADirectoryError):
            yield None, name
            return
        with closing(folder):
            yield folder, name
