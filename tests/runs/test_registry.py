"""Making, finding, sweeping and removing runs, also several at once and killed in between."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ags import runs
from ags.errors import AgsError
from ags.runs import Moment
from ags.runs.lock import flock
from tests.disk import fill, small_disk
from tests.runs.examples import create, example, script


def test_a_run_is_found_by_its_name_and_by_its_id(tmp_path: Path) -> None:
    with create(tmp_path, "one") as one, create(tmp_path, "two") as two:
        assert runs.find(tmp_path, "one") == one.run_dir == runs.find(tmp_path, one.run.id)
        assert runs.load(one.run_dir) == one.run
        assert runs.ids(tmp_path) == sorted([one.run.id, two.run.id])
        assert (tmp_path / "names" / "two").resolve() == two.run_dir


@pytest.mark.parametrize("name", ["none", "../one", "", ".lock", "a" * 20, "x\n", "--help", "/"])
def test_what_is_not_a_run_is_not_found(tmp_path: Path, name: str) -> None:
    create(tmp_path, "one").close()
    with pytest.raises(AgsError, match="there is no run of this name"):
        runs.find(tmp_path, name)
    with pytest.raises(AgsError, match="this is not a run's id"):
        runs.directory(tmp_path, "../../etc")


def test_a_taken_name_is_refused_and_its_run_is_named(tmp_path: Path) -> None:
    with create(tmp_path) as held:
        with pytest.raises(AgsError, match=f"run {held.run.id} has it \\(queued\\)") as caught:
            create(tmp_path)
        assert "ags rm fix-login" in caught.value.hint
        (held.run_dir / "run.json").write_text("{")
        with pytest.raises(AgsError, match="has it \\(damaged\\)"):
            create(tmp_path)
    assert runs.ids(tmp_path) == [held.run.id]


START = """
import sys
from pathlib import Path
from ags import errors, runs
from tests.runs.examples import create
print("ready", flush=True)
sys.stdin.readline()
try:
    held = create(Path(sys.argv[1]), sys.argv[2])
    print("won", held.run.id, flush=True)
    sys.stdin.readline()
except errors.AgsError as error:
    print("lost", error.cause, flush=True)
"""


def test_of_many_starts_of_one_name_one_wins(tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        racers = [script(START, tmp_path, name) for _ in range(6)]
        for racer in racers:
            assert racer.stdout and racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin
            racer.stdin.write("go\n")
            racer.stdin.flush()
        said = [racer.stdout.readline().split() for racer in racers if racer.stdout]
        for racer in racers:
            racer.communicate("end\n", timeout=60)
        (winner,) = (words[1] for words in said if words[0] == "won")
        assert runs.find(tmp_path, name).name == winner
        assert [words[2] for words in said if words[0] == "lost"] == [winner] * 5
    assert len(runs.ids(tmp_path)) == 3


KILLED_IN_BETWEEN = """
import os, signal, sys
from pathlib import Path
from ags.runs import registry
from tests.runs.examples import create
left = int(sys.argv[2])
def dying(function):
    def step(*arguments, **named):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return step
for name in ("mkdir", "symlink", "rename", "open", "fsync", "unlink"):
    setattr(os, name, dying(getattr(os, name)))
create(Path(sys.argv[1]))
print("done", flush=True)
"""


def test_a_start_killed_at_any_step_leaves_a_run_or_nothing(tmp_path: Path) -> None:
    outcomes = set()
    for steps in range(40):
        home = tmp_path / str(steps)
        home.mkdir()
        with script(KILLED_IN_BETWEEN, home, steps) as process:
            out, _ = process.communicate(timeout=60)
        runs.tidy(home)
        swept = runs.sweep(home)
        assert [run.state for run in swept] == ["interrupted"] * len(swept)
        if swept:
            assert runs.find(home, "fix-login").name == swept[0].id
            with runs.hold(runs.find(home, "fix-login")) as held:
                runs.remove(home, held)
        create(home).close()  # the name is free
        assert [name for name in os.listdir(home / "runs") if name.startswith(".")] == []
        outcomes.add((bool(swept), bool(out)))
        if out:
            break
    assert outcomes == {(False, False), (True, False), (True, True)}


def test_a_name_that_leads_nowhere_is_free(tmp_path: Path) -> None:
    create(tmp_path).close()
    (tmp_path / "names" / "ghost").symlink_to(f"../runs/{'0' * 20}")
    (tmp_path / "names" / "odd").symlink_to("/etc/passwd")
    for name in ("ghost", "odd"):
        with pytest.raises(AgsError, match="there is no run"):
            runs.find(tmp_path, name)
        with create(tmp_path, name) as held:
            assert runs.find(tmp_path, name) == held.run_dir


def test_a_sweep_ends_what_nobody_tends_and_nothing_else(tmp_path: Path) -> None:
    states = ("queued", "preparing", "running", "collecting", "done", "failed", "stopped")
    lost = {state: create(tmp_path, f"lost-{state}", state=state) for state in states}
    for held in lost.values():
        held.close()
    later = Moment(5, 6, "b")
    with create(tmp_path, "tended", state="running", asking=True) as tended:
        swept = runs.sweep(tmp_path, clock=lambda: later)
        assert runs.load(tended.run_dir) == tended.run
    assert {run.name for run in swept} == {f"lost-{state}" for state in states[:4]}
    for run in swept:
        assert run == runs.load(runs.find(tmp_path, run.name))
        assert (run.state, run.ended, run.asking) == ("interrupted", later, False)
        assert run.notes == (f"interrupted while {run.name[5:]}: its supervisor was gone",)
    for state in states[4:]:
        assert runs.load(lost[state].run_dir) == lost[state].run
    assert [run.name for run in runs.sweep(tmp_path)] == ["tended"]
    assert runs.sweep(tmp_path) == []


def test_a_run_that_ends_just_before_its_lock_is_taken_is_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = create(tmp_path, state="collecting")

    def ending(descriptor: int, patience: float) -> bool:
        assert not patience
        held.save(runs.moved(held.run, "done", runs.now()))
        held.close()
        return flock(descriptor, patience)

    monkeypatch.setattr("ags.runs.registry.is_alive", lambda _: False)
    monkeypatch.setattr("ags.runs.registry.flock", ending)
    assert runs.sweep(tmp_path) == []
    assert runs.load(held.run_dir).state == "done"


def test_a_sweep_may_be_told_where_to_look(tmp_path: Path) -> None:
    one, two = create(tmp_path, "one"), create(tmp_path, "two")
    one.close()
    two.close()
    assert runs.sweep(tmp_path, among=()) == []
    assert [run.name for run in runs.sweep(tmp_path, among=[two.run.id, "0" * 20])] == ["two"]
    assert runs.sweep(tmp_path / "nothing-here") == []


SWEEP = """
import sys
from pathlib import Path
from ags import runs
print("ready", flush=True)
sys.stdin.readline()
print(*(run.id for run in runs.sweep(Path(sys.argv[1]))), flush=True)
"""


def test_sweepers_at_once_share_the_work(tmp_path: Path) -> None:
    made = []
    for number in range(40):
        held = create(tmp_path, f"run-{number}", state="running")
        held.close()
        made.append(held.run.id)
    sweepers = [script(SWEEP, tmp_path) for _ in range(4)]
    for sweeper in sweepers:
        assert sweeper.stdout and sweeper.stdout.readline() == "ready\n"
    said = []
    for sweeper in sweepers:
        assert sweeper.stdin
        sweeper.stdin.write("go\n")
        sweeper.stdin.flush()
    for sweeper in sweepers:
        said += sweeper.communicate(timeout=120)[0].split()
    assert sorted(said) == sorted(made)
    found, _ = runs.load_all(tmp_path)
    assert all(run.state == "interrupted" and len(run.notes) == 1 for run in found)


@pytest.mark.parametrize("damage", ["", "{", '{"id": 1}', "\0" * 500, "directory", "link", "gone"])
def test_a_damaged_record_is_reported_and_kept(tmp_path: Path, damage: str) -> None:
    create(tmp_path, "sound", state="done").close()
    broken = create(tmp_path, "broken", state="running")
    broken.close()
    path = broken.run_dir / "run.json"
    path.unlink()
    if damage == "directory":
        path.mkdir()
    elif damage == "link":
        path.symlink_to(runs.find(tmp_path, "sound") / "run.json")
    elif damage != "gone":
        path.write_text(damage)
    assert runs.sweep(tmp_path) == []
    found, damaged = runs.load_all(tmp_path)
    assert [run.name for run in found] == ["sound"]
    assert [each.id for each in damaged] == [broken.run.id] and damaged[0].cause
    with pytest.raises(AgsError, match="cannot read the record of a run") as caught:
        runs.load(broken.run_dir)
    assert str(broken.run_dir) in caught.value.hint
    assert os.path.lexists(path) == (damage != "gone")


def test_a_record_of_another_run_or_a_later_format_is_damage(tmp_path: Path) -> None:
    with create(tmp_path, "one") as one, create(tmp_path, "two") as two:
        path = two.run_dir / "run.json"
        path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
        with pytest.raises(AgsError, match="format 2 is not known"):
            runs.load(two.run_dir)
        path.write_text((one.run_dir / "run.json").read_text())
        with pytest.raises(AgsError, match=f"it is the record of '{one.run.id}'"):
            runs.load(two.run_dir)


def test_a_removed_run_is_gone_and_its_name_free(tmp_path: Path) -> None:
    with create(tmp_path) as held:
        (held.run_dir / "events.jsonl").write_text("")
        runs.remove(tmp_path, held)
    assert runs.ids(tmp_path) == [] and os.listdir(tmp_path / "names") == [".lock"]
    assert os.listdir(tmp_path / "runs") == []
    create(tmp_path).close()


def test_lost_names_are_given_back(tmp_path: Path) -> None:
    held = create(tmp_path)
    held.close()
    (tmp_path / "names" / "fix-login").unlink()
    runs.relink(tmp_path, runs.load_all(tmp_path)[0])
    assert runs.find(tmp_path, "fix-login") == held.run_dir


def test_a_full_disk_makes_no_half_run(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as home:
        create(home, "before").close()
        filler = fill(home)
        with pytest.raises(AgsError, match="no space left on device") as caught:
            create(home, "during", notes=("x" * 50_000,))
        assert "make room" in caught.value.hint
        assert len(runs.ids(home)) == 1 and sorted(os.listdir(home / "names")) == [
            ".lock",
            "before",
        ]
        filler.unlink()
        create(home, "during", notes=("x" * 50_000,)).close()


STOPPED = """
import os, signal, sys
from pathlib import Path
from ags.runs import registry
with registry._registry(Path(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.readline()
"""


def test_an_ags_that_hangs_in_between_does_not_hang_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ags.runs.registry.PATIENCE", 0.2)
    with script(STOPPED, tmp_path) as process:
        assert process.stdout and process.stdout.readline() == "in\n"
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(AgsError, match="another ags has been changing it"):
            create(tmp_path)
        process.send_signal(signal.SIGKILL)
    create(tmp_path).close()


def test_a_run_is_made_with_what_it_was_given(tmp_path: Path) -> None:
    given = example(goal="bytes that are no text: \udcff", project=Path("/tmp/\udc80"))
    with runs.create(tmp_path, given) as held:
        assert held.run == given == runs.load(held.run_dir)
