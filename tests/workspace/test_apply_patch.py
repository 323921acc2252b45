"""`--patch`: the change goes to index and files, and no branch moves."""

from __future__ import annotations

import pytest

from ags.errors import AgsError
from ags.workspace.apply import Conflict, undo
from tests.workspace.bringing import BASE, advance, agent, bring, is_clean, project
from tests.workspace.repositories import Checkout, go

__all__ = ["project"]
CHANGED = BASE.replace("7\n", "seven\n", 1)


def listing(project: Checkout) -> dict[str, bytes]:
    files = (path for path in project.folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(project.folder)): path.read_bytes()
        for path in files
        if ".git" not in path.relative_to(project.folder).parts
    }


@pytest.mark.parametrize("moved", [False, True])
def test_a_patch_changes_the_files_and_moves_no_branch(project: Checkout, moved: bool) -> None:
    agent(project, {"file": CHANGED, "new": "new\n", "other": None} if not moved else
          {"file": CHANGED, "new": "new\n"})  # fmt: skip
    if moved:
        advance(project)
    before, head = listing(project), project.git("rev-parse", "HEAD")
    done = bring(project, how="patch")
    assert project.git("rev-parse", "HEAD") == head
    assert (project.folder / "new").read_text() == "new\n"
    assert (project.folder / "file").read_text() == CHANGED
    assert b"A  new" in project.git("status", "--porcelain")
    go(undo(project.repository, done))
    assert listing(project) == before and is_clean(project)
    assert project.git("rev-parse", "HEAD") == head


def test_a_patch_that_conflicts_names_the_files_and_changes_nothing(project: Checkout) -> None:
    agent(project, {"file": CHANGED})
    advance(project, "file", BASE.replace("7\n", "VII\n", 1))
    before = listing(project)
    with pytest.raises(Conflict) as caught:
        bring(project, how="patch")
    assert caught.value.files == ("file",)
    assert listing(project) == before and is_clean(project)


def test_a_patch_needs_files_to_change(project: Checkout) -> None:
    agent(project, {"file": CHANGED})
    project.git("branch", "elsewhere")
    with pytest.raises(AgsError, match="no files to change"):
        bring(project, into="elsewhere", how="patch")


def test_undo_of_a_patch_leaves_edits_made_since_alone(project: Checkout) -> None:
    agent(project, {"file": CHANGED})
    done = bring(project, how="patch")
    project.write("file", CHANGED + "mine\n")
    with pytest.raises(AgsError, match="changes of yours in file"):
        go(undo(project.repository, done))
    assert (project.folder / "file").read_text() == CHANGED + "mine\n"


def test_undo_of_a_patch_that_was_committed_is_refused(project: Checkout) -> None:
    agent(project, {"file": CHANGED})
    done = bring(project, how="patch")
    project.commit("took it")
    with pytest.raises(AgsError, match="apply left it at"):
        go(undo(project.repository, done))
    assert (project.folder / "file").read_text() == CHANGED
