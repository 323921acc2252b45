"""What an agent left uncommitted, committed and bundled inside a sandbox."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ags.errors import AgsError
from ags.model import MIB, Plan
from ags.workspace import git, inside
from ags.workspace.git import Repository
from ags.workspace.tree import shown

MOST_LISTING = 256 * MIB
MOST_SECONDS = 900.0
PATIENCE = 15.0
"""Seconds for a first look; after that whatever git may be waiting at is cleared away."""
SPECIAL = b"special\0"
KEPT = "nothing is lost: the workspace and the run's own git directory are as the agent left them"

# Where agents keep their own settings and state. Work on them is the person's to ask for: in a
# project that has such a folder, it is like any other.
AGENT_FOLDERS = (
    *(".claude", ".codex", ".gemini", ".opencode", ".pi", ".cursor", ".aider", ".ags"),
    *(".mcp.json", ".qwen", ".crush", ".goose", ".amp"),
)

# Four lists, each but the last ended by an empty entry: the filters that can run here; submodules;
# what cannot be read, folders with a slash; and for each path that is to be committed: the path,
# `filter`, its filter.
LOOKING = (
    inside.WITHOUT
    + r"""
list=/tmp/ags-list
look() {
    git rev-parse --git-dir > /dev/null || exit
    for key in $(git config --name-only --get-regexp '^filter\..*\.(clean|process)$'); do
        program=$(git config --get "$key")
        command -v "${program%% *}" > /dev/null && printf '%s\0' "$key"
    done
    printf '\0'
    git ls-files --stage -z > $list || exit
    grep -az '^160000 ' < $list
    printf '\0'
    find . -path ./.git -prune -o -type f ! -readable -printf '%P\0' -o \
        -type d \( ! -readable -o ! -executable \) -printf '%P/\0' -prune | sort -z > $list-shut
    git check-ignore -z --stdin < $list-shut | sort -z | comm -z -13 - $list-shut
    printf '\0'
    # To look, no filter is needed: a file that only seems changed does no harm.
    without clean process required
    git ls-files -z --modified --others --exclude-standard > $list || exit
    if git rev-parse --quiet --verify HEAD > /dev/null; then
        git diff-index -z --cached --name-only --diff-filter=d HEAD >> $list || exit
    fi
    exec git check-attr -z --stdin filter < $list
}
"""
)

# $1 the base, $2 the message, $3 a pattern for paths of agents' settings. Where nothing is special
# about what was left, it is committed at once; else `special` is told, and what is there to choose
# from. Wherever this ends early, nothing is lost: the longer way begins anew.
AT_ONCE = (
    LOOKING
    + inside.SOUND
    + r"""
base=$1 message=$2 agents=$3
if [ -d .git ]; then own=$PWD/.git; else own=/ags/git; fi
sound "$own"
none() { grep -aqzE "$1" "$2"; [ $? = 1 ]; }
# Git reads these wherever they are, and settings can have it read anything.
unblock() {
    find . -path ./.git -prune -o -name '.git?*' ! -type f ! -type d ! -type l -exec rm -f {} +
    for file in "$own/config" "$own/config.worktree"; do
        set -- git -C / config --file "$file"
        for key in $("$@" --name-only --get-regexp '^include(if\..*)?\.path$')
        do "$@" --unset-all "$key"; done
    done
    set -- git -C / config --file "$own/config" --replace-all
    "$@" core.excludesFile "$own/info/global-exclude"
    "$@" core.attributesFile "$own/info/global-attributes"
}
plain() (
    git() { timeout SECONDS git "$@" || { [ $? != 124 ] || : > $list-waited; false; }; }
    # Here, too, no filter is needed to look.
    without '(clean|process|required)'
    git status --porcelain=v2 -z --no-renames --untracked-files=all --ignore-submodules=none \
        > $list 2> $list-said || exit
    ! grep -aq 'Permission denied' $list-said || exit
    # Unmerged, a submodule, a repository of its own.
    none '^u|^1 .. S|/$' $list || exit
    sed -zE 's/^[?] //; s/^1 .. .... [0-7]+ [0-7]+ [0-7]+ [0-9a-f]+ [0-9a-f]+ //' \
        < $list > $list-paths || exit
    none "$agents" $list-paths || exit
    git check-attr -z --stdin filter < $list-paths > $list-filters || exit
    [ "$(grep -acxz unspecified $list-filters)" = "$(tr -dc '\0' < $list-paths | wc -c)" ]
)
if ! plain; then
    [ ! -e $list-waited ] || unblock
    printf 'special\0'
    look
    exit
fi
found=$(git rev-parse --path-format=absolute 'HEAD^{commit}' 'HEAD^{tree}' --git-path index) || exit
set -- $found
head=$1 own=$3
if [ -s $list ]; then
    export GIT_INDEX_FILE=/tmp/ags-index
    # With its time: by that git knows which files it cannot tell by theirs.
    if [ -e "$own" ]; then cp -p "$own" "$GIT_INDEX_FILE" || exit; fi
    # Not `add --all`, which would look for all of them once more.
    git update-index --add --remove --replace -z --stdin < $list-paths >&2 || exit
    # Without a look for every object of every folder that changed: a bundle needs them all anyway.
    tree=$(git write-tree --missing-ok) || exit
    if [ "$tree" != "$2" ]; then
        head=$(git commit-tree -p "$1" -m "$message" "$tree") || exit
        printf 'update HEAD %s\nupdate refs/ags/result %s\n' "$head" "$head" |
            git update-ref -m 'ags: leftovers' --stdin && cp -p "$GIT_INDEX_FILE" "$own" || exit
        exec git bundle create --quiet - refs/ags/result "^$base"
    fi
fi
git update-ref refs/ags/result "$head" || exit
if [ -z "$(git rev-list -1 "$head" "^$base")" ]; then
    echo "same $head"
else
    exec git bundle create --quiet - refs/ags/result "^$base"
fi
"""
).replace("SECONDS", f"{PATIENCE:g}")

LOOK = LOOKING + "look\n"

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
class Seen:
    """What `LOOK` saw: an agent's word, every byte of it."""

    ready: frozenset[str]
    submodules: tuple[str, ...]
    paths: tuple[tuple[str, str], ...]
    """Each with its filter."""
    shut: tuple[str, ...] = ()
    """What cannot be read; folders end with a slash."""


def parse(listing: bytes) -> Seen:
    words = os.fsdecode(listing).split("\0")
    first = words.index("")
    second = words.index("", first + 1)
    third = words.index("", second + 1)
    rest = words[third + 1 : -1]
    ready = (key.split(".", 1)[1].rpartition(".")[0] for key in words[:first] if "." in key)
    return Seen(
        frozenset(ready),
        tuple(word.partition("\t")[2] for word in words[first + 1 : second]),
        tuple(zip(rest[::3], rest[2::3], strict=True)),
        tuple(words[second + 1 : third]),
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """Everything is collected but these, each for a reason that is told."""

    paths: tuple[str, ...]
    folders: tuple[str, ...]
    left_out: tuple[str, ...]


def choose(seen: Seen, agent_folders: Sequence[str]) -> Choice:
    """Decide what stays behind."""
    shut = tuple(path for path in seen.shut if path.split("/", 1)[0] not in agent_folders)
    paths = dict.fromkeys((*seen.submodules, *(path.rstrip("/") for path in shut)))
    folders: dict[str, None] = {}
    notes = [f"{shown(path)}: a folder that cannot be read" for path in shut if path[-1] == "/"]
    modules = set(seen.submodules)
    for path, filter_ in seen.paths:
        top = path.split("/", 1)[0]
        if top in agent_folders:
            folders[top] = None
        elif path in shut:
            notes.append(f"{shown(path)}: a file that cannot be read")
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


async def commit(
    work: Work, runner: inside.Runner, plan: Plan, file: BinaryIO, most: int
) -> tuple[str, ...]:
    """Into `file` a bundle of all since the base, or `same` and a commit. What was left out."""
    seen = await _at_once(work, runner, plan, file, most)
    if seen is None:
        return ()
    tracked = await _tracked_folders(work)
    choice = choose(seen, tuple(name for name in AGENT_FOLDERS if name not in tracked))
    _empty(file)
    return (await _commit_all(work, runner, plan, seen, choice, file, most)).left_out


async def _at_once(
    work: Work, runner: inside.Runner, plan: Plan, file: BinaryIO, most: int
) -> Seen | None:
    """None if all is committed; else what there is to choose from."""
    agents = "^({})(/|$)".format("|".join(map(re.escape, AGENT_FOLDERS)))
    said = await inside.run(
        runner,
        plan,
        inside.Script(AT_ONCE, (work.base, work.message, agents), _who(work)),
        workspace=PurePosixPath(work.workspace),
        limits=replace(plan.limits, timeout=MOST_SECONDS, file_size=most),
        output=file.fileno(),
    )
    if said.stopped_by:
        raise inside.failed("commit the agent's work", work.workspace, said, KEPT)
    if said.code != 0:
        return await _look(work, runner, plan)
    file.seek(0)
    if file.read(len(SPECIAL)) != SPECIAL:
        return None
    return _parsed(work, said, file)


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
        return _parsed(work, said, listing)


def _parsed(work: Work, said: inside.Said, listing: BinaryIO) -> Seen:
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
        # A file that was only touched is not among the paths, but goes through its filter, too.
        if fewer.paths == choice.paths and not seen.ready:
            raise
    _empty(file)
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
    arguments = (work.base, work.message, "plain" if plain else "", *choice.folders)
    said = await inside.run(
        runner,
        plan,
        inside.Script(COMMIT, arguments, _who(work)),
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


def _who(work: Work) -> tuple[tuple[str, str], ...]:
    name = work.author.get("user.name") or "agent"
    email = work.author.get("user.email") or "agent@localhost"
    return tuple(
        (f"GIT_{role}_{key}", value)
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", name), ("EMAIL", email))
    )


def _empty(file: BinaryIO) -> None:
    file.seek(0)
    file.truncate()
