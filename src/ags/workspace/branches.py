"""What an agent committed elsewhere than where it ended: other branches, and a stash.

It is not part of the work, but it is nowhere else either: refs of ours hold it in the project.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath

from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Plan
from ags.workspace import apart, collect, git, inside, private
from ags.workspace.git import Repository
from ags.workspace.tree import closing, descend, shown

HEADS, STASH = "refs/heads/", "refs/stash"
KEPT = "refs/ags/branch"
MOST, DEEPEST, NAMED = 500, 20, 10

PACKED_FILE = "packed-refs"
PACKED = re.compile(rb"([0-9a-f]{40,64}) (refs/heads/.+|refs/stash)")
PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|[./](?=[A-Za-z0-9_-])){0,80}")

# $1 $2 see `apart.SCRIPT`; $3 commits that the project has, the rest those that it wants. One that
# has them all as parents makes one bundle of them.
BUNDLE = (
    apart.SCRIPT
    + r"""
known=$3
shift 3
parents=
for commit; do ! git cat-file -e "$commit^{commit}" || parents="$parents -p $commit"; done
all=$(git commit-tree $parents -m branches "$(git mktree < /dev/null)") || exit
git update-ref refs/ags/result "$all" || exit
exec git bundle create --quiet - refs/ags/result $known
"""
)


@frozen
class Source:
    """An agent's git directory, and what of it came to the project already."""

    project: Repository
    workspace: Path
    git_dir: Path
    branch: str
    """The run's."""
    known: tuple[str, ...]
    """Commits of it that the project has and keeps."""


@frozen
class Refs:
    """What each leads to, and where there may be more that cannot be read."""

    found: Mapping[str, str]
    unread: tuple[str, ...]


async def bring(own: Source, runner: inside.Runner, plan: Plan) -> tuple[str, ...]:
    """Hold what is on no ref of the person's. Tells what there is, and never fails."""
    wanted: dict[str, str] = {}
    refs = _refs(own.git_dir)
    left = []
    if refs.unread:
        places = _few(map(shown, refs.unread), len(refs.unread))
        left.append(f"branches of the agent's in {places} {_until_removed(own)}")
    try:
        found = await _unknown(own, refs.found)
        if (more := len(found) - MOST) > 0:
            some = f"{more:,} further {'branch' if more == 1 else 'branches'} of the agent's"
            left.append(f"{some} (only {MOST} are looked at) {_until_removed(own)}")
        for name, at in list(found.items())[:MOST]:
            if not await _is_held(own, at):
                wanted[name] = at
        if missing := [each for each in wanted.values() if not await _has(own.project, each)]:
            await _fetch(own, missing, runner, plan)
        return (*await _hold(own, wanted), *left)
    except AgsError as error:
        names = _few(map(_shown, sorted(wanted)), len(wanted))
        return (
            f"commits on other branches of the agent's ({names}) were not brought back:"
            f" {error.cause}; they are in {own.git_dir} until the run is removed",
            *left,
        )


def _few(names: Iterable[str], count: int) -> str:
    more = f" and {count - NAMED:,} more" if count > NAMED else ""
    return ", ".join(islice(names, NAMED)) + more


def _until_removed(own: Source) -> str:
    return f"were not brought back: they are in {own.git_dir} until the run is removed"


async def _unknown(own: Source, refs: Mapping[str, str]) -> dict[str, str]:
    """Those that are at no place where a ref of the person's is."""
    listed = await git.run(own.project, "for-each-ref", "--format=%(objectname)")
    held = {*listed.text.split(), *own.known}
    return {name: at for name, at in sorted(refs.items()) if at not in held}


async def _is_held(own: Source, commit: str) -> bool:
    refs = ("--not", "--branches", "--tags", "--remotes", *own.known)
    asked = await git.run(own.project, "rev-list", "-n1", commit, *refs, check=False)
    return asked.code == 0 and not asked.text


async def _has(project: Repository, commit: str) -> bool:
    """With all that it needs."""
    asked = await git.run(
        project, "rev-list", "--objects", "--quiet", commit, "--not", "--all", check=False
    )
    return asked.code == 0


async def _fetch(own: Source, missing: Sequence[str], runner: inside.Runner, plan: Plan) -> None:
    place = private.INSIDE if (own.workspace / ".git").is_file() else own.workspace / ".git"
    known = " ".join(f"^{each}" for each in own.known)
    settings = git.as_environment(inside.SETTINGS | apart.SETTINGS)
    words = (str(place), own.project.object_format, known, *missing)
    with tempfile.TemporaryFile() as file:
        said = await inside.run(
            runner,
            plan,
            inside.Script(BUNDLE, words, tuple((apart.ENVIRONMENT | settings).items())),
            workspace=PurePosixPath(own.workspace),
            limits=replace(
                plan.limits, timeout=collect.MOST_SECONDS, file_size=collect.MOST_BUNDLE
            ),
            output=file.fileno(),
        )
        if said.code != 0:
            raise inside.failed("bring other branches", own.branch, said, "")
        base = own.known[0] if own.known else None
        await collect.take_in(own.project, file, base=base, subject=own.branch)


async def _hold(own: Source, wanted: Mapping[str, str]) -> tuple[str, ...]:
    notes = []
    for number, (name, commit) in enumerate(wanted.items()):
        if not await _has(own.project, commit):
            notes.append(f"{_shown(name)}: a branch of the agent's that leads to no commit")
            continue
        short = name.removeprefix(HEADS).removeprefix("refs/")
        word = short if PLAIN.fullmatch(short) and ".lock" not in short else str(number)
        ref = f"{KEPT}/{own.branch}/{word}-{commit[:12]}"
        await git.run(own.project, "update-ref", ref, commit)
        notes.append(
            f"{_shown(name)} of the agent's has commits that are not in its work:"
            f" `git branch NAME {ref}` brings them back, `git update-ref -d {ref}` drops them"
        )
    return tuple(notes)


def _shown(ref: str) -> str:
    return f"the branch {shown(ref.removeprefix(HEADS))}" if ref != STASH else "the stash"


def _refs(git_dir: Path) -> Refs:
    """As the files have them: an agent's word."""
    unread: list[str] = []
    packed = private.content(git_dir, PACKED_FILE)
    if packed is None and os.path.lexists(git_dir / PACKED_FILE):
        unread.append(PACKED_FILE)
    matches = (PACKED.fullmatch(line) for line in (packed or b"").split(b"\n"))
    found = {os.fsdecode(match[2]): match[1].decode() for match in matches if match}
    with closing(os.open(git_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as top:
        names = [STASH, *_files(top, ("refs", "heads"), unread)]
    for name in names:
        text = (private.content(git_dir, name) or b"").strip()
        if re.fullmatch(rb"[0-9a-f]{40,64}", text):
            found[name] = text.decode()
    return Refs(found, tuple(unread))


def _files(top: int, place: tuple[str, ...], unread: list[str]) -> Iterator[str]:
    try:
        with (
            closing(descend(top, place)) as folder,
            closing(os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)) as here,
            os.scandir(here) as entries,
        ):
            found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
    except FileNotFoundError:
        return  # all are packed
    except OSError:
        unread.append("/".join(place))
        return
    for name, is_folder in found:
        if not is_folder:
            yield "/".join((*place, name))
        elif len(place) < DEEPEST:
            yield from _files(top, (*place, name), unread)
        else:
            unread.append("/".join((*place, name)))
