"""`ags auth` leaves nothing behind, not even when it is killed: the next one clears up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ags.logins import room
from tests.cli.desk import Desk
from tests.logins import stand_in

PATIENCE = 60.0
WAITS = "#!/bin/sh\ntouch started; exec sleep 600\n"


@pytest.fixture
def equipped(desk: Desk) -> Desk:
    stand_in.give(desk.state, WAITS)
    return desk


@contextmanager
def at_work(desk: Desk) -> Iterator[subprocess.Popen[bytes]]:
    """A log-in that waits for its person."""
    before = set(desk.state.glob("auth/*/work/started"))
    process = subprocess.Popen(
        (sys.executable, "-m", "ags.cli.main", "auth", "claude"),
        env=desk.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + PATIENCE
        while not set(desk.state.glob("auth/*/work/started")) - before:
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


def rooms(desk: Desk) -> list[str]:
    return sorted(place.name for place in desk.state.glob("auth/*"))


def test_what_a_killed_log_in_left_goes_with_the_next_cleanup_and_one_at_work_stays(
    equipped: Desk,
) -> None:
    with at_work(equipped) as killed:
        (left,) = rooms(equipped)
        killed.kill()
        killed.wait()
        assert rooms(equipped) == [left]
        with at_work(equipped):
            assert left not in rooms(equipped)  # by the one that began just now
            (used,) = rooms(equipped)
            assert equipped.ags("cleanup").out == "nothing to remove\n"
            assert rooms(equipped) == [used]
    place = equipped.state / "auth" / used
    said = equipped.ags("cleanup", "--dry-run").out
    assert said == f"would remove what a log-in left: {place}\n" and place.exists()
    assert equipped.ags("cleanup").out == f"removed what a log-in left: {place}\n"
    assert rooms(equipped) == []


def test_a_room_is_gone_when_it_was_used_whatever_is_in_it(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").touch()
    with room.room(tmp_path) as place:
        (place / "link").symlink_to(victim)
        (place / "shut/deeper").mkdir(parents=True)
        (place / "shut").chmod(0)
        assert room.left(tmp_path) == () and room.sweep(tmp_path) == ()
        assert place.exists()
    assert not place.exists() and (victim / "file").exists()


def test_only_folders_that_were_made_for_log_ins_are_swept(tmp_path: Path) -> None:
    top = tmp_path / room.FOLDER
    ours, links = top / ("a" * 12), top / ("b" * 12)
    for place in (ours, top / "notes", tmp_path / "elsewhere"):
        place.mkdir(parents=True)
    links.symlink_to(tmp_path / "elsewhere")
    (top / ("c" * 12)).touch()
    assert room.sweep(tmp_path) == (ours,)
    assert sorted(os.listdir(top)) == ["b" * 12, "c" * 12, "notes"]
    assert (tmp_path / "elsewhere").is_dir()
    assert room.sweep(tmp_path / "nowhere") == ()
