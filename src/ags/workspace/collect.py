"""An agent's work, brought back into the person's repository as a branch.

All that reads what the agent left runs in a sandbox without network: leftovers are committed
there, and a bundle comes out of it. The host reads the bundle as it would a stranger's: objects
are checked one by one in a place apart, and join the repository only when all is well.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ags.errors import AgsError
from ags.model import GIB, MIB, Plan
from ags.proc import ProcessError
from ags.workspace import bundle, git, inside, leftovers, lfs, private
from ags.workspace.git import Repository
from ags.workspace.leftovers import KEPT
from ags.workspace.leftovers import MOST_SECONDS as MOST_SECONDS
from ags.workspace.leftovers import Work as Work
from ags.workspace.tree import acting_as, shown

MOST_BUNDLE = 8 * GIB
RESULT = "refs/ags/result"


@dataclass(frozen=True, slots=True)
class Collected:
    """What came back."""

    commit: str
    files: int
    """How many differ from the base."""
    commits: int
    """How many are new."""
    on_base: bool
    """Whether the base is an ancestor: an agent may rewrite history."""
    left_out: tuple[str, ...] = ()


async def collect(
    work: Work,
    runner: inside.Runner,
    plan: Plan,
    *,
    output: Path,
    expected: str | None = None,
    most: int = MOST_BUNDLE,
) -> Collected:
    """Commit what is left, and bring it to `work.branch`, which must be at `expected` or absent.

    `plan` is the run's own: its mounts, without network. `output` is where the bundle stays.
    """
    if not private.BRANCH.fullmatch(work.branch):
        raise AgsError("collect the work", subject=shown(work.branch), cause="no branch of a run's")
    with output.open("w+b") as file:
        left_out = await leftovers.commit(work, runner, plan, file, most)
        commit = await receive(work, file, most=most)
    missing = await lfs.bring(work.project, work.git_dir, work.base, commit)
    described, _ = await asyncio.gather(
        _describe(work, commit, (*left_out, *missing)),
        move_branch(work.project, work.branch, commit, expected),
    )
    return described


async def receive(work: Work, file: BinaryIO, *, most: int = MOST_BUNDLE) -> str:
    """Take a stranger's bundle into the repository; the commit it brings, with no ref on it."""
    return await take_in(work.project, file, base=work.base, subject=work.branch, most=most)


async def take_in(
    project: Repository,
    file: BinaryIO,
    *,
    base: str | None,
    subject: str,
    at: int = 0,
    most: int = MOST_BUNDLE,
) -> str:
    """The bundle begins `at` some byte of the file; all of `base` is in the project."""
    if os.fstat(file.fileno()).st_size > most:
        raise AgsError(
            "take in the agent's work", cause=f"it is larger than {most} bytes", hint=KEPT
        )
    file.seek(at)
    head = file.read(MIB)
    if same := re.fullmatch(rb"same ([0-9a-f]{40,64})\n", head):
        commit = same[1].decode()
        if base is None or not await is_ancestor(project, commit, base):
            raise AgsError(
                "take in the agent's work", cause="it names a commit that is not its own"
            )
        return commit
    header = bundle.read(head, project.object_format, RESULT)
    # In a partial clone it is no fault that an object is missing.
    partial = project.is_partial
    with _apart(project) as (objects, environment):
        os.lseek(file.fileno(), at + header.length, os.SEEK_SET)
        try:
            await git.run(
                project,
                *("index-pack", "--stdin", "--fix-thin", f"--max-input-size={most}"),
                "--fsck-objects" if partial else "--strict",
                stdin=file.fileno(),
                env=environment,
                timeout=MOST_SECONDS,
            )
            # All that the commit needs is there, which a stranger's bundle need not hold.
            await git.run(
                project,
                *(
                    "rev-list",
                    "--objects",
                    "--quiet",
                    *(["--missing=allow-any"] if partial else []),
                ),
                *(header.commit, *(("--not", base) if base else ())),
                env=environment,
                timeout=MOST_SECONDS,
            )
        except ProcessError as error:
            raise AgsError(
                "take in the agent's work",
                subject=subject,
                cause=inside.shown_lines(error.said) or error.cause,
                hint=KEPT,
            ) from error
        _join(objects, project)
    return header.commit


@contextmanager
def _apart(project: Repository) -> Iterator[tuple[Path, dict[str, str]]]:
    """Room for objects that are not trusted yet. Git, too, takes one of this name for debris."""
    store = project.common / "objects"
    with acting_as(project.owner):
        made = Path(tempfile.mkdtemp(prefix="tmp_objdir-ags-", dir=store))
        (made / "pack").mkdir()
    try:
        yield (
            made,
            {
                "GIT_OBJECT_DIRECTORY": str(made),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(store),
            },
        )
    finally:
        with acting_as(project.owner):
            shutil.rmtree(made, ignore_errors=True)


def _join(objects: Path, project: Repository) -> None:
    """The index last: git sees a pack when it sees its index."""
    order = {".pack": 0, ".rev": 1, ".idx": 2}
    packs = sorted((objects / "pack").iterdir(), key=lambda path: order.get(path.suffix, 1))
    with acting_as(project.owner):
        for path in packs:
            path.rename(project.common / "objects/pack" / path.name)


async def move_branch(project: Repository, branch: str, commit: str, expected: str | None) -> None:
    """Put a run's branch on the commit. It must be at `expected` or absent."""
    ref = f"refs/heads/{branch}"
    old = expected or "0" * len(commit)
    try:
        await git.run(project, "update-ref", "-m", "ags: collected", ref, commit, old)
    except ProcessError as error:
        there = await git.run(project, "rev-parse", "--verify", "--quiet", ref, check=False)
        if there.text.strip() == commit:  # put there by one of us who was killed right after
            return
        taken = there.text.strip() not in ("", expected)
        raise AgsError(
            "make the branch",
            subject=branch,
            cause="there is one by that name, and it is not as this run left it"
            if taken
            else error.said,
            hint=f"the work is commit {commit}: `git branch NAME {commit}` keeps it",
        ) from error


async def is_ancestor(project: Repository, one: str, other: str) -> bool:
    """A commit is one of its own, too."""
    asked = await git.run(project, "merge-base", "--is-ancestor", one, other, check=False)
    return asked.code == 0


async def _describe(work: Work, commit: str, left_out: tuple[str, ...]) -> Collected:
    flags = ("--name-only", "--no-renames", "--no-ext-diff", "--no-textconv")
    changed, counted = await asyncio.gather(
        git.run(work.project, "diff-tree", "-r", "-z", *flags, work.base, commit),
        git.run(work.project, "rev-list", "--left-right", "--count", f"{work.base}...{commit}"),
    )
    lost, new = map(int, counted.text.split())
    return Collected(commit, changed.stdout.count(b"\0"), new, lost == 0, left_out)
