from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.workspace import apply as module
from ags.workspace import git
from ags.workspace.apply import Applied, Conflict, How, apply, undo
from ags.workspace.checkout import NotTaken
from ags.workspace.scratch import scratch
from tests.workspace.bringing import BASE, BOTH, PERSON, advance, agent, bring, is_clean
from tests.workspace.bringing import project as project
from tests.workspace.poison import poisoned, ran
from tests.workspace.repositories import HOSTILE_NAMES, Checkout, checkout, go
from tests.workspace.scene import ME, NOBODY, forked


def test_a_branch_that_did_not_move_is_moved_forward_with_its_files(project: Checkout) -> None:
    theirs = agent(project, {"file": BASE + "more\n", "new": "new\n"})
    done = bring(project)
    assert (done.outcome, done.after, done.ref) == ("fast-forward", theirs, "refs/heads/main")
    assert project.ask("rev-parse", "HEAD") == theirs
    assert (project.folder / "new").read_text() == "new\n"
    assert done.work_tree == str(project.folder)
    assert is_clean(project)


def test_a_branch_that_moved_gets_a_merge_commit(project: Checkout) -> None:
    theirs = agent(project, {"file": "first\n" + BASE})
    mine = advance(project, "file", BASE + "last\n")
    done = bring(project)
    assert done.outcome == "merge"
    assert project.ask("log", "-1", "--format=%P|%an|%ce|%s") == (
        f"{mine} {theirs}|Ann|ann@example.org|bring it in"
    )
    assert (project.folder / "file").read_text() == "first\n" + BASE + "last\n"
    assert is_clean(project)
    project.git("fsck", "--strict")


def test_a_squash_is_one_commit_on_the_branch(project: Checkout) -> None:
    agent(project, {"new": "new\n"})
    mine = advance(project)
    done = bring(project, how="squash")
    assert (done.outcome, project.ask("log", "-1", "--format=%P")) == ("squash", mine)
    assert (project.folder / "new").exists()
    assert is_clean(project)


def test_a_squash_from_a_snapshot_brings_only_what_the_agent_did(project: Checkout) -> None:
    """In place the base is a commit of the tree as it stood, edits of the person's included."""
    project.git("checkout", "-q", "-b", "snapshot")
    snapshot = advance(project, "edited-by-person", "not committed yet\n")
    project.write("by-agent", "x\n")
    project.commit()
    project.git("branch", "agent--a")
    project.git("checkout", "-q", "main")
    bring(project, how="squash", base=snapshot)
    assert (project.folder / "by-agent").exists()
    assert not (project.folder / "edited-by-person").exists()


@pytest.mark.parametrize("how", BOTH)
def test_a_conflict_names_the_files_and_changes_nothing(project: Checkout, how: How) -> None:
    agent(project, {"file": BASE + "theirs\n", "a\nb": "theirs", "fine": "x\n", "other": None})
    project.write("a\nb", "mine")
    project.write("file", BASE + "mine\n")
    advance(project)
    before, objects = project.state(), project.ask("count-objects", "-v")
    with pytest.raises(Conflict) as caught:
        bring(project, how=how)
    assert caught.value.files == ("a\nb", "file", "other")
    assert "a\\x0ab, file, other" in caught.value.cause
    assert f"git -C {project.folder}" in caught.value.hint
    assert (project.state(), project.ask("count-objects", "-v")) == (before, objects)


@pytest.mark.parametrize("how", BOTH)
def test_what_is_already_there_is_not_applied_again(project: Checkout, how: How) -> None:
    agent(project, {"new": "x\n"})
    bring(project, how=how)
    again = bring(project, how=how)
    assert (again.outcome, again.before) == ("nothing", again.after)
    with pytest.raises(AgsError, match="nothing had to be applied"):
        go(undo(project.repository, again))


@pytest.mark.parametrize("how", BOTH)
def test_a_history_that_names_the_persons_newer_commits_takes_none_of_them_back(
    project: Checkout, how: How
) -> None:
    """As a parent they would count as seen and dropped, which no diff from the base shows."""
    honest = agent(project, {"new": "x\n"})
    mine = advance(project, "file", BASE + "a fix\n")
    parents = ("-p", "base", "-p", mine)
    sly = project.ask("commit-tree", *parents, "-m", "add a file", f"{honest}^{{tree}}")
    done = bring(project, how=how, source=sly)
    assert (project.folder / "file").read_text() == BASE + "a fix\n"
    assert (project.folder / "new").read_text() == "x\n"
    assert (done.outcome, is_clean(project)) == (how, True)
    go(undo(project.repository, done))
    assert project.ask("rev-parse", "HEAD") == mine


def test_the_command_for_such_a_history_brings_its_change_only(project: Checkout) -> None:
    honest = agent(project, {"new": "x\n"})
    mine = advance(project, "file", BASE + "a fix\n")
    sly = project.ask("commit-tree", "-p", "base", "-p", mine, "-m", "sly", f"{honest}^{{tree}}")
    project.write("other", "being edited\n")
    with pytest.raises(NotTaken) as caught:
        bring(project, source=sly)
    assert " merge " not in caught.value.hint
    subprocess.run(("/bin/sh", "-c", caught.value.hint), check=True, env=project.environment)
    assert (project.folder / "file").read_text() == BASE + "a fix\n"
    assert (project.folder / "new").exists()


def test_a_history_begun_before_the_base_drops_nothing_that_was_undone_since(
    project: Checkout,
) -> None:
    regretted = advance(project, "file", BASE + "regretted\n")
    project.git("checkout", "-q", "-b", "agent--a")
    project.write("new", "x\n")
    tree = f"{project.commit()}^{{tree}}"
    early = project.ask("commit-tree", "-p", "base", "-m", "from before", tree)
    project.git("checkout", "-q", "main")
    advance(project, "file", BASE)
    bring(project, source=early, base=regretted)
    assert (project.folder / "file").read_text() == BASE
    assert (project.folder / "new").exists()


def test_work_that_was_merged_in_part_by_hand_is_brought_whole(project: Checkout) -> None:
    agent(project, {"new": "x\n"})
    project.git("merge", "-q", "agent--a")
    project.git("checkout", "-q", "agent--a")
    theirs = advance(project, "second", "y\n")
    project.git("checkout", "-q", "main")
    assert bring(project, source=theirs).outcome == "fast-forward"
    assert (project.folder / "second").exists() and is_clean(project)


@pytest.mark.parametrize("how", BOTH)
@pytest.mark.parametrize("moved", (False, True))
def test_undo_restores_exactly(project: Checkout, how: How, moved: bool) -> None:
    project.write("untracked", "mine\n")
    agent(project, {"file": BASE + "x\n", "d/new": "new\n", ".gitignore": None})
    if moved:
        project.write("other", "mine\n")
        project.git("commit", "-qam", "mine")
    before = project.state()
    done = bring(project, how=how)
    assert project.state() != before
    go(undo(project.repository, done))
    assert project.state() == before
    assert not (project.folder / "d").exists()


def test_undo_of_a_branch_that_went_on_is_refused(project: Checkout) -> None:
    agent(project, {"new": "x\n"})
    done = bring(project)
    advance(project)
    before = project.state()
    with pytest.raises(AgsError, match="by now, and apply left it at") as caught:
        go(undo(project.repository, done))
    assert project.state() == before
    project.git(*caught.value.hint.removeprefix("git ").split(), "--no-edit")
    assert not (project.folder / "new").exists()


def test_undo_leaves_edits_made_since_alone(project: Checkout) -> None:
    agent(project, {"new": "x\n"})
    done = bring(project)
    project.write("new", "edited\n")
    before = project.state()
    with pytest.raises(NotTaken, match="changes of yours in new") as caught:
        go(undo(project.repository, done))
    assert project.state() == before
    assert caught.value.hint == f"git -C {project.folder} reset --keep {done.before}"


def test_a_branch_nobody_has_checked_out_moves_without_any_work_tree(project: Checkout) -> None:
    project.git("branch", "side")
    theirs = agent(project, {"new": "x\n"})
    project.write("file", "edited, not committed\n")
    files = project.state()[2]
    done = bring(project, into="side")
    assert (done.ref, done.work_tree) == ("refs/heads/side", None)
    assert project.ask("rev-parse", "side") == theirs
    assert project.state()[2] == files


def test_a_branch_that_is_a_link_moves_what_it_leads_to_with_its_files(project: Checkout) -> None:
    project.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    agent(project, {"new": "x\n"})
    assert bring(project, into="alias").ref == "refs/heads/main"
    assert is_clean(project)


def test_a_driver_named_in_attributes_counts_only_if_it_is_gits_own(project: Checkout) -> None:
    project.write(".gitattributes", "notes merge=union\nlock -merge\n")
    project.write("notes", "0\n")
    project.write("lock", BASE)
    project.commit()
    project.git("tag", "-f", "base")
    agent(project, {"notes": "0\ntheirs\n", "lock": "first\n" + BASE})
    advance(project, "notes", "0\nmine\n")
    bring(project)
    assert (project.folder / "notes").read_text() == "0\nmine\ntheirs\n"
    agent(project, {"lock": "first\n" + BASE}, "agent--b")
    advance(project, "lock", (project.folder / "lock").read_text() + "last\n")
    project.git("tag", "-f", "base", "HEAD~3")
    agent(project, {"lock": "zeroth\n" + BASE}, "agent--c")
    with pytest.raises(Conflict) as caught:
        bring(project, source="agent--c")
    assert caught.value.files == ("lock",)


@pytest.mark.parametrize("checked_out", (True, False))
@pytest.mark.parametrize("how", BOTH)
def test_nothing_of_the_repositorys_settings_runs(
    project: Checkout, tmp_path: Path, how: How, checked_out: bool
) -> None:
    project.write("clash.txt", BASE)
    poisoned(project, tmp_path)
    project.commit()
    project.git("tag", "-f", "base")
    agent(project, {"clash.txt": "first\n" + BASE, "b.bin": b"\0"})
    advance(project, "clash.txt", BASE + "last\n")
    project.git("branch", "side")
    if not checked_out:
        project.git("checkout", "-q", "-b", "elsewhere")
    twin = project.folder.parent / "twin"
    project.git("worktree", "add", "-q", "-b", "twin", str(twin))
    Checkout(twin, project.environment).git("merge", "--no-edit", "agent--a")
    assert {"merge-driver", "hook-reference-transaction", "fsmonitor"} <= ran(tmp_path)
    done = bring(project, "main", how)
    assert done.outcome == how
    go(undo(project.repository, done))
    assert ran(tmp_path) == set()
    project.write("clash.txt", "conflict\n")
    project.git("commit", "-qam", "conflict")
    ran(tmp_path)
    with pytest.raises(Conflict):
        bring(project, None, how)
    assert ran(tmp_path) == set()


def test_a_repository_without_a_commit_gets_its_first(tmp_path: Path) -> None:
    project = checkout(tmp_path / "empty")
    tree = project.git("mktree", stdin=b"").decode().strip()
    start = project.ask("commit-tree", "-m", "empty", tree)
    blob = project.git("hash-object", "-w", "--stdin", stdin=b"x\n").decode().strip()
    filled = project.git("mktree", stdin=f"100644 blob {blob}\tnew\n".encode()).decode().strip()
    work = project.ask("commit-tree", "-p", start, "-m", "work", filled)
    project.git("branch", "agent--a", work)
    for how in BOTH:
        done = bring(project, how=how, base=start)
        assert (project.folder / "new").read_text() == "x\n"
        assert is_clean(project)
        go(undo(project.repository, done))
        assert not (project.folder / "new").exists()
        assert project.ask("for-each-ref", "--format=%(refname)") == "refs/heads/agent--a"


def test_hostile_names_are_merged_and_undone(project: Checkout) -> None:
    agent(project, dict.fromkeys(HOSTILE_NAMES, "x\n"))
    advance(project)
    before = project.state()
    done = bring(project)
    assert {path.name for path in project.folder.iterdir()} >= {
        name for name in HOSTILE_NAMES if "/" not in name
    }
    assert is_clean(project)
    go(undo(project.repository, done))
    assert project.state() == before


@pytest.mark.parametrize(
    "into", ["nothing", "-d", "--stdin", "../x", "a b", "x\n", "refs/tags/base"]
)
def test_what_is_no_branch_is_refused(project: Checkout, into: str) -> None:
    agent(project, {"new": "x\n"})
    before = project.state()
    with pytest.raises(AgsError, match="no such branch|no branch"):
        bring(project, into=into)
    assert project.state() == before


def test_without_a_branch_checked_out_one_must_be_named(project: Checkout) -> None:
    agent(project, {"new": "x\n"})
    project.git("checkout", "-q", "--detach")
    with pytest.raises(AgsError, match="no branch is checked out") as caught:
        bring(project)
    assert "--into" in caught.value.hint
    assert bring(project, into="main").outcome == "fast-forward"


def test_unrelated_histories_are_not_merged(project: Checkout) -> None:
    stranger = project.ask("commit-tree", "-m", "stranger", project.tree())
    with pytest.raises(AgsError, match="unrelated"):
        bring(project, source=stranger)


def test_to_move_a_branch_forward_takes_no_name(project: Checkout) -> None:
    commit = agent(project, {"new": "x\n"})
    call = apply(project.repository, source="agent--a", base="base", message="m", person={})
    assert go(call).outcome == "fast-forward"
    assert project.ask("rev-parse", "main") == commit


def test_without_a_name_there_is_no_commit_in_it(project: Checkout) -> None:
    agent(project, {"new": "x\n"})
    call = apply(
        project.repository, source="agent--a", base="base", how="squash", message="m", person={}
    )
    with pytest.raises(AgsError, match="your name") as caught:
        go(call)
    assert "user.email" in caught.value.hint


def test_a_branch_that_moves_meanwhile_is_not_moved_and_the_files_go_back(
    project: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent(project, {"new": "x\n", "file": BASE + "x\n"})
    mine = project.ask("commit-tree", "-p", "HEAD", "-m", "mine", project.tree())
    take = module._Step.take

    async def meanwhile(step: module._Step) -> None:
        await take(step)
        project.git("update-ref", "refs/heads/main", mine)

    monkeypatch.setattr(module._Step, "take", meanwhile)
    with pytest.raises(AgsError, match="cannot move the branch"):
        bring(project)
    assert project.ask("rev-parse", "main") == mine
    assert not (project.folder / "new").exists()
    assert is_clean(project)


def test_two_at_once_both_arrive_or_one_says_that_it_did_not(project: Checkout) -> None:
    project.git("branch", "side")
    for n in range(4):
        agent(project, {f"new{n}": "x\n"}, f"agent--{n}")

    async def all_at_once() -> list[Applied | BaseException]:
        repository = await git.find(project.folder)
        calls = (
            apply(
                repository,
                source=f"agent--{n}",
                base="base",
                into="side",
                message="m",
                person=PERSON,
            )
            for n in range(4)
        )
        return await asyncio.gather(*calls, return_exceptions=True)

    results = asyncio.run(all_at_once())
    names = project.ask("ls-tree", "--name-only", "side").split()
    for n, result in enumerate(results):
        assert (f"new{n}" in names) == isinstance(result, Applied), result
        assert isinstance(result, Applied | AgsError)
    assert any(isinstance(result, Applied) for result in results)


@pytest.mark.skipif(ME.uid != 0, reason="gives files to another user")
@pytest.mark.parametrize("how", BOTH)
def test_root_applies_in_another_users_repository_and_leaves_no_file_of_its_own(
    world: Path, how: How
) -> None:
    home = world / f"of-another-{how}"
    home.mkdir()
    os.chown(home, NOBODY.uid, NOBODY.gid)

    def prepare() -> None:
        project = checkout(home / "project")
        project.write("file", BASE)
        project.commit()
        project.git("tag", "base")
        agent(project, {"new": "x\n"})
        advance(project, "mine")

    forked(prepare, NOBODY)
    project = Checkout(home / "project", {})
    done = bring(project, how=how)
    assert done.outcome == how
    go(undo(project.repository, done))
    bring(project, how=how)
    assert {path.lstat().st_uid for path in home.rglob("*")} == {NOBODY.uid}


@pytest.mark.skipif(ME.uid != 0, reason="gives files to another user")
def test_what_is_made_for_a_question_belongs_to_the_repositorys_owner(world: Path) -> None:
    """Git reads an agent's objects: not as root, if the repository is not root's."""
    project = checkout(world / "of-another")
    for path in (project.folder, *project.folder.rglob("*")):
        os.chown(path, NOBODY.uid, NOBODY.gid)

    async def owners() -> set[int]:
        async with scratch(await git.find(project.folder)) as bare:
            return {path.lstat().st_uid for path in (bare.git_dir, *bare.git_dir.rglob("*"))}

    assert go(owners()) == {NOBODY.uid}


@pytest.mark.parametrize("how", BOTH)
def test_a_shallow_repository_is_merged_within_what_it_has(
    project: Checkout, tmp_path: Path, how: How
) -> None:
    advance(project)
    project.git("clone", "-q", "--depth=1", f"file://{project.folder}", str(tmp_path / "thin"))
    thin = Checkout(tmp_path / "thin", project.environment)
    thin.git("tag", "base")
    agent(thin, {"file": "first\n" + BASE})
    advance(thin, "file", BASE + "last\n")
    assert bring(thin, how=how).outcome == how
    assert (thin.folder / "file").read_text() == "first\n" + BASE + "last\n"


def test_a_repository_of_the_other_object_format(tmp_path: Path) -> None:
    wide = checkout(tmp_path / "wide", "--object-format=sha256")
    wide.write("file", BASE)
    wide.commit()
    wide.git("tag", "base")
    agent(wide, {"new": "x\n"})
    advance(wide)
    before = wide.state()
    done = bring(wide)
    assert len(done.after) == 64
    assert is_clean(wide)
    go(undo(wide.repository, done))
    assert wide.state() == before
