"""A disk with no room left: a clear word, and nothing lost (R3)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from ags.errors import AgsError
from ags.model import Limits
from tests.disk import fill, small_disk
from tests.faults.workshop import CHANGED, WORK, Workshop, wait_for

UNBOUND = Limits(disk_free=None)
FILLING = f"{WORK}; cat /dev/zero > big; echo full; exit 3"


@pytest.fixture
def small(workshop: Workshop) -> Iterator[Workshop]:
    """The state folder has a disk of its own."""
    with small_disk(workshop.ags_home, "32m"):
        yield workshop


def test_a_run_is_refused_where_there_is_too_little_room(small: Workshop) -> None:
    run = small.ended(small.start())
    assert run.state == "failed"
    assert "the floor is 1 GiB" in run.notes[-1]
    assert "make room there" in str([event.fields for event in small.events(run)])
    assert run.started is None


def test_a_run_with_room_enough_is_done_there(small: Workshop) -> None:
    run = small.ended(small.start(limits=UNBOUND))
    assert (run.state, small.files(run)) == ("done", CHANGED)


def test_a_run_that_fills_the_disk_loses_nothing(small: Workshop) -> None:
    own = small.own()
    run = small.start(goal=FILLING, limits=UNBOUND)
    small.untended(run)
    ended = small.load(run)
    assert ended.state == "failed"
    assert "no space left on device" in ended.notes[-1]
    assert "no space left on device" in str([event.fields for event in small.events(run)])
    fill(small.ags_home)  # what a run that failed gave back when it cleared up
    engine = small.engine()
    assert [(each.name, each.state) for each in engine.listing().runs] == [("try", "failed")]
    assert any("disk is full" in note for note in engine.notes)
    with pytest.raises(AgsError, match="no space left"):
        small.does(small.engine().start(small.wish("another")))
    assert small.own() == own
    small.check_sound()

    subprocess.run(("mount", "-o", "remount,size=128m", small.ags_home), check=True)
    small.does(small.engine().gather(run.name))
    found = small.load(run)
    assert found.state == "failed"
    files = small.files(found)
    assert files.pop("big").startswith("\0")
    assert files == CHANGED
    seqs = [event.seq for event in small.events(run)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert small.own() == own
    small.check_sound()


def test_a_run_that_dies_on_a_full_disk_is_seen_to_be_interrupted(small: Workshop) -> None:
    run = small.start(goal=FILLING, limits=UNBOUND, at="released", action="hang")
    wait_for("the disk is full", lambda: os.statvfs(small.ags_home).f_bavail == 0)
    small.kill_supervisor(run)
    fill(small.ags_home)
    (listed,) = small.engine().listing().runs
    assert listed.state == "interrupted"
