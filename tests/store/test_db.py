"""The index of runs: what it answers, and that it is never wrong for long."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ags import runs
from ags.errors import AgsError
from ags.model import Weakening
from ags.runs import Applied, Held, Order, Result, Run, State
from ags.store import Filter, Listing, Store, Summary, db, queries, rebuild
from ags.store.db import RACY
from tests.disk import fill, small_disk
from tests.runs.examples import create, script
from tests.runs.strategies import any_run


def save(held: Held, **changes: object) -> Run:
    return held.save(replace(held.run, **changes))  # type: ignore[arg-type]


def states(home: Path) -> dict[str, str]:
    with Store(home) as store:
        assert store.notes == []
        return {run.name: run.state for run in store.listing().runs}


def test_a_home_without_runs_has_an_empty_list(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        assert store.listing() == Listing((), 0, ())
        assert store.counts() == {} and store.unfinished() == ()


def test_a_list_shows_a_run_as_its_record_has_it(tmp_path: Path) -> None:
    at = runs.now()
    applied = Applied("merge", "main", "b", "a", at)
    given: dict[str, Any] = {
        "state": "done",
        "exit_code": 0,
        "branch": "agent--x",
        "started": at,
        "ended": at,
        "result": Result("c0ffee", 3, 20, 1),
        "weakenings": (Weakening("unprotected", ".vscode"),),
        "applied": (applied,),
        "order": Order(client="acme"),
        "group": "x",
    }
    with create(tmp_path, **given) as held, Store(tmp_path) as store:
        run = held.run
        (seen,) = store.listing().runs
        assert seen == Summary(
            run.id, run.name, run.agent, run.goal, run.mode, run.project, run.branch, "done",
            False, run.created, at, at, 0, None, ("unprotected",), 3, 20, 1, True, "acme", "x",
        )  # fmt: skip
        save(held, applied=(replace(applied, undone=at),))
        assert store.listing().runs[0].applied is False


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=any_run)
def test_whatever_a_record_holds_can_be_listed(tmp_path: Path, run: Run) -> None:
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    with runs.create(tmp_path, run), Store(tmp_path) as store:
        (seen,) = store.listing(Filter(project=run.project, agent=run.agent)).runs
        for name in ("id", "name", "goal", "agent", "project", "created", "started", "stopped_by"):
            assert getattr(seen, name) == getattr(run, name)
        assert seen.weakenings == tuple(each.name for each in run.weakenings)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Six runs, made one after the other."""
    made: list[tuple[str, State, str, str]] = [
        ("alpha", "done", "shell", "/p/one"),
        ("echo", "running", "shell", "/p/one"),
        ("bravo", "failed", "demo", "/p/two"),
        ("delta", "running", "demo", "/p/two"),
        ("charlie", "queued", "demo", "/p/one"),
        ("foxtrot", "done", "shell", "/p/\udcff"),
    ]
    for number, (name, state, agent, project) in enumerate(made):
        create(
            tmp_path, name, id=f"{number:020x}", state=state, agent=agent, project=Path(project),
            goal=f"the goal of {name}", asking=name == "delta",
            mode="inplace" if name == "echo" else "separate",
        ).close()  # fmt: skip
    return tmp_path


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (Filter(), "foxtrot charlie delta bravo echo alpha"),
        (Filter(states=("done", "failed")), "foxtrot bravo alpha"),
        (Filter(states=("interrupted",)), ""),
        (Filter(agent="demo"), "charlie delta bravo"),
        (Filter(project=Path("/p/one")), "charlie echo alpha"),
        (Filter(project=Path("/p/\udcff")), "foxtrot"),
        (Filter(mode="inplace"), "echo"),
        (Filter(asking=True), "delta"),
        (Filter(asking=False, agent="demo"), "charlie bravo"),
        (Filter(words="l"), "foxtrot charlie delta bravo echo alpha"),
        (Filter(words="of d"), "delta"),
        (Filter(words="ravo"), "bravo"),
        (Filter(words="%"), ""),
        (Filter(words="' OR 1 --"), ""),
    ],
)
def test_a_list_can_be_narrowed(home: Path, where: Filter, names: str) -> None:
    with Store(home) as store:
        listing = store.listing(where)
        assert [run.name for run in listing.runs] == names.split()
        assert listing.total == len(names.split()) == sum(store.counts(where).values())


def test_a_list_has_orders_and_pages(home: Path) -> None:
    with Store(home) as store:
        by_name = [run.name for run in store.listing(order="name").runs]
        assert by_name == ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot"]
        oldest = [run.id for run in store.listing(order="oldest").runs]
        assert oldest == sorted(oldest) and len(oldest) == 6
        pages = [store.listing(order="name", limit=4, offset=at) for at in (0, 4, 8)]
        assert [run.name for page in pages for run in page.runs] == by_name
        assert [page.total for page in pages] == [6, 6, 6]
        assert store.counts() == {"done": 2, "running": 2, "failed": 1, "queued": 1}
        assert store.unfinished() == tuple(f"{n:020x}" for n in (1, 3, 4))


def test_the_index_follows_every_change_at_once(tmp_path: Path) -> None:
    with create(tmp_path) as held, Store(tmp_path) as store:
        for number in range(50):  # within one tick of the file system's clock, and of one size
            save(held, exit_code=100 + number)
            assert store.listing().runs[0].exit_code == 100 + number
        runs.remove(tmp_path, held)
        assert store.listing().runs == ()


def test_a_change_that_leaves_the_files_facts_is_seen_if_it_came_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "RACY", 60.0)  # whatever this machine takes for at once
    create(tmp_path, goal="before").close()
    path = runs.find(tmp_path, "fix-login") / "run.json"
    with Store(tmp_path) as store:
        assert store.listing().runs[0].goal == "before"
        facts = path.stat()
        path.write_text(path.read_text().replace('"before"', '"behind"'))
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        assert store.listing().runs[0].goal == "behind"


def test_what_is_settled_is_not_read_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time.sleep(RACY)
    with Store(home) as store:
        expected = store.listing()

    def refuse(_: Path) -> None:
        raise AssertionError("it was read again")

    monkeypatch.setattr(runs, "load_with_facts", refuse)
    with Store(home) as store:
        assert store.listing() == expected


KILLED_BEFORE_THE_INDEX = """
import sys, time
from pathlib import Path
from ags import runs
from ags.store import Store
home = Path(sys.argv[1])
held = runs.hold(runs.find(home, "fix-login"))
Store(home).listing()
held.save(runs.moved(held.run, sys.argv[2], runs.now()))
print("saved", flush=True)
time.sleep(60)
"""


def test_a_supervisor_killed_between_record_and_index_leaves_nothing_wrong(tmp_path: Path) -> None:
    create(tmp_path).close()
    for state in ("preparing", "running", "collecting", "done"):
        with script(KILLED_BEFORE_THE_INDEX, tmp_path, state) as process:
            assert process.stdout and process.stdout.readline() == "saved\n"
            process.send_signal(signal.SIGKILL)
        assert states(tmp_path) == {"fix-login": state}


LIST_WITHOUT_END = """
import sys
from pathlib import Path
from dataclasses import replace
from ags import runs
from ags.store import Filter, Store
home, name = Path(sys.argv[1]), sys.argv[2]
held = runs.hold(runs.find(home, name))
print("ready", flush=True)
number = 0
while True:
    number += 1
    held.save(replace(held.run, exit_code=number))
    with Store(home) as store:
        (own,) = store.listing(Filter(words=name)).runs
        assert own.exit_code == number, (own.exit_code, number)
        assert not store.notes, store.notes
"""


def test_many_write_and_list_at_once_and_are_killed(tmp_path: Path) -> None:
    names = [f"run-{number}" for number in range(4)]
    for name in names:
        create(tmp_path, name).close()
    for _ in range(3):
        processes = [script(LIST_WITHOUT_END, tmp_path, name) for name in names]
        for process in processes:
            assert process.stdout and process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        assert [process.poll() for process in processes] == [None] * 4
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        with Store(tmp_path) as store:
            seen = {run.name: run.exit_code for run in store.listing().runs}
            assert store.notes == []
        assert seen == {name: runs.load(runs.find(tmp_path, name)).exit_code for name in names}


def test_a_damaged_run_is_named_and_the_others_are_listed(home: Path) -> None:
    broken = runs.find(home, "bravo") / "run.json"
    with Store(home) as store:
        assert store.listing().total == 6
        sound = broken.read_bytes()
        broken.write_text("{")
        for _ in range(2):
            listing = store.listing()
            assert listing.total == 5 and [each.id for each in listing.damaged] == [f"{2:020x}"]
        broken.unlink()
        assert "no such file" in store.listing().damaged[0].cause
        broken.write_bytes(sound)
        assert store.listing().total == 6 and store.listing().damaged == ()


def aside(home: Path) -> list[Path]:
    return sorted(home.glob("agents.db.aside-*[0-9a-f]"))


@pytest.mark.parametrize("content", [b"not a database at all, but text" * 50, b"\0" * 9000])
def test_a_broken_index_is_moved_aside_and_made_anew(home: Path, content: bytes) -> None:
    before = states(home)
    for left in home.glob("agents.db*"):
        left.unlink()
    (home / "agents.db").write_bytes(content)
    with Store(home) as store:
        assert {run.name: run.state for run in store.listing().runs} == before
        (moved,) = aside(home)
        assert moved.read_bytes() == content
        assert len(store.notes) == 1 and str(moved) in store.notes[0]
    assert states(home) == before and len(aside(home)) == 1


@pytest.mark.parametrize("page", [0, 1, 2])
def test_an_index_with_a_torn_page_is_moved_aside(home: Path, page: int) -> None:
    before = states(home)
    sqlite3.connect(home / "agents.db").execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = (home / "agents.db").stat().st_size
    assert size > page * 4096
    with open(home / "agents.db", "r+b") as file:
        file.seek(page * 4096)
        file.write(random.Random(page).randbytes(4096))
    with Store(home) as store:
        assert {run.name: run.state for run in store.listing().runs} == before
        assert len(store.notes) == 1 and len(aside(home)) == 1


def test_an_index_that_breaks_while_it_is_open_is_replaced(home: Path) -> None:
    before = states(home)
    with Store(home) as store:
        assert store.listing().total == 6
        store._db.execute("DROP TABLE runs")
        assert {run.name: run.state for run in store.listing().runs} == before
        assert len(store.notes) == 1 and len(aside(home)) == 1


def test_an_index_of_a_newer_version_is_moved_aside(home: Path) -> None:
    before = states(home)
    with sqlite3.connect(home / "agents.db") as other:
        other.execute("PRAGMA user_version = 99")
    with Store(home) as store:
        assert {run.name: run.state for run in store.listing().runs} == before
        assert "its format is 99" in store.notes[0]
    with sqlite3.connect(aside(home)[0]) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (99,)


OPEN_AT_ONCE = """
import sys
from pathlib import Path
from ags.store import Store
print("ready", flush=True)
sys.stdin.readline()
with Store(Path(sys.argv[1])) as store:
    print(store.listing().total, len(store.notes), flush=True)
"""


def open_at_once(home: Path, count: int) -> list[list[str]]:
    openers = [script(OPEN_AT_ONCE, home) for _ in range(count)]
    for opener in openers:
        assert opener.stdout and opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin
        opener.stdin.write("go\n")
        opener.stdin.flush()
    return sorted(opener.communicate(timeout=120)[0].split() for opener in openers)


def test_of_many_who_find_it_broken_one_moves_it(home: Path) -> None:
    (home / "agents.db").write_bytes(b"rubbish" * 999)
    assert open_at_once(home, 5) == [["6", "0"]] * 4 + [["6", "1"]]
    assert len(aside(home)) == 1


def test_many_may_make_a_missing_index_at_once(home: Path) -> None:
    for _ in range(4):
        for left in home.glob("agents.db*"):
            left.unlink()
        assert open_at_once(home, 6) == [["6", "0"]] * 6


def test_a_missing_index_is_made_anew(home: Path) -> None:
    before = states(home)
    for left in home.glob("agents.db*"):
        left.unlink()
    assert states(home) == before
    assert stat.S_IMODE((home / "agents.db").stat().st_mode) == 0o600


def test_a_rebuild_brings_back_names_and_rows(home: Path) -> None:
    before = states(home)
    with sqlite3.connect(home / "agents.db") as other:
        other.execute("UPDATE runs SET state = 'stopped'")
    shutil.rmtree(home / "names")
    assert {run.name: run.state for run in rebuild(home).runs} == before == states(home)
    assert runs.find(home, "alpha").is_dir()


def test_on_a_full_disk_a_list_is_still_given(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as home:
        create(home, "one").close()
        filler = fill(home)
        with Store(home) as store:
            assert [run.name for run in store.listing().runs] == ["one"]
            assert len(store.notes) == 1 and "cannot be written" in store.notes[0]
        filler.unlink()
        create(home, "two").close()
        assert states(home).keys() == {"one", "two"}
        filler = fill(home)
        with runs.hold(runs.find(home, "two")) as held, Store(home) as store:
            filler.unlink()
            save(held, goal="x" * 100_000)
            fill(home)
            assert {run.name for run in store.listing().runs} == {"one", "two"}


def test_a_locked_index_is_an_error_that_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states(home)
    monkeypatch.setattr(queries, "BUSY", 0.1)
    with sqlite3.connect(home / "agents.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        create(home, "new").close()
        with Store(home) as store, pytest.raises(AgsError, match="database is locked"):
            store.listing()
        other.execute("ROLLBACK")
    assert len(states(home)) == 7


def test_an_index_that_is_only_locked_is_not_moved_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when somebody else has just renewed a broken one and is still filling it."""
    store = Store(tmp_path)
    for left in tmp_path.glob("agents.db*"):
        left.unlink()
    monkeypatch.setattr(queries, "BUSY", 0.1)
    with sqlite3.connect(tmp_path / "agents.db", isolation_level=None) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(AgsError, match="database is locked"):
            store._instead(queries.Unusable("it was broken when we looked"))
        assert aside(tmp_path) == []
    store.close()


def test_all_sql_is_in_one_file() -> None:
    folder = Path(db.__file__).parent
    for path in folder.glob("*.py"):
        text = path.read_text()
        found = [word for word in ("SELECT ", "INSERT ", "PRAGMA ", "CREATE ") if word in text]
        assert bool(found) == (path.name == "queries.py"), f"{path}: {found}"


def test_only_the_index_loads_sqlite(tmp_path: Path) -> None:
    text = "import sys, ags.events, ags.runs; print('sqlite3' in sys.modules)"
    with script(text) as process:
        assert process.communicate(timeout=60)[0] == "False\n"


def test_an_index_in_memory_begins_with_what_the_disk_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        create(tmp_path, name=name).close()
    time.sleep(2 * RACY)
    with Store(tmp_path) as store:
        store.listing()
    with Store(tmp_path) as store:  # once more, for what was too fresh to be sure of
        listed = store.listing()
    monkeypatch.setattr("ags.runs.load_with_facts", lambda _: pytest.fail("it was read again"))
    with Store.in_memory(tmp_path) as store:
        assert store.listing() == listed


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_an_index_in_memory_does_without_a_sound_one_on_the_disk(
    tmp_path: Path, content: bytes
) -> None:
    create(tmp_path).close()
    (tmp_path / "agents.db").write_bytes(content)
    with Store.in_memory(tmp_path) as store:
        assert len(store.listing().runs) == 1
    assert (tmp_path / "agents.db").read_bytes() == content


def test_an_index_in_memory_does_not_wait_for_a_lock(tmp_path: Path) -> None:
    create(tmp_path).close()
    with Store(tmp_path) as store:
        store.listing()
    holder = sqlite3.connect(tmp_path / "agents.db", isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with Store.in_memory(tmp_path) as store:
            assert len(store.listing().runs) == 1
    finally:
        holder.close()
