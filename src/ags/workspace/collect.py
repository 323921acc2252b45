"""An agent's work, brought back into the person's repository as a branch.

All that reads what the agent left runs in a sandbox without network: leftovers are committed
there, and a bundle comes out of it. The host reads the bundle as it would a stranger's: objects
are checked one by one in a place apart, and join the repository only when all is well.
"""

from __future__ import annotations

import asyncio
import functools
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
from ags.text import encode
from ags.workspace import bundle, git, inside, leftovers, lfs, private
from ags.workspace.git import Repository
from ags.workspace.leftovers import KEPT
from ags.workspace.leftovers import MOST_SECONDS as MOST_SECONDS
from ags.workspace.leftovers import Work as Work
from ags.workspace.patchtext import parse_raw
from ags.workspace.tree import acting_as, shown

MOST_BUNDLE = 8 * GIB
RESULT = "refs/ags/result"

# A commit of the files exactly as they lie there, for `inplace`. $1 $2 see `private.APART`. At the
# end of a run also: $3 HEAD and $4 the snapshot at its start, $5 $6 $7 the time and length of that
# one's index and the length of the excludes; both come in first, then what stays left out. Out go:
# three numbers for what follows (the length of a listing, the length and the time of the index),
# those two, and a bundle.
SNAPSHOT = (
    private.APART
    + r"""
base=$3 start=$4 list=/tmp/ags-list left=/tmp/ags-left out=/tmp/ags-out named=/tmp/ags-named
export GIT_INDEX_FILE=/tmp/ags-index
: > $named
if [ -n "$start" ]; then
    head -c "$6" > $GIT_INDEX_FILE && head -c "$7" > $GIT_DIR/info/exclude && cat > $left || exit
    # By the time of its index git knows which files it cannot tell by theirs.
    touch -d "@$5" $GIT_INDEX_FILE || exit
else
    for file in "$own"/sharedindex.*; do [ ! -f "$file" ] || cp -p "$file" $GIT_DIR/ || exit; done
    [ ! -f "$own/index" ] || cp -p "$own/index" $GIT_INDEX_FILE || exit
    cat "$own/info/global-exclude" "$own/info/exclude" > $GIT_DIR/info/exclude 2> /dev/null
    : > $left
    git ls-files -s -v -z > $list || exit
    grep -az '^. 160000 ' < $list | sed -z 's/^[^\t]*\t//' > $named
    # What git was told not to look at, or is not there in a sparse checkout.
    grep -az '^[a-zS] ' < $list | sed -z 's/^[^\t]*\t//' | cat - $named > $out
    git update-index --force-remove -z --stdin < $out || exit
    case $(git config --file "$own/config" core.autocrlf) in ''|false) ;; *) echo ;; esac > $out
    git ls-files -z -c -o --exclude-standard -- ':(glob)**/.gitattributes' |
        xargs -0 grep -sE -e 'text|eol|filter|ident|encoding|crlf|attr' -- \
        "$own/info/attributes" "$own/info/global-attributes" >> $out
    if [ -s $out ]; then
        # What the index knows may be another form of the file: every file is read.
        git ls-files -s -z > $list && rm -f $GIT_INDEX_FILE || exit
        git update-index -z --index-info < $list || exit
    fi
fi
enter() {
    # A folder may have become a link: what git knows of behind it is gone.
    xargs -0 -r sh -c 'for path; do
        way=$path behind=
        while [ "${way%/*}" != "$way" ]; do way=${way%/*}; [ ! -L "$way" ] || behind=1; done
        if [ "$behind" ]; then printf "%s\0" "$path" >&5
        elif [ "${path%/}" = "$path" ] && { [ -L "$path" ] || [ ! -e "$path" ] || [ -d "$path" ] ||
            { [ -f "$path" ] && [ -r "$path" ]; }; }
        then printf "%s\0" "$path" >&3
        else printf "%s\0" "$path" >&4; fi
    done' ags < $list 3> /tmp/ags-in 4> $out 5> /tmp/ags-behind &&
    git update-index --force-remove -z --stdin < /tmp/ags-behind >&2 &&
    git update-index --add --remove --replace -z --stdin < /tmp/ags-in >&2 &&
    git update-index --force-remove -z --stdin < $out >&2 && cat $out >> $named
}
git update-index -q --refresh > /dev/null
# At the end by the rules of the start: an agent's own would hide from the person what it made.
rules=--exclude-standard
[ -z "$start" ] || rules=--exclude-from=$GIT_DIR/info/exclude
git ls-files -z -m > $list && git ls-files -z -o $rules -X $left >> $list || exit
enter || exit
if [ -n "$start" ] && [ -f "$own/index" ]; then
    # Files that the agent has git track although they are ignored.
    GIT_INDEX_FILE="$own/index" git ls-files -z 2> /dev/null | sort -zu > $list
    git ls-files -z | sort -zu | comm -z -13 - $list > $out
    if [ -s $out ]; then
        git ls-files -z -o -X $left | sort -zu | comm -z -12 - $out > $list
        enter || exit
    fi
fi
tree=$(git write-tree --missing-ok) || exit
is() { [ -n "$1" ] && [ "$tree" = "$(git rev-parse "$1^{tree}")" ]; }
if [ "$head" = "$base" ] && is "$start"; then commit=$start
elif is "$head"; then commit=$head
else commit=$(git commit-tree ${head:+-p "$head"} -m 'ags: files as they were' "$tree") || exit
fi
{ printf '%s\0' "$commit" "$head" "$branch"; cat $named; printf '\0'; } > $list
[ -e $GIT_INDEX_FILE ] || : > $GIT_INDEX_FILE
if [ -z "$start" ]; then
    git ls-files -z -o -i --exclude-standard --directory >> $list
    # With its old time put back, a file whose time of change is this second would look the same.
    [ ! -s $GIT_INDEX_FILE ] ||
        git ls-files --debug | awk -v now="$(date +%s)" '/^  ctime:/ { changed = $2 + 0 }
        /^  mtime:/ && changed >= now && $2 + 0 < changed { exit 1 }' || sleep 1
fi
echo "$(wc -c < $list) $(wc -c < $GIT_INDEX_FILE) $(stat -c %Y $GIT_INDEX_FILE)"
cat $list $GIT_INDEX_FILE
known=${start:-$head}
[ "$commit" != "$known" ] || exec echo "same $commit"
git update-ref refs/ags/result "$commit" || exit
exec git bundle create --quiet - refs/ags/result ${known:+"^$known"}
"""
)


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


class Lock:
    """Git's own lock on the person's index: what is put into it takes the index's place."""

    def __init__(self, project: Repository) -> None:
        self.project = project
        self.index = project.git_dir / "index"
        self.file = project.git_dir / "index.lock"
        self.held = False

    def install(self) -> None:
        """An empty file stands for no index at all."""
        with acting_as(self.project.owner):
            if self.file.stat().st_size:
                self.file.rename(self.index)
            else:
                self.index.unlink(missing_ok=True)
                self.file.unlink()
        self.held = False

    async def follow(self, old: str | None, new: str | None) -> None:
        """Put the index into it, taken from one commit to another. No file is looked at.

        What is staged stays so, but for what the new commit has otherwise than the old one.
        """
        run, given = functools.partial(git.run, self.project), {"GIT_INDEX_FILE": str(self.file)}
        empty = (await run("hash-object", "-t", "tree", "--stdin")).text.strip()
        before, after = old or empty, new or empty
        if not self.index.exists():
            await run("read-tree", after, env=given)
            return
        self.put(self.index)
        look = ("-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=all")
        staged = parse_raw((await run("diff-index", "--cached", *look, before, env=given)).stdout)
        moving = {each.path for each in parse_raw(
            (await run("diff-tree", "-r", *look, before, after)).stdout)}  # fmt: skip
        entries = (
            f"{each.old_mode:o} {each.old_id}\t{each.path}\0" for each in staged
            if each.path in moving
        )  # fmt: skip
        listed = encode("".join(entries))
        await run("update-index", "-z", "--index-info", stdin=listed, env=given)
        await run("read-tree", "-i", "-m", before, after, env=given)

    def put(self, file: Path) -> None:
        """With its time: by that git knows which files it cannot tell by theirs."""
        content, facts = file.read_bytes(), file.stat()
        with acting_as(self.project.owner):
            self.file.write_bytes(content)
            os.utime(self.file, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@contextmanager
def locked(project: Repository) -> Iterator[Lock]:
    """While we hold it, the person's git neither stages nor commits."""
    lock = Lock(project)
    try:
        with acting_as(project.owner):
            lock.file.touch(mode=0o666, exist_ok=False)
    except OSError as error:
        cause = f"git is at work there: {(error.strerror or str(error)).lower()}"
        raise AgsError("lock the index", subject=lock.file, cause=cause) from error
    lock.held = True
    try:
        yield lock
    finally:
        if lock.held:
            with acting_as(project.owner):
                lock.file.unlink(missing_ok=True)


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
