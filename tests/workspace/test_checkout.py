from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ags.workspace.apply import How, undo
from ags.workspace.checkout import NotTaken, holder
from tests.workspace.bringing import BASE, BOTH, advance, agent, bring, is_clean
from tests.workspace.bringing import project as project
from tests.workspace.poison import poisoned, ran
from tests.workspace.repositories import Checkout, checkout, go
from tests.workspace.scene import ME

DIRT: dict[str, Callable[[Checkout], object]] = {
    "edited": lambda p: p.write("file", "edited\n"),
    "edited elsewhere": lambda p: p.write("other", "edited\n"),
    "staged": lambda p: (p.write("staged"), p.git("add", "staged")),
    "staged and put back": lambda p: (
        p.write("other", "x"),
        p.git("add", "other"),
        p.write("other", "other\n"),
    ),
    "deleted": lambda p: (p.folder / "other").unlink(),
    "untracked in the way": lambda p: p.write("new", "mine\n"),
    "ignored in the way": lambda p: p.write(".env", "SECRET=mine\n"),
    "a folder in the way": lambda p: p.write("new/mine", "mine\n"),
    "a file where a folder must be": lambda p: p.write("deep", "mine\n"),
    "a link where a folder must be": lambda p: (p.folder / "deep").symlink_to("/tmp"),
    "a merge in progress": lambda p: (p.folder / ".git/MERGE_HEAD").write_text("0" * 40),
    "hidden from status": lambda p: (
        p.git("update-index", "--assume-unchanged", "file"),
        p.write("file", "edited in secret\n"),
    ),
}


@pytest.mark.parametrize("dirt", DIRT)
@pytest.mark.parametrize("how", BOTH)
def test_a_checkout_with_something_of_the_persons_stays_untouched(
    project: Checkout, dirt: str, how: How
) -> None:
    agent(project, {"file": BASE + "x\n", "new": "n\n", ".env": "EVIL=1\n", "deep/er": "x\n"})
    DIRT[dirt](project)
    before = project.state()
    with pytest.raises(NotTaken) as caught:
        bring(project, how=how)
    assert project.state() == before
    assert caught.value.hint.startswith(f"git -C {project.folder} ")


def test_a_file_that_was_only_touched_is_no_obstacle(project: Checkout) -> None:
    agent(project, {"file": BASE + "x\n"})
    os.utime(project.folder / "file", (1, 1))
    assert bring(project).outcome == "fast-forward"


def test_a_file_becomes_a_folder_and_a_folder_a_file(project: Checkout) -> None:
    project.write("folder/in", "x\n")
    project.commit()
    project.git("tag", "-f", "base")
    work = {"folder/in": None, "other": None}
    agent(project, work)
    project.git("checkout", "-q", "agent--a")
    project.write("folder", "a file now\n")
    project.write("other/in", "a folder now\n")
    project.commit()
    project.git("checkout", "-q", "main")
    bring(project)
    assert (project.folder / "folder").is_file()
    assert (project.folder / "other/in").is_file()
    assert is_clean(project)


def test_a_branch_checked_out_in_a_linked_worktree_counts_too(project: Checkout) -> None:
    project.git("worktree", "add", "-q", "-b", "side", "../side")
    side = Checkout(project.folder.parent / "side", project.environment)
    agent(project, {"file": BASE + "x\n"})
    side.write("file", "edited\n")
    before = side.state()
    with pytest.raises(NotTaken, match="changes of yours"):
        bring(project, into="side")
    assert side.state() == before
    side.git("checkout", "-q", "file")
    assert bring(project, into="side").work_tree == str(side.folder)
    assert is_clean(side)
    assert (side.folder / "file").read_text().endswith("x\n")
    # and seen from there, the first work tree is the other one
    done = bring(side, into="main")
    assert done.work_tree == str(project.folder)
    assert is_clean(project)


def test_a_branch_being_rebased_is_not_moved(project: Checkout) -> None:
    agent(project, {"new": "x\n"})
    advance(project, "file", "mine\n")
    project.git("branch", "fork", "base")
    project.git("checkout", "-q", "fork")
    advance(project, "file", "fork\n")
    project.git("checkout", "-q", "main")
    project.git("rebase", "fork", code=1)
    before = project.state()
    with pytest.raises(NotTaken, match="being rebased or bisected"):
        bring(project, into="main")
    assert project.state() == before


def test_attributes_and_filtered_files_are_left_to_the_persons_own_git(project: Checkout) -> None:
    agent(project, {".gitattributes": "* filter=evil\n"})
    before = project.state()
    with pytest.raises(NotTaken, match="has attributes"):
        bring(project)
    project.git("branch", "-D", "agent--a")
    project.git("checkout", "-q", "-b", "lfs")
    project.write(".gitattributes", "*.bin filter=lfs\n")
    project.commit()
    project.git("tag", "-f", "base")
    agent(project, {"big.bin": b"\0", "plain": "x\n"})
    with pytest.raises(NotTaken, match=r"a filter is set for big\.bin"):
        bring(project)
    agent(project, {"plain": "x\n"}, "agent--b")
    assert bring(project, source="agent--b").outcome == "fast-forward"
    assert before[0] != project.state()[0]


def test_a_nested_repository_of_the_agents_is_not_looked_into(
    project: Checkout, tmp_path: Path
) -> None:
    """For the state of a submodule git would run git in it, with the settings it has there."""
    inner = checkout(project.folder / "module")
    inner.write("a.flt", "1\n")
    inner.commit()
    project.git("add", "module")
    project.commit()
    poisoned(inner, tmp_path)
    inner.write("a.flt", "2\n")
    project.git("status")
    assert "clean" in ran(tmp_path)
    project.git("tag", "-f", "base")
    work = project.ask("commit-tree", "-p", "base", "-m", "x", project.tree("base"))
    project.git("branch", "agent--a", work)
    bring(project)
    assert ran(tmp_path) == set()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "none", place), check=True)
    try:
        yield place
    finally:
        subprocess.run(("umount", place), check=True)


@pytest.mark.skipif(ME.uid != 0, reason="mounts a file system")
def test_a_full_disk_leaves_the_files_as_they_were(project: Checkout, small_disk: Path) -> None:
    project.git("worktree", "add", "-q", "-b", "side", str(small_disk / "side"))
    side = Checkout(small_disk / "side", project.environment)
    noise = os.urandom(400_000)
    agent(
        project, {"a": "x\n", "file": "y\n", "other": None, "z1": noise, "z2": noise, "z3": noise}
    )
    before = side.state()
    with pytest.raises(NotTaken) as caught:
        bring(project, into="side")
    assert "half-way" not in caught.value.cause
    assert side.state() == before
    assert is_clean(side)
    assert bring(project).outcome == "fast-forward"  # where there is room


def test_a_split_index_is_followed_and_stays_readable(project: Checkout) -> None:
    for n in range(50):
        project.write(f"many/{n}", f"{n}\n")
    project.commit()
    project.git("tag", "-f", "base")
    agent(project, {"file": BASE + "x\n", "many/3": None})
    project.git("update-index", "--split-index")
    before = project.state()
    done = bring(project)
    assert is_clean(project)
    go(undo(project.repository, done))
    assert project.state() == before
    assert is_clean(project)


@pytest.mark.parametrize("cone", ("--cone", "--no-cone"))
def test_a_sparse_checkout_gets_no_file_it_leaves_out(project: Checkout, cone: str) -> None:
    project.write("in/a", "a\n")
    project.write("out/b", "b\n")
    project.commit()
    project.git("tag", "-f", "base")
    agent(project, {"in/a": "changed\n", "out/b": "changed\n", "out/new": "new\n"})
    project.git("sparse-checkout", "set", cone, "in")
    before = project.state()
    assert not (project.folder / "out").exists()
    done = bring(project)
    assert (project.folder / "in/a").read_text() == "changed\n"
    assert not (project.folder / "out").exists()
    assert is_clean(project)
    go(undo(project.repository, done))
    assert project.state() == before


@pytest.mark.parametrize("setting", ("true", "input"))
def test_line_endings_are_the_persons(project: Checkout, setting: str) -> None:
    project.git("config", "core.autocrlf", setting)
    agent(project, {"new": "a\nb\n"})
    done = bring(project)
    ends = b"\r\n" if setting == "true" else b"\n"
    assert (project.folder / "new").read_bytes() == b"a" + ends + b"b" + ends
    assert is_clean(project)
    go(undo(project.repository, done))
    assert not (project.folder / "new").exists()


def test_a_branch_being_bisected_is_not_moved(project: Checkout) -> None:
    agent(project, {"new": "x\n"})
    for n in range(4):
        advance(project, "file", f"{n}\n")
    project.git("bisect", "start", "main", "base")
    before = project.state()
    with pytest.raises(NotTaken, match="being rebased or bisected"):
        bring(project, into="main")
    assert project.state() == before


def test_a_head_of_the_old_kind_and_refs_of_the_new_are_not_overlooked(project: Checkout) -> None:
    agent(project, {"new": "x\n"})
    head = project.folder / ".git/HEAD"
    head.unlink()
    head.symlink_to("refs/heads/main")
    assert go(holder(project.repository, "refs/heads/main")) is not None
    assert go(holder(project.repository, "refs/heads/agent--a")) is None
    tables = replace(project.repository, settings=(("extensions.refstorage", "reftable"),))
    with pytest.raises(NotTaken, match="reftable"):
        go(holder(tables, "refs/heads/agent--a"))


def test_a_bare_repository_has_no_files_to_take_along(project: Checkout, tmp_path: Path) -> None:
    theirs = agent(project, {"new": "x\n"})
    project.git("clone", "-q", "--bare", str(project.folder), str(tmp_path / "bare"))
    bare = Checkout(tmp_path / "bare", project.environment)
    assert bring(bare).work_tree is None
    assert bare.ask("rev-parse", "main") == theirs
    bare.git("worktree", "add", "-q", str(tmp_path / "linked"), "agent--a")
    linked = Checkout(tmp_path / "linked", project.environment)
    linked.git("branch", "-f", "main", "base")
    assert bring(linked, into="main").work_tree is None


def test_a_worktree_that_was_deleted_holds_nothing_and_a_locked_one_does(project: Checkout) -> None:
    project.git("worktree", "add", "-q", "-b", "side", "../side")
    agent(project, {"new": "x\n"})
    (project.folder.parent / "side").rename(project.folder.parent / "away")
    project.git("worktree", "lock", "side")
    with pytest.raises(NotTaken, match="locked"):
        bring(project, into="side")
    project.git("worktree", "unlock", "side")
    assert bring(project, into="side").work_tree is None


def test_an_edit_made_while_git_gives_up_is_notput_back(project: Checkout, tmp_path: Path) -> None:
    """The way back after a failure takes only what git itself had written."""
    from ags.workspace import checkout as module

    theirs = agent(project, {"file": BASE + "x\n", "other": "agent\n", "new": "n\n"})
    repository = project.repository

    async def fail_half_way() -> list[str]:
        changed = await module.changes(repository, "base", theirs)
        project.write("file", "edited by the person\n")
        project.write("other", "age")  # what git had got to when it gave up
        project.write("new", "")
        return await module.put_back(repository, changed)

    assert go(fail_half_way()) == ["file"]
    assert (project.folder / "file").read_text() == "edited by the person\n"
    assert (project.folder / "other").read_text() == "other\n"
    assert not (project.folder / "new").exists()
