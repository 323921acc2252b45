"""Whole runs in the person's own folder."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ags import review
from ags.errors import AgsError
from ags.runs import Order, Run
from tests.faults.workshop import Workshop, wait_for


def session(
    workshop: Workshop, script: str, folder: Path | None = None, *, kill_at: str = ""
) -> Run:
    wish = replace(
        workshop.wish("here", ""),
        mode="inplace",
        order=Order(arguments=("-c", script)),
        folder=folder or workshop.project.folder,
    )
    return workshop.does(workshop.engine(kill_at, "kill").start(wish))


def test_files_change_in_place_and_commits_move_the_branch(workshop: Workshop) -> None:
    before = workshop.project.state()
    script = "echo a >> file; git add file; git commit -qm agents; echo b > new; cat own"
    run = workshop.ended(session(workshop, script))
    assert run.state == "done", workshop.said(run)
    assert workshop.project.ask("log", "-1", "--format=%s", "main") == "agents"
    assert (workshop.project.folder / "new").read_text() == "b\n"
    assert workshop.project.ask("status", "--porcelain").split("\n") == ["?? new", "?? own"]
    found = workshop.does(review.review(workshop.engine(), "here"))
    assert {file.path for file in found.diff.files} == {"file", "new"}
    workshop.does(review.undo(workshop.engine(), "here"))
    refs, *rest = workshop.project.state()
    theirs = "\n".join(line for line in refs.split("\n") if "refs/ags/" not in line)
    assert (theirs, *rest) == before
    assert workshop.load(run).applied[0].undone is not None


def test_the_persons_git_directory_is_not_the_agents(workshop: Workshop) -> None:
    config = (workshop.project.folder / ".git/config").read_bytes()
    script = (
        "git config core.fsmonitor /bin/false; mkdir -p .git/hooks; touch .git/hooks/pre-commit"
    )
    run = workshop.ended(session(workshop, script))
    assert run.state == "done", workshop.said(run)
    assert (workshop.project.folder / ".git/config").read_bytes() == config
    assert not (workshop.project.folder / ".git/hooks/pre-commit").exists()


def test_commits_wait_on_a_branch_if_the_person_went_on_meanwhile(workshop: Workshop) -> None:
    go = workshop.project.folder / "go"
    script = "echo a > a; git add a; git commit -qm agents; touch done"
    script += "; until [ -e go ]; do sleep .05; done"
    run = session(workshop, script)
    wait_for("it is done", (workshop.project.folder / "done").exists)
    workshop.project.git("commit", "-q", "--allow-empty", "-m", "persons")
    go.touch()
    ended = workshop.ended(run)
    assert ended.state == "done", workshop.said(run)
    assert workshop.project.ask("log", "-1", "--format=%s", "main") == "persons"
    assert workshop.project.ask("log", "-1", "--format=%s", "agent--here") == "agents"
    assert "git merge agent--here" in workshop.said(run)


def test_undo_says_what_is_in_its_way_and_works_once_that_is_gone(workshop: Workshop) -> None:
    """No snapshot has a pipe, but the agent's own is known by its inode."""
    file = workshop.project.folder / "file"
    content = file.read_text()
    workshop.ended(session(workshop, "rm file; mkfifo file other"))
    os.mkfifo(file.with_name("mine"))
    os.rename(file.with_name("mine"), file)
    with pytest.raises(AgsError, match="file: .* remove it, and undo again"):
        workshop.does(review.undo(workshop.engine(), "here"))
    file.unlink()
    workshop.does(review.undo(workshop.engine(), "here"))
    assert file.read_text() == content
    assert not file.with_name("other").exists()


def test_outside_a_repository_it_works_without_diff_and_undo(workshop: Workshop) -> None:
    folder = workshop.place / "plain"
    folder.mkdir()
    run = workshop.ended(session(workshop, "echo x > x", folder))
    assert run.state == "done" and (folder / "x").read_text() == "x\n"
    assert "no git repository" in workshop.said(run)
    with pytest.raises(AgsError, match="there is nothing to compare"):
        workshop.does(review.review(workshop.engine(), "here"))
    workshop.does(workshop.engine().remove("here"))
    assert workshop.traces(run) == [] and (folder / "x").exists()


def test_nothing_is_applied_to_a_folder_that_an_agent_works_in(workshop: Workshop) -> None:
    workshop.project.git("add", "--all")
    workshop.project.git("commit", "-qm", "mine")
    workshop.ended(workshop.start("apart"))
    session(workshop, "sleep 600")
    with pytest.raises(AgsError, match="here is at work there"):
        workshop.does(review.apply(workshop.engine(), "apart"))
    workshop.does(workshop.engine().stop("here", at_once=True))
    assert workshop.does(review.apply(workshop.engine(), "apart")) is not None


def test_a_killed_run_can_still_be_undone(workshop: Workshop) -> None:
    run = session(workshop, "echo a >> file; rm own; touch done; sleep 600")
    wait_for("it is done", (workshop.project.folder / "done").exists)
    workshop.kill_supervisor(run)
    workshop.nothing_runs(run)
    found = workshop.does(review.review(workshop.engine(), "here"))
    assert {file.path for file in found.diff.files} == {"file", "own", "done"}
    workshop.does(review.undo(workshop.engine(), "here"))
    assert (workshop.project.folder / "file").read_text() == "one\n"
    assert (workshop.project.folder / "own").exists()


@pytest.mark.parametrize("place", ["home", ""])
def test_the_home_is_no_workspace(workshop: Workshop, place: str) -> None:
    with pytest.raises(AgsError, match="it is or contains"):
        session(workshop, "true", workshop.place / place)
    assert not (workshop.ags_home / "runs").exists()


POINTS = "preparing created prepared launched released collecting collected ending"


@pytest.mark.parametrize("point", POINTS.split())
def test_killed_at_any_point_nothing_of_the_persons_is_lost(workshop: Workshop, point: str) -> None:
    before = workshop.project.state()
    script = "echo a >> file; git add file; git commit -qm agents; echo b > new"
    run = session(workshop, script, kill_at=point)
    workshop.untended(run)
    workshop.nothing_runs(run)
    workshop.engine().sweep()
    assert workshop.load(run).state == "interrupted"
    assert not (workshop.project.folder / ".git/index.lock").exists()
    gathered = workshop.does(workshop.engine().gather("here"))
    if gathered.started is not None:
        workshop.does(review.undo(workshop.engine(), "here"))
    refs, *rest = workshop.project.state()
    theirs = [line for line in refs.split("\n") if "/ags/" not in line and "agent--" not in line]
    assert ("\n".join(theirs), *rest) == before
    workshop.does(workshop.engine().remove("here"))
    assert workshop.traces(run) == []
    workshop.check_sound()


def test_an_agent_cannot_hide_what_it_made_by_ignoring_it(workshop: Workshop) -> None:
    workshop.project.write(".gitignore", "*.tmp\n")
    workshop.project.commit("rules")
    workshop.project.write("mine.tmp", "ignored before\n")
    before = workshop.project.state()[2]
    script = "echo evil > conftest.py; printf 'conftest.py\\n.gitignore\\n*.tmp\\n' > .gitignore"
    script += "; mkdir sub; printf '*\\n' > sub/.gitignore; echo x > sub/x; echo y > y.tmp"
    workshop.ended(session(workshop, script))
    found = workshop.does(review.review(workshop.engine(), "here"))
    shown = {file.path for file in found.diff.files}
    assert shown == {"conftest.py", ".gitignore", "sub/.gitignore", "sub/x"}
    workshop.does(review.undo(workshop.engine(), "here"))
    left = workshop.project.state()[2]
    assert left.pop("y.tmp") == b"y\n"  # which the person's own rules ignore
    assert left == before


def test_commits_on_other_branches_are_held_in_place_too(workshop: Workshop) -> None:
    before = workshop.project.ask("rev-parse", "main")
    script = "git checkout -qb side; echo s > s; git add s; git commit -qm s; git checkout -q main"
    run = workshop.ended(session(workshop, script))
    assert run.state == "done", workshop.said(run)
    (note,) = [note for note in run.notes if "the branch side" in note]
    workshop.does(review.undo(workshop.engine(), "here"))
    workshop.does(workshop.engine().remove("here"))
    assert workshop.project.ask("rev-parse", "main") == before
    workshop.project.git("gc", "-q", "--prune=now")
    workshop.project.git(*note.split("`")[1].replace("NAME", "mine").split()[1:])
    assert workshop.project.ask("show", "mine:s") == "s"
