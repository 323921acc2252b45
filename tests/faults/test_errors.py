"""What goes wrong in a supervisor ends its run as failed, with the reason in record and log."""

from __future__ import annotations

import pytest

from ags.runs import Run
from tests.faults.supervisor import POINTS
from tests.faults.workshop import Workshop

WORDS = {"raise": "it was to fail here", "crash": "AGS has a fault: RuntimeError('a fault was put"}


@pytest.mark.parametrize("action", WORDS)
def test_an_error_at_any_point_ends_the_run_as_failed(workshop: Workshop, action: str) -> None:
    own = workshop.own()
    begun = [workshop.start(f"at-{point}", at=point, action=action) for point in POINTS]
    for run in begun:
        check_failed(workshop, workshop.ended(run), WORDS[action])
    assert workshop.own() == own
    for run in begun:
        workshop.does(workshop.engine().remove(run.name))
        assert workshop.traces(run) == []


def check_failed(workshop: Workshop, run: Run, words: str) -> None:
    assert run.state == "failed", run.name
    assert words in run.notes[-1]
    assert words in str([event.fields for event in workshop.events(run)])
    assert workshop.events(run)[-1].fields["state"] == "failed"
    log = (workshop.run_dir(run) / "supervisor.log").read_text()
    assert ("Traceback" in log) == ("RuntimeError" in words), log
    workshop.nothing_runs(run)


def test_what_the_agent_did_before_an_error_of_ours_is_collected_later(workshop: Workshop) -> None:
    run = workshop.ended(workshop.start(at="collecting", action="crash"))
    assert run.state == "failed"
    run = workshop.does(workshop.engine().gather(run.name))
    assert run.result is not None
    assert set(workshop.files(run)) == {"file", "made"}
