"""Killed without a word, at any step: nothing runs on, nothing is lost, all can be had (R2)."""

from __future__ import annotations

import pytest

from ags.runs import Run
from tests.faults.supervisor import POINTS
from tests.faults.workshop import CHANGED, Workshop, states, wait_for

WORKED = ("collecting", "collected", "ending")
"""By then the agent is through."""
LONG = "echo more >> file; echo made > made; echo said; sleep 600"


def test_with_nothing_wrong_the_same_run_is_done(workshop: Workshop) -> None:
    own = workshop.own()
    run = workshop.ended(workshop.start(at="never"))
    assert (run.state, run.notes) == ("done", ())
    assert workshop.files(run) == CHANGED
    assert workshop.own() == own
    workshop.nothing_runs(run)
    check_removed(workshop, run)


@pytest.mark.parametrize("point", POINTS)
def test_a_supervisor_killed_at_any_point(workshop: Workshop, point: str) -> None:
    own = workshop.own()
    run = workshop.start(at=point, action="kill")
    workshop.untended(run)
    check_interrupted(workshop, run)
    workshop.nothing_runs(run)
    assert workshop.own() == own
    workshop.check_sound()

    gathered = workshop.does(workshop.engine().gather(run.name))
    assert gathered.state == "interrupted"
    if point in WORKED:
        assert workshop.files(run) == CHANGED

    again = workshop.restarted(run)
    assert (again.state, again.notes) == ("done", ())
    assert workshop.files(run) == CHANGED
    check_removed(workshop, run)
    assert workshop.own() == own
    workshop.check_sound()


def test_a_killed_run_can_be_removed_as_it_is(workshop: Workshop) -> None:
    killed = {point: workshop.start(f"at-{point}", at=point, action="kill") for point in POINTS}
    for run in killed.values():
        workshop.untended(run)
    for point, run in killed.items():
        check_removed(workshop, run)
        if point in WORKED:
            assert workshop.files(run) == CHANGED


def test_a_supervisor_killed_after_any_single_step(workshop: Workshop) -> None:
    """A step is a save of the record or a change by git: all that others can see."""
    own = workshop.own()
    steps = steps_of(workshop)
    assert len(steps) > 10
    killed = [
        workshop.start(f"step-{n}", at=f"step-{n}", action="kill") for n in range(1, len(steps) + 1)
    ]
    for run in killed:
        workshop.untended(run)
    workshop.engine().sweep()
    found = states(workshop, killed)
    assert set(found.values()) <= {"interrupted", "done"}
    assert [name for name in found if found[name] == "done"] == [f"step-{len(steps)}"]
    workshop.nothing_runs()
    check_sound_again(workshop, [run for run in killed if found[run.name] == "interrupted"])
    assert workshop.own() == own
    workshop.check_sound()


def steps_of(workshop: Workshop) -> list[str]:
    run = workshop.start("count", at="never")
    assert workshop.ended(run).state == "done"
    return (workshop.run_dir(run) / "steps").read_text().split("\0")


def check_sound_again(workshop: Workshop, killed: list[Run]) -> None:
    for run in killed:
        workshop.does(workshop.engine().gather(run.name))
        workshop.does(workshop.engine().restart(run.name))
    for run in killed:
        assert (workshop.ended(run).state, workshop.files(run)) == ("done", CHANGED), run.name
    for run in killed:
        check_removed(workshop, run)


def test_a_supervisor_killed_while_the_agent_is_at_work(workshop: Workshop) -> None:
    own = workshop.own()
    run = workshop.start(goal=LONG)
    at_work(workshop, run)
    assert workshop.processes(run)  # which the next line must end
    workshop.kill_supervisor(run)
    check_interrupted(workshop, run)
    workshop.nothing_runs(run)

    workshop.does(workshop.engine().gather(run.name))
    assert workshop.files(run) == CHANGED
    assert workshop.own() == own
    workshop.check_sound()
    check_removed(workshop, run)


def test_a_supervisor_that_hangs_can_be_killed(workshop: Workshop) -> None:
    run = workshop.start(at="collecting", action="hang")
    wait_for("it hangs", (workshop.run_dir(run) / "hanging").exists)
    assert workshop.load(run).state == "collecting"
    workshop.kill_supervisor(run)
    check_interrupted(workshop, run)
    workshop.does(workshop.engine().gather(run.name))
    assert workshop.files(run) == CHANGED


def test_the_command_line_tells_of_an_interrupted_run(workshop: Workshop) -> None:
    run = workshop.start(at="released", action="kill")
    workshop.untended(run)
    told, noted = workshop.cli("list").communicate(timeout=120)
    assert run.name in told
    assert "interrupted" in told
    assert "was interrupted" in noted


def at_work(workshop: Workshop, run: Run) -> None:
    wait_for("the agent is at work", lambda: "said" in str(workshop.events(run)))


def check_interrupted(workshop: Workshop, run: Run) -> None:
    engine = workshop.engine()
    (listed,) = engine.listing().runs
    assert (listed.name, listed.state) == (run.name, "interrupted")
    assert any(f"{run.name} was interrupted" in note for note in engine.notes)


def check_removed(workshop: Workshop, run: Run) -> None:
    workshop.does(workshop.engine().remove(run.name))
    assert workshop.traces(run) == []
