"""`ags cleanup`: room is made, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.desk import Desk
from tests.runs.examples import create


def workspaces(desk: Desk) -> list[str]:
    return sorted(path.name for path in (desk.state / "worktrees").iterdir())


@pytest.fixture
def three(desk: Desk) -> Desk:
    """One whose work is stored, one whose work is nowhere else, one without a workspace."""
    desk.finished("stored", workspace=True)
    desk.finished("unsafe", {"b.txt": "b\n"}, workspace=True)
    desk.project.git("branch", "-D", "agent--unsafe")
    desk.finished("clean")
    return desk


def test_workspaces_whose_work_is_stored_go_and_the_rest_is_told(three: Desk) -> None:
    said = three.ags("cleanup")
    assert (said.code, said.out) == (1, "removed the workspace of stored\n")
    assert "(unsafe)" in said.err and "nothing else holds this work" in said.err
    assert workspaces(three) == ["unsafe"]
    assert len(three.ags("list").out.splitlines()) == 4


def test_with_all_the_records_go_too(three: Desk) -> None:
    said = three.ags("cleanup", "--all")
    assert said.code == 1 and "removed stored; agent--stored stays" in said.out
    assert "removed clean" in said.out
    assert [line.split()[0] for line in three.ags("list").out.splitlines()[1:]] == ["unsafe"]


def test_force_drops_what_is_nowhere_else(three: Desk) -> None:
    assert three.ags("cleanup", "--force").code == 0
    assert workspaces(three) == []


@pytest.mark.parametrize("more", [(), ("--all",), ("--all", "--force")])
def test_a_dry_run_changes_nothing(three: Desk, more: tuple[str, ...]) -> None:
    before = sorted(map(str, Path(three.state / "runs").rglob("*")))
    said = three.ags("cleanup", "--dry-run", *more)
    assert said.code == 0
    assert len(said.out.splitlines()) == (3 if "--all" in more else 2)
    assert all(line.startswith("would remove ") for line in said.out.splitlines())
    assert workspaces(three) == ["stored", "unsafe"]
    assert sorted(map(str, Path(three.state / "runs").rglob("*"))) == before


def test_runs_at_work_are_left_alone(desk: Desk) -> None:
    workspace = desk.state / "worktrees" / "fix-login"
    with create(desk.state, state="running", workspace=workspace):
        workspace.mkdir(parents=True)
        for arguments in ((), ("--all",), ("--all", "--force")):
            said = desk.ags("cleanup", *arguments)
            assert (said.code, said.out) == (0, "nothing to remove\n")
        assert workspace.exists()


def test_with_nothing_to_do_it_says_so(desk: Desk) -> None:
    assert desk.ags("cleanup").out == "nothing to remove\n"
