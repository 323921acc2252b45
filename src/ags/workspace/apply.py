"""An agent's commits, brought onto a branch of the person's, and taken back again.

The merge is made apart from the project (`scratch`): no setting, attribute, merge driver, hook
or signing program of anybody's takes part, no work tree is needed, and a conflict leaves nothing.
Then the branch moves from the commit it was seen at to the new one, or not at all. Of the
attributes only those at the top of the person's own branch count, for git's built-in drivers:
`-merge` and `merge=union` mean here what they mean to git.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from ags.errors import AgsError
from ags.model import MIB
from ags.text import decode, one_line, utf8
from ags.workspace import checkout, git
from ags.workspace.git import Repository
from ags.workspace.patchtext import RawChange
from ags.workspace.scratch import scratch

How: TypeAlias = Literal["merge", "squash", "patch"]
Outcome: TypeAlias = Literal["fast-forward", "merge", "squash", "patch", "nothing"]
HEADS = "refs/heads/"
_NAMED = 10


@dataclass(frozen=True, slots=True)
class Applied:
    """The record of an apply: all that is needed to take it back."""

    ref: str
    before: str | None
    """None for a branch that had no commit yet."""
    after: str
    source: str
    outcome: Outcome
    work_tree: str | None = None
    """Whose files were taken along, for a person to read."""


class Conflict(AgsError):
    """Both sides changed the same; nothing was applied."""

    def __init__(self, ref: str, files: tuple[str, ...], command: str) -> None:
        self.files = files
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        names = ", ".join(one_line(name) for name in files[:_NAMED]) + more
        super().__init__(
            "apply",
            subject=one_line(ref.removeprefix(HEADS)),
            cause=f"the branch has other changes in the same places: {names}",
            hint=f"nothing was changed; to resolve it by hand: {command}",
        )


@dataclass(frozen=True, slots=True)
class _Target:
    ref: str
    old: str | None

    @property
    def name(self) -> str:
        return one_line(self.ref.removeprefix(HEADS))


async def apply(
    repository: Repository,
    *,
    source: str,
    base: str,
    into: str | None = None,
    how: How = "merge",
    message: str,
    person: Mapping[str, str],
    about_to: Callable[[Applied], None] = lambda applied: None,
) -> Applied:
    """Bring `source` (a branch or commit, begun at `base`) onto `into` or the current branch.

    `merge` moves the branch forward if it can, else makes a merge commit. `squash` makes one
    commit of what lies between `base` and `source`, wherever the branch has gone since. `patch`
    makes none: index and files of the checkout get the change, and the branch stays.
    `person` has `user.name` and `user.email`; those set in the repository itself come first.
    `about_to` is told what will be, before anything of the person's changes: see `recover`.
    """
    target = await _target(repository, into)
    theirs = await git.resolve(repository, source)
    start = await git.resolve(repository, base)
    held = await checkout.holder(repository, target.ref)
    async with scratch(repository, await _attributes(repository, target.old)) as bare:
        tangled = await _tangled(bare, target.old, theirs, start)
        command = _command(held, how, source, base)
        if tangled:
            command = _change_only(held, start, theirs)
        author = partial(_author, repository, person)
        join = _Join(bare, target, theirs, start, tangled, message, author, command)
        after, outcome = await (join.merged() if how == "merge" else join.squashed())
        if after == target.old:
            return Applied(target.ref, target.old, after, theirs, "nothing")
        step = await _step(bare, held, target.old, after, command)
        if outcome != "fast-forward":
            await _store(bare, repository, after, (target.old, theirs))
    place = None if held is None else utf8(str(held.work_tree))
    if how == "patch":
        if step is None:
            cause = "no work tree has this branch checked out, so there are no files to change"
            raise AgsError("apply", subject=target.name, cause=cause, hint="leave out --patch")
        outcome = "patch"
    done = Applied(target.ref, target.old, after, theirs, outcome, place)
    about_to(done)
    if outcome == "patch" and step is not None:
        await step.take()
    else:
        await _advance(repository, step, target, after, f"ags apply: {outcome} {theirs}")
    return done


async def undo(repository: Repository, applied: Applied) -> None:
    """Put the branch back, if it is still where apply left it, and its files along with it."""
    if applied.outcome == "nothing":
        raise AgsError("undo", cause="nothing had to be applied")
    target = _Target(applied.ref, await _at(repository, applied.ref))
    left_at = applied.before if applied.outcome == "patch" else applied.after
    if target.old != left_at:
        where = "is gone" if target.old is None else f"is at {target.old[:12]} by now"
        cause = f"the branch {where}, and apply left it at {(left_at or 'no commit')[:12]}"
        raise AgsError("undo", subject=target.name, cause=cause, hint=_revert(applied))
    held = await checkout.holder(repository, applied.ref)
    command = "" if held is None else _reset(held, applied)
    async with scratch(repository) as bare:
        step = await _step(bare, held, applied.after, applied.before, command)
    if applied.outcome == "patch":
        if step is None:
            raise AgsError("undo", subject=target.name, cause="no work tree has it checked out")
        await step.take()
        return
    await _advance(repository, step, target, applied.before, f"ags undo: {applied.outcome}")


async def recover(repository: Repository, applied: Applied, *, undoing: bool = False) -> bool:
    """After a kill in the midst of apply or undo: whether it came to its end.

    If not, what of the person's files had changed already is taken back.
    """
    old, new = (applied.before, applied.after)[:: -1 if undoing else 1]
    moves = applied.outcome != "patch"
    if moves and await _at(repository, applied.ref) == new:
        return True
    held = await checkout.holder(repository, applied.ref)
    if held is None:
        return False
    async with scratch(repository) as bare:
        before, after = old or await _empty_tree(bare), new or await _empty_tree(bare)
        there = await checkout.changes(bare, before, after)
        back = await checkout.changes(bare, after, before)
    if not await checkout.is_at(held, after):
        await checkout.put_back(held, there)
        return False
    if moves:
        await checkout.move(held, back, after, before, _git(held) + " status")
    return not moves


async def _target(repository: Repository, into: str | None) -> _Target:
    """The branch that is meant, links between branches followed, and where it is."""
    if into is None:
        asked = await git.run(repository, "symbolic-ref", "--quiet", "HEAD", check=False)
        if asked.code != 0:
            cause, hint = "no branch is checked out", "name one with --into BRANCH"
            raise AgsError("apply", cause=cause, hint=hint)
        ref = decode(asked.stdout).strip()
    else:
        ref = HEADS + into.removeprefix(HEADS)
    # Moving a link would move the branch it leads to, which may be checked out.
    for _ in range(5):
        link = await git.run(repository, "symbolic-ref", "--quiet", ref, check=False)
        if link.code != 0:
            break
        ref = decode(link.stdout).strip()
    valid = await git.run(repository, "check-ref-format", ref, check=False)
    if valid.code != 0 or not ref.startswith(HEADS):
        raise AgsError("apply", subject=one_line(into or ref), cause="this is no branch")
    old = await _at(repository, ref)
    if old is None and into is not None:
        hint = f"make it first: git branch {shlex.quote(into)}"
        raise AgsError("apply", subject=one_line(into), cause="there is no such branch", hint=hint)
    return _Target(ref, old)


async def _tangled(bare: Repository, old: str | None, theirs: str, base: str) -> bool:
    """Whether the agent's history parts from the branch elsewhere than its base does.

    It can name any commit of the person's as a parent, also one made since. Git would take what
    that commit has for seen and dropped, although no diff from the base shows it.
    """
    if old is None:
        return False
    asked = [
        await git.run(bare, "merge-base", "--all", old, each, check=False)
        for each in (theirs, base)
    ]
    there, expected = (set(each.text.split()) for each in asked)
    # With nothing in common git itself refuses, and says why.
    return bool(there) and there != expected


async def _at(repository: Repository, ref: str) -> str | None:
    found = await git.run(
        repository, "rev-parse", "--verify", "--quiet", "--end-of-options", ref, check=False
    )
    return found.text.strip() if found.code == 0 else None


async def _attributes(repository: Repository, commit: str | None) -> bytes:
    if commit is None:
        return b""
    found = await git.run(
        repository, "cat-file", "blob", f"{commit}:.gitattributes", check=False, most=MIB
    )
    return found.stdout if found.code == 0 else b""


def _author(repository: Repository, person: Mapping[str, str]) -> dict[str, str]:
    known = dict(person) | dict(repository.settings)
    name, email = known.get("user.name"), known.get("user.email")
    if not name or not email:
        hint = "git config --global user.name NAME; git config --global user.email ADDRESS"
        raise AgsError("apply", cause="git does not know your name and address", hint=hint)
    roles = ("AUTHOR", "COMMITTER")
    names = {f"GIT_{role}_NAME": name for role in roles}
    return names | {f"GIT_{role}_EMAIL": email for role in roles}


@dataclass(frozen=True, slots=True)
class _Join:
    """Two lines of work, and the repository of ours in which they are made one."""

    bare: Repository
    target: _Target
    theirs: str
    base: str
    tangled: bool
    message: str
    author: Callable[[], Mapping[str, str]]
    """Asked only where a commit is made: to move a branch forward takes no name."""
    command: str

    async def merged(self) -> tuple[str, Outcome]:
        old = self.target.old
        if old is None or old == self.theirs:
            return self.theirs, "fast-forward" if old is None else "nothing"
        if not self.tangled and await self._is_ancestor(old, self.theirs):
            return self.theirs, "fast-forward"
        if await self._is_ancestor(self.theirs, old):
            return old, "nothing"
        tree = await self._merge_tree(old, await self._their_change())
        if tree == await self._tree(self.theirs) and await self._is_ancestor(old, self.theirs):
            return self.theirs, "fast-forward"
        return await self._commit(tree, old, self.theirs), "merge"

    async def _their_change(self) -> str:
        """A commit to merge: theirs, or what they made of the base as if in one step."""
        if not self.tangled:
            return self.theirs
        return await self._commit(f"{self.theirs}^{{tree}}", self.base)

    async def squashed(self) -> tuple[str, Outcome]:
        old = self.target.old
        if old is None:
            return await self._commit(f"{self.theirs}^{{tree}}"), "squash"
        ours, theirs = old, await self._their_change()
        if not await self._is_ancestor(self.base, old):
            # The base is not in the branch's history (a snapshot, or the branch was rebased):
            # what the agent did is what lies between base and source, so that is what is merged.
            root = await self._commit(f"{self.base}^{{tree}}")
            ours = await self._commit(f"{old}^{{tree}}", root)
            theirs = await self._commit(f"{self.theirs}^{{tree}}", root)
        tree = await self._merge_tree(ours, theirs)
        if tree == await self._tree(old):
            return old, "nothing"
        return await self._commit(tree, old), "squash"

    async def _is_ancestor(self, one: str, other: str) -> bool:
        asked = await git.run(self.bare, "merge-base", "--is-ancestor", one, other, check=False)
        if asked.code not in (0, 1):
            raise self._failed(asked.stderr)
        return asked.code == 0

    async def _merge_tree(self, ours: str, theirs: str) -> str:
        made = await git.run(
            self.bare,
            *("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs),
            check=False,
        )
        tree, *names = made.stdout.split(b"\0")
        if made.code == 1:
            files = tuple(sorted({decode(name) for name in names if name}))
            raise Conflict(self.target.ref, files, self.command)
        if made.code != 0:
            raise self._failed(made.stderr)
        return tree.decode()

    async def _commit(self, tree: str, *parents: str) -> str:
        options = [word for parent in parents for word in ("-p", parent)]
        made = await git.run(
            self.bare,
            *("commit-tree", *options, "-F", "-", await self._tree(tree)),
            stdin=self.message.encode(errors="replace"),
            env=self.author(),
        )
        return made.text.strip()

    async def _tree(self, name: str) -> str:
        return (await git.run(self.bare, "rev-parse", "--verify", f"{name}^{{tree}}")).text.strip()

    def _failed(self, stderr: bytes) -> AgsError:
        said = stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        hint = f"to do it by hand: {self.command}"
        return AgsError("apply", subject=self.target.name, cause=one_line(said), hint=hint)


@dataclass(frozen=True, slots=True)
class _Step:
    """How the files of a checkout follow its branch; checked, not yet taken."""

    held: Repository
    there: list[RawChange]
    back: list[RawChange]
    old: str
    new: str
    command: str

    async def take(self) -> None:
        await checkout.move(self.held, self.there, self.old, self.new, self.command)

    async def take_back(self) -> None:
        await checkout.move(self.held, self.back, self.new, self.old, self.command)


async def _step(
    bare: Repository, held: Repository | None, old: str | None, new: str | None, command: str
) -> _Step | None:
    if held is None:
        return None
    before, after = old or await _empty_tree(bare), new or await _empty_tree(bare)
    there = await checkout.changes(bare, before, after)
    back = await checkout.changes(bare, after, before)
    await checkout.check(held, there, before, command)
    return _Step(held, there, back, before, after, command)


async def _empty_tree(bare: Repository) -> str:
    """Its name, which is all git needs to know it."""
    return (await git.run(bare, "hash-object", "-t", "tree", "--stdin")).text.strip()


async def _store(
    bare: Repository, repository: Repository, commit: str, known: tuple[str | None, ...]
) -> None:
    """Put a new commit, and what is new in it, among the project's objects."""
    wanted = "".join(f"{line}\n" for line in (commit, *(f"^{each}" for each in known if each)))
    pack = await git.run(
        bare, "pack-objects", "--revs", "--stdout", "-q", stdin=wanted.encode(), most=512 * MIB
    )
    await git.run(repository, "unpack-objects", "-q", stdin=pack.stdout)


async def _advance(
    repository: Repository, step: _Step | None, target: _Target, new: str | None, note: str
) -> None:
    """Files first, then the branch, which moves only from where it was seen; or neither."""
    if step is not None:
        await step.take()
    zero = "0" * (64 if repository.object_format == "sha256" else 40)
    change = ("-d", target.ref) if new is None else (target.ref, new)
    moved = await git.run(
        repository, "update-ref", "-m", note, *change, target.old or zero, check=False
    )
    if moved.code == 0:
        return
    if step is not None:
        await step.take_back()
    said = one_line(moved.stderr.decode(errors="replace").strip().removeprefix("fatal: "))
    hint = "nothing was changed; look at the branch and try again"
    raise AgsError("move the branch", subject=target.name, cause=said, hint=hint)


def _command(held: Repository | None, how: How, source: str, base: str) -> str:
    """What the person types to do the same with their own git."""
    place = _git(held) if held is not None else "git"
    if how == "merge":
        return f"{place} merge {shlex.quote(source)}"
    span = shlex.quote(f"{base}..{source}")
    return f"{place} cherry-pick --no-commit {span} && {place} commit"


def _change_only(held: Repository | None, base: str, theirs: str) -> str:
    """The same for a history that git would not merge as it was looked at."""
    place = _git(held) if held is not None else "git"
    return f"{place} diff --binary {base} {theirs} | {place} apply --3way"


def _git(held: Repository) -> str:
    return f"git -C {shlex.quote(utf8(str(held.work_tree)))}"


def _reset(held: Repository, applied: Applied) -> str:
    return f"{_git(held)} reset --keep {applied.before}" if applied.before else ""


def _revert(applied: Applied) -> str:
    if applied.outcome == "patch":
        return "`git status` shows what is left of it"
    mainline = "-m 1 " if applied.outcome == "merge" else ""
    span = applied.after
    if applied.outcome == "fast-forward" and applied.before:
        span = f"{applied.before}..{applied.after}"
    return f"git revert {mainline}{span}"
