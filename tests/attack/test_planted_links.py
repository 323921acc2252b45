"""THREATS F2: what an agent plants for the host to follow later, it plants in vain.

The victim is a folder that no sandbox has. It stays as it is, to the last date, and what is in it
turns up nowhere: in no commit, patch, log or record.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path

import pytest

from ags import runs
from ags.errors import AgsError
from ags.review import apply, review, undo
from ags.workspace import leftovers, separate
from tests.attack.whole import PATIENCE, Whole, dashed, told
from tests.attack.whole import whole as whole
from tests.workspace.agent import done
from tests.workspace.scene import swapping

CANARY = "canary-5f1c"
Facts = dict[str, tuple[int, int, int, bytes]]


@pytest.fixture
def victim(whole: Whole) -> Path:
    """With the names that a workspace and a git directory have, so that a way in would be taken."""
    place = whole.outside / "victim"
    whole.sh(f"mkdir -p {place}/pack {place}/heads {place}/inner; cd {place}; "
             f"for each in file two HEAD config index exclude inner/file; do "
             f"echo {CANARY} > $each; done")  # fmt: skip
    return place


def facts(folder: Path) -> Facts:
    return {
        str(path.relative_to(folder)): (
            (looked := path.lstat()).st_mode,
            looked.st_mtime_ns,
            looked.st_ino,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in (folder, *sorted(folder.rglob("*")))
    }


def turned_up(whole: Whole) -> str:
    """Where the canary is, besides where it belongs."""
    found = subprocess.run(
        ("grep", "-rlI", "--devices=skip", CANARY, whole.state, whole.root),
        capture_output=True,
        text=True,
    ).stdout
    return found + whole.sh(f"git log --all -p -S{CANARY} --oneline")


IN_THE_WORKSPACE = {
    "a file": "rm file; ln -s {victim}/file file; ln -s {victim}/file more",
    "a relative way": "rm file; ln -s ../../../outside/victim/file file; ln -s ../../.. up",
    "a folder": "rm -r d; ln -s {victim} d; ln -s {victim} e; mkdir f; ln -s {victim}/inner f/in",
    "settings of git": (
        "ln -s {victim}/file .gitattributes; ln -s {victim}/file .gitignore; "
        "mkdir n; ln -s {victim} n/.git; ln -s {victim} .claude || true"
    ),
    "a link to a link": "ln -s {victim} a; ln -s a b; ln -s b/inner c; rm -r d; ln -s c d",
    "the root": "ln -s / root; ln -s /proc/self/root/{victim} p; rm -r d; ln -s root/{victim} d",
}


@pytest.mark.parametrize("name", IN_THE_WORKSPACE, ids=dashed)
def test_a_link_in_the_workspace_leads_the_host_nowhere(
    whole: Whole, victim: Path, name: str
) -> None:
    before, state = facts(victim), whole.sh("git status --porcelain; git rev-parse main; cat d/two")
    goal = IN_THE_WORKSPACE[name].format(victim=victim)
    run = whole.run("linker", goal)
    assert run.result is not None, told(runs.directory(whole.state, run.id))
    # The twin: the links are live, and whoever follows one has the canary.
    assert CANARY in _followed(whole.state / "worktrees/linker")
    engine = whole.engine()
    done(review(engine, "linker"))
    if name != "settings of git":  # attributes, which are not taken to a checkout
        done(apply(engine, "linker"))
        done(undo(engine, "linker"))
    assert whole.sh("git status --porcelain; git rev-parse main; cat d/two") == state
    done(engine.restart("linker"))
    done(engine.ended(engine.run_dir("linker"), PATIENCE))
    done(engine.clean("linker", force=True))
    assert not (whole.state / "worktrees/linker").exists()
    assert turned_up(whole) == ""
    done(engine.remove("linker", force=True))
    assert facts(victim) == before


def _followed(folder: Path) -> str:
    command = (
        f"cat {folder}/* {folder}/*/* {folder}/.git* {folder}/*/.git/* 2> /dev/null | head -c 999"
    )
    return subprocess.run(("/bin/sh", "-c", command), capture_output=True, text=True).stdout


GIT = "dir=$(git rev-parse --absolute-git-dir); mkdir -p $dir/info $dir/logs; echo work > work; "
IN_THE_GIT_DIRECTORY = {
    "objects": "mv $dir/objects $dir/o; ln -s {victim} $dir/objects",
    "packs": "rmdir $dir/objects/pack; ln -s {victim} $dir/objects/pack",
    "refs": "rm -r $dir/refs; ln -s {victim} $dir/refs",
    "packed refs": "rm $dir/packed-refs; ln -s {victim}/file $dir/packed-refs",
    "index": "rm $dir/index; ln -s {victim}/index $dir/index",
    "settings": "rm $dir/config; ln -s {victim}/config $dir/config",
    "head": "rm $dir/HEAD; ln -s {victim}/HEAD $dir/HEAD",
    "excludes": "rm -r $dir/info; ln -s {victim} $dir/info; ln -s {victim} $dir/logs/refs",
    "everything": "rm -rf $dir/* || true; for each in HEAD config index objects refs info hooks "
    "modules worktrees lfs logs commondir gitdir; do ln -s {victim} $dir/$each; done",
    "pipes": "for each in HEAD config index packed-refs; do rm -f $dir/$each; mkfifo $dir/$each; "
    "done; mkfifo $dir/commondir $dir/shallow a.fifo",
    "sockets": "rm $dir/index; python3 -c 'import socket, sys; "
    "[socket.socket(socket.AF_UNIX).bind(each) for each in sys.argv[1:]]' "
    "$dir/index $dir/shallow a.sock",
    "devices": "rm $dir/index; mknod $dir/index c 1 5 || mknod a.device b 7 0 || touch refused",
}


@pytest.mark.parametrize("name", IN_THE_GIT_DIRECTORY, ids=dashed)
def test_a_link_in_the_git_directory_leads_the_host_nowhere(
    whole: Whole, victim: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "MOST_SECONDS", 2.0)  # nobody ever writes to a pipe
    before, refs = facts(victim), whole.refs()
    goal = GIT + IN_THE_GIT_DIRECTORY[name].format(victim=victim)
    run_dir = whole.interrupted("linker", goal)
    run = runs.load(run_dir)
    kinds = {stat.S_IFMT(path.lstat().st_mode) for path in whole.git_dir(run).rglob("*")}
    assert not kinds & {stat.S_IFCHR, stat.S_IFBLK}
    engine = whole.engine()
    for verb in (engine.gather, lambda each: review(engine, each)):
        with suppress(AgsError):  # what cannot be collected is told, and kept
            done(verb("linker"))
    assert (whole.state / "worktrees/linker/work").read_text() == "work\n"
    assert turned_up(whole) == ""
    done(engine.remove("linker", force=True))
    assert not whole.git_dir(run).exists()
    assert facts(victim) == before
    own = {"refs/heads/agent--linker", f"refs/ags/base/{run.id}"}
    assert {each: at for each, at in whole.refs().items() if each not in own} == refs


def test_an_index_that_a_filter_exchanged_for_a_link_is_left_alone(
    whole: Whole, victim: Path
) -> None:
    """Filters run inside, before the agent, in the git directory that it will have."""
    git_dir = whole.state / "git"
    git_dir.mkdir()
    index = victim / "index"
    os.utime(index, (1000, 1000))
    before = facts(victim)
    (git_dir / "index").symlink_to(index)
    assert not separate.settle(git_dir)
    assert facts(victim) == before
    # The twin: an index of its own is touched.
    (git_dir / "index").unlink()
    (git_dir / "index").write_bytes(b"")
    os.utime(git_dir / "index", (1000, 1000))
    assert separate.settle(git_dir)
    assert (git_dir / "index").stat().st_mtime == 1001


OID = "$(printf canary-5f1c | sha256sum | cut -c1-64)"
POINTER = (
    "dir=$(git rev-parse --absolute-git-dir); oid=" + OID + "; "
    r"printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 11\n' $oid > large; "
    "place=$dir/lfs/objects/$(echo $oid | cut -c1-2); mkdir -p $place; "
    "place=$place/$(echo $oid | cut -c3-4); {}; git add large; git commit -qm large"
)
PLANTED = {
    "a file": (True, "mkdir $place; printf canary-5f1c > $place/$oid"),
    "a link": (False, "mkdir $place; ln -s {victim}/large $place/$oid"),
    "a linked folder": (False, "ln -s {victim}/large-folder $place"),
    "a pipe": (False, "mkdir $place; mkfifo $place/$oid"),
    "another content": (False, "mkdir $place; printf canary-0000 > $place/$oid"),
}


@pytest.mark.parametrize("name", PLANTED, ids=dashed)
def test_content_of_large_files_is_not_taken_through_a_link(
    whole: Whole, victim: Path, name: str
) -> None:
    comes, how = PLANTED[name]
    whole.sh(f"mkdir -p .git/lfs/objects {victim}/large-folder; printf {CANARY} > {victim}/large; "
             f"cp {victim}/large {victim}/large-folder/{OID}")  # fmt: skip
    run = whole.run("large", POINTER.format(how.format(victim=victim)))
    kept = [path for path in (whole.root / ".git/lfs").rglob("*") if path.is_file()]
    assert bool(kept) == comes, told(runs.directory(whole.state, run.id))
    assert all(path.read_text() == CANARY for path in kept)


SWAPPED = "for n in $(seq 40); do mkdir -p s/$n/one; touch s/$n/one/file s/$n/one/more; "


@pytest.mark.parametrize("verb", ["gather", "remove", "clean", "restart"])
def test_names_that_change_places_meanwhile_lead_nowhere(
    whole: Whole, victim: Path, verb: str
) -> None:
    """A folder and a link to the victim, exchanged all the time while the verb is at it."""
    goal = SWAPPED + f"ln -s {victim} s/$n/other; done; rm -r d; ln -s {victim} d"
    run_dir = whole.interrupted("swap", goal)
    before = facts(victim)
    engine = whole.engine()
    verbs: dict[str, Callable[[], Coroutine[object, object, object]]] = {
        "gather": lambda: engine.gather("swap"),
        "remove": lambda: engine.remove("swap", force=True),
        "clean": lambda: engine.clean("swap", force=True),
        "restart": lambda: engine.restart("swap"),
    }
    swapped = whole.state / "worktrees/swap/s"
    folders = [str(n) for n in range(1, 41)]
    # Whoever changes names under our hands may have an error for it, and no more.
    with swapping(swapped, "one", "other", folders), suppress(AgsError, OSError):
        done(verbs[verb]())
    assert facts(victim) == before
    if runs.is_alive(run_dir):
        done(engine.stop("swap", at_once=True))
    assert turned_up(whole) == ""
    if run_dir.exists():
        done(engine.remove("swap", force=True))
    assert facts(victim) == before
    assert not swapped.exists()
    assert os.listdir(whole.state / "git") == []
