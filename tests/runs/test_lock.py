"""Who tends a run, and who may write its record."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import time
from pathlib import Path

import pytest

from ags import runs
from ags.errors import AgsError, Missing
from ags.runs import Held
from tests.disk import fill, small_disk
from tests.runs.examples import create, example, script


def test_a_run_lives_as_long_as_its_lock_is_held(tmp_path: Path) -> None:
    held = create(tmp_path)
    assert runs.is_alive(held.run_dir)
    with pytest.raises(AgsError, match="it is at work"):
        runs.hold(held.run_dir, patience=0)
    held.close()
    assert not runs.is_alive(held.run_dir)
    with runs.hold(held.run_dir) as again:
        assert again.run == held.run and runs.is_alive(held.run_dir)


HOLD = """
import sys, time
from pathlib import Path
from ags import runs
held = runs.hold(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_killed_supervisor_lets_go_and_its_pid_means_nothing(tmp_path: Path) -> None:
    held = create(tmp_path)
    held.save(example(id=held.run.id, supervisor=runs.Supervisor.me()))
    held.close()
    # Recorded is a process that lives, ours; the lock knows better.
    assert not runs.is_alive(held.run_dir)
    with script(HOLD, held.run_dir) as process:
        assert process.stdout and process.stdout.readline() == "held\n"
        assert runs.is_alive(held.run_dir)
        process.send_signal(signal.SIGKILL)
    assert not runs.is_alive(held.run_dir)


WAIT = """
import sys
from pathlib import Path
from ags import runs
from ags.errors import Missing
try:
    runs.hold(Path(sys.argv[1]), patience=60)
except Missing as error:
    print(error.cause)
"""


def test_a_run_that_is_removed_is_missed_also_by_who_waited_for_it(tmp_path: Path) -> None:
    held = create(tmp_path)
    with script(WAIT, held.run_dir) as process:
        until = time.monotonic() + 60
        while str(held.run_dir / "lock") not in opened_by(process.pid):
            assert time.monotonic() < until
            time.sleep(0.01)
        runs.remove(tmp_path, held)
        assert process.communicate(timeout=60)[0] == "there is no run of this name\n"
    with pytest.raises(Missing, match="there is no run of this name"):
        runs.hold(held.run_dir)
    with create(tmp_path) as another:
        run_dir = another.run_dir
    runs.hold(run_dir).close()


def opened_by(pid: int) -> list[str]:
    """Files, by their paths."""
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(each))
    return found


ADOPT = """
import os, sys
from pathlib import Path
from ags import runs
held = runs.Held.adopt(Path(sys.argv[1]), int(sys.argv[2]))
assert not os.get_inheritable(held.descriptor)
print("adopted", flush=True)
sys.stdin.readline()
held.save(runs.moved(held.run, "preparing", runs.now()))
"""


def test_a_lock_is_handed_on_without_a_moment_when_nobody_has_it(tmp_path: Path) -> None:
    held = create(tmp_path)
    fd = held.descriptor
    with script(ADOPT, held.run_dir, fd, pass_fds=[fd]) as process:
        assert process.stdout and process.stdout.readline() == "adopted\n"
        held.close()
        assert runs.is_alive(held.run_dir) and runs.sweep(tmp_path) == []
        process.communicate("go on\n", timeout=60)
    assert process.returncode == 0
    assert runs.load(held.run_dir).state == "preparing" and not runs.is_alive(held.run_dir)


def test_only_the_lock_itself_can_be_adopted(tmp_path: Path) -> None:
    held = create(tmp_path)
    with open(held.run_dir / "run.json") as other, pytest.raises(AgsError, match="not of its lock"):
        Held.adopt(held.run_dir, other.fileno())
    with open(held.run_dir / "lock") as same, pytest.raises(AgsError, match="another process"):
        Held.adopt(held.run_dir, same.fileno())
    held.close()


def test_any_number_may_ask_at_once(tmp_path: Path) -> None:
    held = create(tmp_path)
    held.close()
    with open(held.run_dir / "lock") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not runs.is_alive(held.run_dir)


def test_a_record_is_replaced_whole_and_for_the_person_alone(tmp_path: Path) -> None:
    with create(tmp_path) as held:
        path = held.run_dir / "run.json"
        old = path.open()
        before = path.read_text()
        held.save(runs.moved(held.run, "preparing", runs.now()))
        assert old.read() == before != path.read_text()
        old.close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(held.run_dir.stat().st_mode) == 0o700
        assert sorted(os.listdir(held.run_dir)) == ["lock", "reserve", "run.json"]


def test_a_record_is_not_saved_over_another_runs_or_against_the_table(tmp_path: Path) -> None:
    with create(tmp_path) as held:
        for wrong in (example(), example("other", id=held.run.id)):
            with pytest.raises(AgsError, match="its record is of"):
                held.save(wrong)
        with pytest.raises(AgsError, match="cannot become done"):
            held.save(example(id=held.run.id, state="done"))
        assert runs.load(held.run_dir) == held.run


def test_a_full_disk_leaves_the_old_record(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as home, create(home) as held:
        filler = fill(home)
        before = held.run
        notes = tuple("x" * 500 for _ in range(20))
        for _ in range(3):
            with pytest.raises(AgsError, match="no space left on device"):
                held.save(example(id=before.id, notes=notes))
        assert runs.load(held.run_dir) == held.run == before
        assert sorted(os.listdir(held.run_dir)) == ["lock", "reserve", "run.json"]
        filler.unlink()
        held.save(example(id=before.id, notes=notes))
        assert runs.load(held.run_dir).notes == notes


SAVE_WITHOUT_END = """
import sys
from dataclasses import replace
from pathlib import Path
from ags import runs
held = runs.hold(Path(sys.argv[1]))
print("held", flush=True)
number = int(held.run.notes[0]) if held.run.notes else 0
while True:
    number += 1
    held.save(replace(held.run, notes=(str(number), "x" * (number % 5000))))
"""


def test_a_record_is_sound_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    held = create(tmp_path)
    held.close()
    last = 0
    for round in range(10):
        with script(SAVE_WITHOUT_END, held.run_dir) as process:
            assert process.stdout and process.stdout.readline() == "held\n"
            time.sleep(0.005 + 0.003 * round)
            while round == 9 and not runs.load(held.run_dir).notes:
                assert process.poll() is None
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
        run = runs.load(held.run_dir)
        number = int(run.notes[0]) if run.notes else 0
        assert number >= last and (not number or len(run.notes[1]) == number % 5000)
        last = number
    assert last > 0
