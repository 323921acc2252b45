"""Somebody sets the clock while a run is at work."""

from __future__ import annotations

import time

import pytest

from ags import runs
from tests.faults.workshop import CHANGED, Workshop

YEAR = 365 * 86400


@pytest.mark.parametrize("action", ["clock-back", "clock-forward"])
@pytest.mark.parametrize("point", ["created", "running", "collecting"])
def test_a_clock_that_jumps_by_a_year(workshop: Workshop, point: str, action: str) -> None:
    before = time.monotonic()
    run = workshop.ended(workshop.start(at=point, action=action))
    took = time.monotonic() - before
    assert (run.state, run.notes, workshop.files(run)) == ("done", (), CHANGED)
    assert run.ended is not None
    jump = abs(run.ended.wall - time.time())
    assert YEAR - 3600 < jump < YEAR + 3600  # so the clock did jump
    assert 0 <= runs.duration(run, runs.now()) <= took
    seqs = [event.seq for event in workshop.events(run)]
    assert seqs == list(range(1, len(seqs) + 1))
    (listed,) = workshop.engine().listing().runs
    assert listed.state == "done"
