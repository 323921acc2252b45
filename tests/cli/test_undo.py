"""`ags undo`: as it was before, or not at all."""

from __future__ import annotations

import pytest

from ags.review import NOT_COMPARED
from tests.cli.desk import Desk
from tests.runs.examples import create


@pytest.mark.parametrize("how", [(), ("--squash",), ("--patch",)])
def test_all_is_as_it_was_and_can_be_applied_again(desk: Desk, how: tuple[str, ...]) -> None:
    run = desk.finished(files={"a.txt": "other\n", "new/b.txt": "b\n"})
    before = desk.project.state()
    assert desk.ags("apply", *how, "fix-login").code == 0
    assert desk.project.state() != before
    said = desk.ags("undo", "fix-login")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("undone fix-login: ")
    assert desk.project.state() == before
    assert [bool(each.undone) for each in desk.again(run).applied] == [True]
    assert desk.ags("apply", *how, "fix-login").code == 0


def test_where_the_branch_is_again_is_told(desk: Desk) -> None:
    run = desk.finished()
    desk.ags("apply", "fix-login")
    assert run.base is not None
    assert f"main is at {run.base[:12]} again" in desk.ags("undo", "fix-login").out


def test_a_branch_that_went_on_stays_and_the_way_back_is_told(desk: Desk) -> None:
    desk.finished()
    desk.ags("apply", "fix-login")
    desk.project.write("mine.txt", "x")
    desk.project.commit("mine")
    before = desk.project.state()
    assert "git revert" in desk.refused("undo", "fix-login")
    assert desk.project.state() == before


def test_what_was_not_applied_cannot_be_undone(desk: Desk) -> None:
    desk.finished()
    assert "it was not applied" in desk.refused("undo", "fix-login")


def test_of_a_run_outside_a_repository_the_reason_is_told(desk: Desk) -> None:
    desk.record(mode="inplace")
    for verb in ("undo", "diff"):
        said = desk.refused(verb, "fix-login")
        assert NOT_COMPARED in said and "ags logs fix-login" in said


def test_a_run_at_work_is_told_by_its_name(desk: Desk) -> None:
    with create(desk.state, state="running") as held:
        said = desk.refused("undo", "fix-login")
        assert "lock (fix-login)" in said and "`ags stop fix-login`" in said
        assert held.run.id not in said


def test_a_name_that_is_no_runs_is_refused(desk: Desk) -> None:
    assert "there is no run of this name" in desk.refused("undo", "nobody")
