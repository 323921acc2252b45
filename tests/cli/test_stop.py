"""`ags stop`, on real runs."""

from __future__ import annotations

from tests.cli.desk import Desk
from tests.cli.working import started

ENDLESS = "echo kept >>a.txt; echo at work; while :; do sleep 0.1; done"
POLITE = f"trap 'echo asked; exit 1' TERM HUP; {ENDLESS}"
DEAF = f"trap 'echo asked' TERM HUP; {ENDLESS}"


def test_a_run_ends_in_order_and_its_work_is_kept(desk: Desk) -> None:
    with started(desk, POLITE):
        said = desk.ags("stop", "fix-login")
    assert said.code == 0
    assert "asked" in desk.ags("logs", "fix-login").out
    assert "stopped" in said.out + said.err
    shown = desk.ags("show", "fix-login").out
    assert "fix-login  stopped" in shown and "stopped by you" in shown
    assert "+kept" in desk.ags("diff", "fix-login").out


def test_one_that_does_not_listen_is_ended_at_once_if_told_to(desk: Desk) -> None:
    with started(desk, DEAF):
        assert desk.ags("stop", "--now", "fix-login").code == 0
    assert "asked" not in desk.ags("logs", "fix-login").out
    assert "+kept" in desk.ags("diff", "fix-login").out


def test_one_that_has_ended_cannot_be_stopped(desk: Desk) -> None:
    desk.finished()
    assert "it is not at work: it is done" in desk.refused("stop", "fix-login")


def test_a_name_that_is_no_runs_is_refused(desk: Desk) -> None:
    assert "there is no run of this name" in desk.refused("stop", "nobody")
