"""A stop, whenever it comes: the run ends as stopped, with what the agent did on its branch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time

import pytest

from ags import runs
from ags.control import client
from ags.errors import AgsError
from tests.faults.supervisor import POINTS
from tests.faults.workshop import CHANGED, WORK, Workshop, wait_for

WORKED = ("collecting", "collected", "ending")
"""By then the agent is through, and at the last two there is nothing left to stop."""
STUBBORN = f"trap 'echo asked' TERM HUP; {WORK}; while true; do sleep 1; done"


@pytest.mark.parametrize("action", ["stop", "stop-now"])
def test_a_stop_at_any_point(workshop: Workshop, action: str) -> None:
    own = workshop.own()
    begun = {point: workshop.start(f"at-{point}", at=point, action=action) for point in POINTS}
    for point, run in begun.items():
        ended = workshop.ended(run)
        assert ended.state == ("done" if point in WORKED[1:] else "stopped"), point
        workshop.nothing_runs(run)
        if ended.state == "stopped":
            assert ended.stopped_by == "stopped by the test", point
            assert workshop.events(run)[-1].fields["state"] == "stopped"
        workshop.does(workshop.engine().gather(run.name))
        if point in WORKED:
            assert workshop.files(run) == CHANGED, point
    for run in begun.values():
        workshop.does(workshop.engine().remove(run.name))
        assert workshop.traces(run) == []
    assert workshop.own() == own


def test_a_stop_right_after_the_start(workshop: Workshop) -> None:
    """Again and again, each a little later: before it listens, while it prepares, at work."""
    for number in range(6):
        # In one piece: a stop in the middle of it would rightly find half of it.
        run = workshop.start(f"try-{number}", f"trap '' TERM; {WORK}; trap - TERM; sleep 600")
        time.sleep(0.1 * number)
        stopped = workshop.does(workshop.engine().stop(run.name))
        assert (stopped.state, stopped.stopped_by) == ("stopped", "stopped by you")
        workshop.nothing_runs(run)
        if stopped.result is not None and stopped.result.files:
            assert workshop.files(run) == CHANGED


def test_a_stop_that_is_lost_while_the_sandbox_starts(workshop: Workshop) -> None:
    run = workshop.ended(workshop.start(at="launched", action="lost-stop"))
    assert (run.state, run.started) == ("stopped", None)
    assert "said" not in str(workshop.events(run))
    workshop.nothing_runs(run)


def test_a_stop_right_after_the_restart_of_a_killed_run(workshop: Workshop) -> None:
    """The socket that the killed one left behind answers nobody."""
    run = workshop.start(goal=f"{WORK}; sleep 600", at="released", action="kill")
    workshop.untended(run)
    assert (workshop.run_dir(run) / "control.sock").exists()

    async def both() -> None:
        await workshop.engine().restart(run.name)
        await workshop.engine().stop(run.name)

    workshop.does(both())
    assert workshop.load(run).state == "stopped"


def test_a_stop_keeps_what_the_agent_did(workshop: Workshop) -> None:
    run = workshop.start(goal=f"{WORK}; sleep 600; echo late > late")
    wait_for("it is at work", lambda: "said" in str(workshop.events(run)))
    stopped = workshop.does(workshop.engine().stop(run.name))
    assert (stopped.state, workshop.files(run)) == ("stopped", CHANGED)
    with pytest.raises(AgsError, match="it is not at work: it is stopped"):
        workshop.does(workshop.engine().stop(run.name))


def test_an_agent_that_is_asked_to_end_has_time_for_its_last_words(workshop: Workshop) -> None:
    last = "trap 'sleep 1; echo bye > last; exit 3' TERM"
    run = workshop.start(
        goal=f"{last}; {WORK}; while true; do sleep 0.1; done", at="queued", action="patient"
    )
    wait_for("it is at work", lambda: "said" in str(workshop.events(run)))
    stopped = workshop.does(workshop.engine().stop(run.name))
    assert (stopped.state, stopped.exit_code) == ("stopped", 3)
    assert workshop.files(run) == {**CHANGED, "last": "bye"}


def test_a_stop_at_once_of_an_agent_that_does_not_listen(workshop: Workshop) -> None:
    run = workshop.start(goal=STUBBORN, at="queued", action="patient")
    wait_for("it is at work", lambda: "said" in str(workshop.events(run)))

    async def twice() -> None:
        in_order = asyncio.create_task(workshop.engine().stop(run.name))
        while "asked" not in str(workshop.events(run)):
            await asyncio.sleep(0.05)
        assert not in_order.done()
        await workshop.engine().stop(run.name, at_once=True)
        await in_order

    workshop.does(asyncio.wait_for(twice(), 120))  # it would have had far more to end by itself
    stopped = workshop.load(run)
    assert (stopped.state, workshop.files(run)) == ("stopped", CHANGED)
    workshop.nothing_runs(run)


def test_to_ask_again_gives_a_stubborn_agent_no_more_time(workshop: Workshop) -> None:
    run = workshop.start(goal=STUBBORN, at="queued", action="impatient")
    wait_for("it is at work", lambda: "said" in str(workshop.events(run)))

    async def ask_often() -> None:
        while runs.is_alive(workshop.run_dir(run)):
            with contextlib.suppress(AgsError):  # it has just ended
                await client.ask(workshop.run_dir(run), "stop")
            await asyncio.sleep(0.2)

    workshop.does(asyncio.wait_for(ask_often(), 120))
    assert (workshop.load(run).state, workshop.files(run)) == ("stopped", CHANGED)


def test_a_machine_that_goes_down_stops_a_run_in_order(workshop: Workshop) -> None:
    run = workshop.start(goal=f"{WORK}; sleep 600")
    wait_for("it is at work", lambda: "said" in str(workshop.events(run)))
    (supervisor,) = workshop.supervisors(run)
    os.kill(supervisor, signal.SIGTERM)
    stopped = workshop.ended(run)
    assert (stopped.state, workshop.files(run)) == ("stopped", CHANGED)
    assert stopped.stopped_by == "stopped by the machine or its person"
