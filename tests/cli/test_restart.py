"""`ags restart`: the same goal once more, on real runs."""

from __future__ import annotations

from tests.cli.desk import Desk
from tests.cli.test_stop import ENDLESS
from tests.cli.working import started
from tests.runs.examples import create

GOAL = "echo try >>a.txt; echo said it"


def start(desk: Desk, goal: str = GOAL) -> None:
    project = str(desk.project.folder)
    said = desk.ags("start", "--agent", "shell", "--project", project, "fix-login", goal)
    assert said.code == 0, said.err


def test_the_goal_is_worked_on_from_the_same_base_and_shown_as_it_goes(desk: Desk) -> None:
    start(desk)
    first = desk.project.ask("rev-parse", "agent--fix-login")
    said = desk.ags("restart", "fix-login")
    assert said.code == 0, said.err
    assert said.out.count("said it") == 1, "only what is new is shown"
    diff = desk.ags("diff", "fix-login").out
    assert diff.count("+try") == 1
    kept = desk.project.ask("for-each-ref", "--format=%(objectname)", "refs/ags/earlier/")
    assert first in kept.splitlines()


def test_detached_it_goes_on_alone(desk: Desk) -> None:
    start(desk)
    said = desk.ags("restart", "--detach", "fix-login")
    assert said.code == 0 and "ags logs -f fix-login" in said.out
    assert desk.ags("logs", "-f", "fix-login").out.count("said it") == 2
    assert "fix-login  done" in desk.ags("show", "fix-login").out


def test_a_goal_that_fails_again_ends_with_an_error(desk: Desk) -> None:
    base = desk.project.ask("rev-parse", "main")
    desk.record("failing", goal="exit 3", state="failed", base=base, branch="agent--failing")
    said = desk.ags("restart", "failing")
    assert said.code != 0 and "exit code 3" in said.out


def test_ctrl_c_stops_it_in_order(desk: Desk) -> None:
    with started(desk, ENDLESS):
        pass
    code, screen = desk.on_terminal("restart", "fix-login", keys={"at work": "\x03"})
    assert code != 0 and "Traceback" not in screen
    assert "fix-login  stopped" in desk.ags("show", "fix-login").out
    assert "+kept" in desk.ags("diff", "fix-login").out


def test_one_at_work_is_not_restarted(desk: Desk) -> None:
    with create(desk.state, state="running"):
        assert "it is at work" in desk.refused("restart", "fix-login")


def test_one_that_worked_in_the_persons_folder_is_not_restarted(desk: Desk) -> None:
    desk.record(mode="inplace")
    assert "it worked in your own folder" in desk.refused("restart", "fix-login")


def test_a_name_that_is_no_runs_is_refused(desk: Desk) -> None:
    assert "there is no run of this name" in desk.refused("restart", "nobody")
