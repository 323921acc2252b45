"""A run in a linked worktree that is removed afterwards: its work is still in the repository."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ags import review
from ags.errors import AgsError
from ags.runs import Run
from tests.faults.workshop import Workshop
from tests.supervisor.test_inplace import session

SCRIPT = "echo more >> file; git commit -qam agents; echo b > new"


@pytest.fixture(params=["plain", "bare"])
def linked(request: pytest.FixtureRequest, workshop: Workshop) -> Path:
    """A worktree of the project, or of a bare copy of it."""
    folder = workshop.place / "linked"
    project = workshop.project
    if request.param == "bare":
        bare = workshop.place / "bare.git"
        project.git("clone", "-q", "--bare", str(project.folder), str(bare))
        project.git("--git-dir", str(bare), "worktree", "add", "-q", str(folder), "-b", "side")
    else:
        project.git("worktree", "add", "-q", str(folder), "-b", "side")
    return folder


def common(linked: Path) -> Path:
    """Of which it is a worktree."""
    pointed = (linked / ".git").read_text().removeprefix("gitdir: ").strip()
    return Path(pointed).parent.parent


def ran(workshop: Workshop, linked: Path) -> Run:
    run = workshop.ended(session(workshop, SCRIPT, linked))
    assert run.state == "done", workshop.said(run)
    return run


def ours(workshop: Workshop, repository: Path) -> list[str]:
    listed = workshop.project.ask(
        "--git-dir", str(repository), "for-each-ref", "--format=%(refname)", "refs/ags"
    )
    return listed.split()


def remove(workshop: Workshop, linked: Path, repository: Path) -> None:
    workshop.project.git("--git-dir", str(repository), "worktree", "remove", "-f", str(linked))
    assert not linked.exists()


def test_its_diff_is_shown_and_its_refs_go_with_it(workshop: Workshop, linked: Path) -> None:
    repository = common(linked)
    run = ran(workshop, linked)
    assert any(run.id in ref for ref in ours(workshop, repository))
    remove(workshop, linked, repository)
    found = workshop.does(review.review(workshop.engine(), "here"))
    assert {file.path for file in found.diff.files} == {"file", "new"}
    workshop.does(workshop.engine().remove("here"))
    assert not any(run.id in ref for ref in ours(workshop, repository))
    assert not (workshop.ags_home / "runs" / run.id).exists()


def test_another_repository_at_its_place_is_not_taken_for_it(
    workshop: Workshop, linked: Path
) -> None:
    repository = common(linked)
    ran(workshop, linked)
    remove(workshop, linked, repository)
    workshop.project.git("init", "-q", str(linked))
    found = workshop.does(review.review(workshop.engine(), "here"))
    assert {file.path for file in found.diff.files} == {"file", "new"}
    workshop.does(workshop.engine().remove("here"))
    assert ours(workshop, repository) == []


def test_where_all_is_gone_that_is_said_and_the_run_can_be_removed(
    workshop: Workshop, linked: Path
) -> None:
    repository = common(linked)
    run = ran(workshop, linked)
    shutil.rmtree(linked)
    shutil.rmtree(repository)
    with pytest.raises(AgsError) as refused:
        workshop.does(review.review(workshop.engine(), "here"))
    assert refused.value.cause == "it is gone" and "ags diff --patch" in refused.value.hint
    patch = workshop.ags_home / "runs" / run.id / "result.patch"
    assert b"+more" in patch.read_bytes()
    workshop.does(workshop.engine().remove("here"))
    assert not patch.exists()


def test_undo_says_that_there_is_nothing_to_write_to(workshop: Workshop, linked: Path) -> None:
    repository = common(linked)
    ran(workshop, linked)
    remove(workshop, linked, repository)
    with pytest.raises(AgsError) as refused:
        workshop.does(review.undo(workshop.engine(), "here"))
    assert "no repository any more" in refused.value.cause
