"""`ags rm`: gone is what is stored elsewhere, and nothing else."""

from __future__ import annotations

from tests.cli.desk import Desk
from tests.runs.examples import create


def test_the_record_and_the_workspace_go_and_the_branch_stays(desk: Desk) -> None:
    run = desk.finished(workspace=True)
    said = desk.ags("rm", "fix-login")
    assert (said.code, said.out) == (0, "removed fix-login; agent--fix-login stays\n")
    assert not (desk.state / "runs" / run.id).exists()
    assert not (desk.state / "worktrees" / "fix-login").exists()
    assert desk.project.ask("rev-parse", "agent--fix-login") == run.left_at
    assert desk.ags("list").out.startswith("no runs yet")


def test_one_that_is_kept_does_not_keep_the_others(desk: Desk) -> None:
    desk.finished("first")
    desk.finished("last")
    said = desk.ags("rm", "first", "nobody", "last")
    assert said.code == 1
    assert [line.split(";")[0] for line in said.out.splitlines()] == [
        "removed first",
        "removed last",
    ]
    assert "there is no run of this name" in said.err


def test_a_run_at_work_is_not_removed(desk: Desk) -> None:
    with create(desk.state, state="running") as held:
        said = desk.refused("rm", "--force", "fix-login")
        assert "it is at work" in said and "ags stop" in said
        assert held.run_dir.exists()


def test_work_that_is_nowhere_else_is_dropped_only_by_force(desk: Desk) -> None:
    run = desk.finished(workspace=True)
    desk.project.git("branch", "-D", "agent--fix-login")
    said = desk.refused("rm", "fix-login")
    assert run.result is not None
    assert f"git branch agent--fix-login {run.result.commit}" in said and "--force" in said
    assert (desk.state / "runs" / run.id).exists()
    assert (desk.state / "worktrees" / "fix-login" / "a.txt").exists()
    forced = desk.ags("rm", "--force", "fix-login")
    assert (forced.code, forced.out) == (0, "removed fix-login\n")  # and not that a branch stays
    assert not (desk.state / "runs" / run.id).exists()


def test_a_name_is_needed(desk: Desk) -> None:
    assert desk.ags("rm").code == 2
