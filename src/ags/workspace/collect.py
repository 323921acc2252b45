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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ags.errors import AgsError
from ags.model import GIB, MIB, Plan
from ags.proc import ProcessError
from ags.workspace import bundle, git, inside, lfs, private
from ags.workspace.git import Repository
from ags.workspace.tree import acting_as, shown

MOST_BUNDLE = 8 * GIB
MOST_LISTING = 256 * MIB
MOST_SECONDS = 900.0
RESULT = "refs/ags/result"
KEPT = "nothing is lost: the workspace and the run's own git directory are as the agent left them"

# Where agents keep their own settings and state. Work on them is the person's to ask for: in a
# project that has such a folder, it is like any other.
AGENT_FOLDERS = (
    *(".claude", ".codex", ".gemini", ".opencode", ".pi", ".cursor", ".aider", ".ags"),
    *(".mcp.json", ".qwen", ".crush", ".goose", ".amp"),
)

# Three lists, each ended by an empty entry: the filters that can run here; submodules; and for
# each path that is to be committed: the path, `filter`, its filter.
LOOK = (
    inside.WITHOUT
    + r"""
list=/tmp/ags-list
git rev-parse --git-dir > /dev/null || exit
for key in $(git config --name-only --get-regexp '^filter\..*\.(clean|process)$'); do
    program=$(git config --get "$key")
    command -v "${program%% *}" > /dev/null && printf '%s\0' "$key"
done
printf '\0'
git ls-files --stage -z > $list || exit
grep -az '^160000 ' < $list
printf '\0'
# To look, no filter is needed: a file that only seems changed does no harm.
without clean process required
git ls-files -z --modified --others --exclude-standard > $list || exit
if git rev-parse --quiet --verify HEAD > /dev/null; then
    git diff-index -z --cached --name-only --diff-filter=d HEAD >> $list || exit
fi
exec git check-attr -z --stdin filter < $list
"""
)

# $1 the base, $2 the message, $3 whether to go without all that has a filter, the rest: folders
# that stay as they are in HEAD. The index of the agent's is replaced only when all went well.
COMMIT = (
    inside.WITHOUT
    + r"""
base=$1 message=$2 plain=$3 list=/tmp/ags-list
shift 3
own=$(git rev-parse --path-format=absolute --git-path index) || exit
export GIT_INDEX_FILE=/tmp/ags-index
# With its time: by that git knows which files it cannot tell by theirs.
if [ -e "$own" ]; then cp -p "$own" "$GIT_INDEX_FILE" || exit; fi
cat > $list
if [ "$plain" = plain ]; then
    without clean process required
    filtered | sed -z 's/^/:(top,exclude,literal)/' >> $list || exit
fi
git add --all --sparse --pathspec-from-file=$list --pathspec-file-nul >&2 || exit
head=$(git rev-parse --quiet --verify 'HEAD^{commit}')
if [ -n "$head" ] && [ $# -gt 0 ]; then git reset --quiet "$head" -- "$@" >&2 || exit; fi
tree=$(git write-tree) || exit
if [ -z "$head" ] || [ "$tree" != "$(git rev-parse "$head^{tree}")" ]; then
    set -- ${head:+-p} ${head:+"$head"}
    head=$(git commit-tree "$@" -m "$message" "$tree") &&
        git update-ref -m 'ags: leftovers' HEAD "$head" && cp -p "$GIT_INDEX_FILE" "$own" || exit
fi
git update-ref refs/ags/result "$head" || exit
if [ -z "$(git rev-list -1 "$head" "^$base")" ]; then
    echo "same $head"
else
    exec git bundle create --quiet - refs/ags/result "^$base"
fi
"""
)


@dataclass(frozen=True, slots=True)
class Work:
    """Whose work is collected, and from where."""

    project: Repository
    workspace: Path
    git_dir: Path
    """The private one of the run."""
    branch: str
    base: str
    author: Mapping[str, str]
    """`user.name` and `user.email`, as far as the person has set them."""
    message: str = "Work that the agent left uncommitted"


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
    seen, tracked = await asyncio.gather(_look(work, runner, plan), _tracked_folders(work))
    choice = choose(seen, tuple(name for name in AGENT_FOLDERS if name not in tracked))
    with output.open("w+b") as file:
        choice = await _commit_all(work, runner, plan, seen, choice, file, most)
        commit = await receive(work, file, most=most)
    missing = await lfs.bring(work.project, work.git_dir, work.base, commit)
    await _move_branch(work, commit, expected)
    return await _describe(work, commit, (*choice.left_out, *missing))


@dataclass(frozen=True, slots=True)
class Seen:
    """What `LOOK` saw: an agent's word, every byte of it."""

    ready: frozenset[str]
    submodules: tuple[str, ...]
    paths: tuple[tuple[str, str], ...]
    """Each with its filter."""


def parse(listing: bytes) -> Seen:
    words = os.fsdecode(listing).split("\0")
    first = words.index("")
    second = words.index("", first + 1)
    rest = words[second + 1 : -1]
    ready = (key.split(".", 1)[1].rpartition(".")[0] for key in words[:first] if "." in key)
    return Seen(
        frozenset(ready),
        tuple(word.partition("\t")[2] for word in words[first + 1 : second]),
        tuple(zip(rest[::3], rest[2::3], strict=True)),
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """Everything is collected but these, each for a reason that is told."""

    paths: tuple[str, ...]
    folders: tuple[str, ...]
    left_out: tuple[str, ...]


def choose(seen: Seen, agent_folders: Sequence[str]) -> Choice:
    """Decide what stays behind."""
    paths = dict.fromkeys(seen.submodules)
    folders: dict[str, None] = {}
    notes: list[str] = []
    modules = set(seen.submodules)
    for path, filter_ in seen.paths:
        top = path.split("/", 1)[0]
        if top in agent_folders:
            folders[top] = None
        elif path in modules:
            notes.append(f"{shown(path)}: a submodule, whose commits stay in the workspace")
        elif path.endswith("/"):
            paths[path.rstrip("/")] = None
            notes.append(f"{shown(path)}: a repository of its own")
        elif filter_ not in ("unspecified", "unset", "set", "") and filter_ not in seen.ready:
            paths[path] = None
            notes.append(
                f"{shown(path)}: its filter {shown(filter_)!r} does not work in the sandbox"
            )
    notes += [
        f"{name}: settings of an agent's, which the project does not track" for name in folders
    ]
    return Choice(tuple(paths), tuple(agent_folders), tuple(notes))


async def _look(work: Work, runner: inside.Runner, plan: Plan) -> Seen:
    with tempfile.TemporaryFile() as listing:
        said = await inside.run(
            runner,
            plan,
            inside.Script(LOOK),
            workspace=PurePosixPath(work.workspace),
            limits=replace(plan.limits, timeout=MOST_SECONDS, file_size=MOST_LISTING),
            output=listing.fileno(),
        )
        listing.seek(0)
        try:
            if said.code == 0:
                return parse(listing.read(MOST_LISTING + 1))
        except ValueError:
            pass
    raise inside.failed("look for uncommitted work", work.workspace, said, KEPT)


async def _tracked_folders(work: Work) -> frozenset[str]:
    listed = await git.run(
        work.project, "ls-tree", "-z", "--name-only", work.base, "--", *AGENT_FOLDERS
    )
    return frozenset(listed.text.split("\0"))


async def _commit_all(
    work: Work,
    runner: inside.Runner,
    plan: Plan,
    seen: Seen,
    choice: Choice,
    file: BinaryIO,
    most: int,
) -> Choice:
    """Commit what was chosen; without what has a filter, if that breaks off."""
    try:
        await _commit(work, runner, plan, choice, file, most)
        return choice
    except AgsError:
        fewer = choose(replace(seen, ready=frozenset()), choice.folders)
        if fewer.paths == choice.paths:
            raise
    file.seek(0)
    file.truncate()
    await _commit(work, runner, plan, fewer, file, most, plain=True)
    return fewer


async def _commit(
    work: Work,
    runner: inside.Runner,
    plan: Plan,
    choice: Choice,
    file: BinaryIO,
    most: int,
    *,
    plain: bool = False,
) -> None:
    name = work.author.get("user.name") or "agent"
    email = work.author.get("user.email") or "agent@localhost"
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
           for key, value in (("NAME", name), ("EMAIL", email))}  # fmt: skip
    arguments = (work.base, work.message, "plain" if plain else "", *choice.folders)
    said = await inside.run(
        runner,
        plan,
        inside.Script(COMMIT, arguments, tuple(who.items())),
        workspace=PurePosixPath(work.workspace),
        limits=replace(plan.limits, timeout=MOST_SECONDS, file_size=most),
        output=file.fileno(),
        stdin=b"".join(_pathspecs(choice)),
    )
    if said.code != 0:
        raise inside.failed("commit the agent's work", work.workspace, said, KEPT)


def _pathspecs(choice: Choice) -> Iterator[bytes]:
    yield b":(top)\0"
    for path in (*choice.paths, *choice.folders):
        yield b":(top,exclude,literal)" + os.fsencode(path) + b"\0"


async def receive(work: Work, file: BinaryIO, *, most: int = MOST_BUNDLE) -> str:
    """Take a stranger's bundle into the repository; the commit it brings, with no ref on it."""
    project = work.project
    if os.fstat(file.fileno()).st_size > most:
        raise AgsError(
            "take in the agent's work", cause=f"it is larger than {most} bytes", hint=KEPT
        )
    file.seek(0)
    head = file.read(MIB)
    if same := re.fullmatch(rb"same ([0-9a-f]{40,64})\n", head):
        commit = same[1].decode()
        if not await _is_ancestor(project, commit, work.base):
            raise AgsError(
                "take in the agent's work", cause="it names a commit that is not its own"
            )
        return commit
    header = bundle.read(head, project.object_format, RESULT)
    # In a partial clone it is no fault that an object is missing.
    partial = project.is_partial
    with _apart(project) as (objects, environment):
        os.lseek(file.fileno(), header.length, os.SEEK_SET)
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
                *(header.commit, "--not", work.base),
                env=environment,
                timeout=MOST_SECONDS,
            )
        except ProcessError as error:
            raise AgsError(
                "take in the agent's work",
                subject=work.branch,
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


async def _move_branch(work: Work, commit: str, expected: str | None) -> None:
    ref = f"refs/heads/{work.branch}"
    old = expected or "0" * len(commit)
    try:
        await git.run(work.project, "update-ref", "-m", "ags: collected", ref, commit, old)
    except ProcessError as error:
        there = await git.run(work.project, "rev-parse", "--verify", "--quiet", ref, check=False)
        taken = there.text.strip() not in ("", expected)
        raise AgsError(
            "make the branch",
            subject=work.branch,
            cause="there is one by that name, and it is not as this run left it"
            if taken
            else error.said,
            hint=f"the work is commit {commit}: `git branch NAME {commit}` keeps it",
        ) from error


async def _is_ancestor(project: Repository, one: str, other: str) -> bool:
    asked = await git.run(project, "merge-base", "--is-ancestor", one, other, check=False)
    return asked.code == 0


async def _describe(work: Work, commit: str, left_out: tuple[str, ...]) -> Collected:
    flags = ("--name-only", "--no-renames", "--no-ext-diff", "--no-textconv")
    changed, counted, on_base = await asyncio.gather(
        git.run(work.project, "diff-tree", "-r", "-z", *flags, work.base, commit),
        git.run(work.project, "rev-list", "--count", commit, "--not", work.base),
        _is_ancestor(work.project, work.base, commit),
    )
    return Collected(commit, changed.stdout.count(b"\0"), int(counted.text), on_base, left_out)
