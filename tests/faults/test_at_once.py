"""Several people, or one with several terminals, ask for the same thing at the same moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.runs import Run
from tests.faults.workshop import CHANGED, WORK, Workshop, wait_for
from tests.workspace.scene import end_fork, start_fork

LONG = "echo more >> file; echo made > made; echo said; exec sleep 600"


def at_once(workshop: Workshop, *requests: Callable[[], object]) -> list[str]:
    """Each in a process of its own, all let go together; `ok`, or the error each one met."""
    answers = workshop.place / "answers"
    answers.mkdir(exist_ok=True)
    gate, go = os.pipe()

    def ask(number: int, request: Callable[[], object]) -> Callable[[], None]:
        def body() -> None:
            os.close(go)
            os.read(gate, 1)
            (answers / str(number)).write_text(outcome(request))

        return body

    asking = [start_fork(ask(number, request)) for number, request in enumerate(requests)]
    os.close(gate)
    os.close(go)
    for child in asking:
        assert end_fork(child) == 0
    return [(answers / str(number)).read_text() for number in range(len(requests))]


def outcome(request: Callable[[], object]) -> str:
    try:
        request()
    except AgsError as error:
        return str(error)
    return "ok"


@pytest.mark.parametrize("count", [2, 10])
def test_one_of_several_starts_of_a_name_wins(workshop: Workshop, count: int) -> None:
    own = workshop.own()
    told = at_once(workshop, *[lambda: workshop.start("same")] * count)
    assert told.count("ok") == 1
    refused = [each for each in told if each != "ok"]
    assert all("cannot start a run of this name (same)" in each for each in refused), refused
    assert len(workshop.engine().listing().runs) == 1
    run = workshop.ended(workshop.engine().find("same"))
    assert (run.state, workshop.files(run)) == ("done", CHANGED)
    check_alone(workshop, run)
    assert workshop.own() == own


def check_alone(workshop: Workshop, run: Run) -> None:
    """Nothing is left of those that lost."""
    assert os.listdir(workshop.ags_home / "runs") == [run.id]
    assert os.listdir(workshop.ags_home / "git") == [run.id]
    assert os.listdir(workshop.ags_home / "worktrees") == [run.name]
    refs = workshop.project.ask("for-each-ref", "--format=%(refname)").splitlines()
    assert set(refs) == {
        "refs/heads/main",
        f"refs/heads/agent--{run.name}",
        f"refs/ags/base/{run.id}",
    }


HELD = f"until [ -e go ]; do sleep 0.05; done; rm go; {WORK}"


def test_a_start_and_a_removal_at_once(workshop: Workshop) -> None:
    for number in range(3):
        name = f"try-{number}"
        started, removed = at_once(
            workshop,
            lambda name=name: workshop.start(name, HELD),  # type: ignore[misc]
            lambda name=name: workshop.does(workshop.engine().remove(name)),  # type: ignore[misc]
        )
        assert started == "ok"
        assert "no run of this name" in removed or "at work" in removed
        run = workshop.engine().find(name)
        wait_for("it is at work", lambda run=run: workshop.load(run).state == "running")  # type: ignore[misc]
        (workshop.ags_home / "worktrees" / name / "go").touch()
        run = workshop.ended(run)
        assert (run.state, workshop.files(run)) == ("done", CHANGED)


def test_two_stops_at_once(workshop: Workshop) -> None:
    run = workshop.start(goal=LONG)
    wait_for("it is at work", lambda: "said" in str(workshop.events(run)))
    told = at_once(workshop, *[lambda: workshop.does(workshop.engine().stop("try"))] * 2)
    assert "ok" in told
    assert all(each == "ok" or "not at work" in each for each in told), told
    run = workshop.ended(run)
    assert (run.state, run.stopped_by, workshop.files(run)) == (
        "stopped",
        "stopped by you",
        CHANGED,
    )
    workshop.nothing_runs(run)


def test_two_restarts_at_once(workshop: Workshop) -> None:
    run = workshop.start(at="collecting", action="kill")
    workshop.untended(run)
    told = at_once(workshop, *[lambda: workshop.does(workshop.engine().restart("try"))] * 2)
    assert "ok" in told
    assert all(each == "ok" or "at work" in each for each in told), told
    run = workshop.ended(run)
    assert (run.state, run.notes, workshop.files(run)) == ("done", (), CHANGED)
    workshop.does(workshop.engine().remove("try"))
    assert workshop.traces(run) == []


def test_two_removals_at_once(workshop: Workshop) -> None:
    run = workshop.ended(workshop.start())
    told = at_once(workshop, *[lambda: workshop.does(workshop.engine().remove("try"))] * 2)
    assert "ok" in told
    assert workshop.traces(run) == []
    assert workshop.files(run) == CHANGED


def test_removals_and_listings_at_once(workshop: Workshop) -> None:
    names = [f"run-{number}" for number in range(4)]
    for run in [workshop.start(name) for name in names]:
        assert workshop.ended(run).state == "done"

    def list_often() -> None:
        for _ in range(20):
            assert workshop.engine().listing().damaged == ()

    def remove(name: str) -> Callable[[], object]:
        return lambda: workshop.does(workshop.engine().remove(name))

    told = at_once(workshop, list_often, list_often, *map(remove, names))
    assert told == ["ok"] * 6
    assert workshop.engine().listing().runs == ()
    assert list(Path(workshop.ags_home / "names").glob("[!.]*")) == []
