"""The index or a record is gone or broken: the list still names everything (R3)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.runs import Run
from tests.faults.conftest import opened
from tests.faults.workshop import CHANGED, Workshop
from tests.workspace.scene import NOBODY, forked


def remove(index: Path) -> None:
    index.unlink()


def truncate(index: Path) -> None:
    os.truncate(index, index.stat().st_size // 2)


def overwrite(index: Path) -> None:
    index.write_bytes(os.urandom(index.stat().st_size))


def replace_by_folder(index: Path) -> None:
    index.unlink()
    (index / "in the way").mkdir(parents=True)


DAMAGES = (remove, truncate, overwrite, replace_by_folder)


@pytest.fixture
def two(workshop: Workshop) -> tuple[Run, Run]:
    return done_and_killed(workshop)


def done_and_killed(workshop: Workshop) -> tuple[Run, Run]:
    """One that is done, and one that was killed and that nobody has noticed yet."""
    done = workshop.ended(workshop.start("done"))
    killed = workshop.start("killed", at="collecting", action="kill")
    workshop.untended(killed)
    return done, killed


def test_a_damaged_index_is_made_anew(workshop: Workshop, two: tuple[Run, Run]) -> None:
    for damage in DAMAGES:
        index = workshop.ags_home / "agents.db"
        damage(index)
        for end in ("-wal", "-shm"):
            Path(f"{index}{end}").unlink(missing_ok=True)
        check_listed(workshop)
        if index.is_dir():
            shutil.rmtree(index)
    # And runs can be started, collected and removed as before.
    assert workshop.ended(workshop.start("third")).state == "done"
    workshop.does(workshop.engine().gather("killed"))
    assert workshop.files(two[1]) == CHANGED
    workshop.does(workshop.engine().remove("killed"))
    assert workshop.traces(two[1]) == []


def check_listed(workshop: Workshop) -> None:
    listing = workshop.engine().listing()
    assert {run.name: run.state for run in listing.runs} == {
        "killed": "interrupted",
        "done": "done",
    }
    assert listing.damaged == ()


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    """Not in a folder of pytest's: others who start it shut the way there, at any time."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder,
        opened(Path(folder).resolve(), monkeypatch) as made,
    ):
        yield made


def test_an_index_that_cannot_be_opened_is_done_without(reachable: Workshop) -> None:
    """Root opens anything, so this is for an ordinary user to meet."""
    workshop = reachable
    done_and_killed(workshop)
    check_listed(workshop)
    index = workshop.ags_home / "agents.db"
    index.chmod(0)
    if os.geteuid() != 0:
        check_listed(workshop)
        return
    for path in (workshop.place, *workshop.place.rglob("*")):
        os.chown(path, NOBODY.uid, NOBODY.gid, follow_symlinks=False)
    forked(lambda: check_listed(workshop), NOBODY)


def halve(record: Path) -> None:
    os.truncate(record, record.stat().st_size // 2)


def empty(record: Path) -> None:
    os.truncate(record, 0)


def garble(record: Path) -> None:
    record.write_bytes(os.urandom(2000))


def test_a_damaged_record_is_named_and_the_others_work(
    workshop: Workshop, two: tuple[Run, Run]
) -> None:
    done, killed = two
    workshop.project.git("branch", "-D", "agent--done")  # which alone would keep the name taken
    record = workshop.run_dir(done) / "run.json"
    sound = record.read_bytes()
    for damage in (halve, empty, garble, remove):
        damage(record)
        check_damaged(workshop, done)
        record.write_bytes(sound)
    check_listed(workshop)
    halve(record)
    again = workshop.restarted(killed)
    assert (again.state, workshop.files(again)) == ("done", CHANGED)
    assert record.read_bytes() == sound[: len(sound) // 2]


def check_damaged(workshop: Workshop, run: Run) -> None:
    listing = workshop.engine().listing()
    assert [each.name for each in listing.runs] == ["killed"]
    assert [each.id for each in listing.damaged] == [run.id]
    with pytest.raises(AgsError, match="cannot read the record of a run") as error:
        workshop.engine().find(run.name)
    assert str(workshop.run_dir(run)) in error.value.hint
    # Its name stays taken, lest another run's files get mixed with it.
    with pytest.raises(AgsError, match="damaged"):
        workshop.does(workshop.engine().start(workshop.wish(run.name)))


def test_a_damaged_run_goes_only_if_it_must(workshop: Workshop, two: tuple[Run, Run]) -> None:
    done, _ = two
    empty(workshop.run_dir(done) / "run.json")
    with pytest.raises(AgsError, match="cannot read the record of a run"):
        workshop.does(workshop.engine().remove(done.name))
    assert workshop.run_dir(done).exists()
    workshop.does(workshop.engine().remove(done.name, force=True))
    assert not workshop.run_dir(done).exists()
    assert [each.name for each in workshop.engine().listing().runs] == ["killed"]
    assert workshop.engine().listing().damaged == ()
    assert not (workshop.ags_home / "names/done").is_symlink()
