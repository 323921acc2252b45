"""The server dies, or its ground gives way: runs go on, and nobody misses a word (R2, R3)."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ags.engine import Wish
from ags.model import Limits
from ags.runs import Order, Run
from tests.disk import fill, small_disk
from tests.faults.followers import OfBoard, OfRun, following
from tests.faults.workshop import CHANGED, WORK, Workshop, wait_for
from tests.server.conftest import Answer, Server, free_port, serving
from tests.server.listening import listening
from tests.server.shop import problem
from tests.server.test_stream import rest
from tests.server.test_terminal import watching
from tests.workspace.forge import Forge, forge

COUNT = 20
TALKS = """
n=0
while ! [ -e go ]; do n=$((n+1)); echo "line $n"; sleep 0.3; done
rm go; echo $n > made
"""
# A file's time can be set on a disk that has no room for anything else.
BEATS = TALKS.replace("sleep", "touch -d @$n beat; sleep").replace("rm go", "rm go beat")
LONG = 120.0


def start(server: Server, workshop: Workshop, name: str, **more: Any) -> Any:
    answer = post(server, workshop, name, **more)
    assert answer.status == 201, answer.text
    return answer.json()["items"]


def post(server: Server, workshop: Workshop, name: str, key: str = "", **more: Any) -> Answer:
    return server.call(
        "POST",
        "/runs",
        json=wish(workshop, name, **more),
        headers={"Idempotency-Key": key} if key else {},
    )


def wish(workshop: Workshop, name: str, **more: object) -> dict[str, object]:
    folder = str(workshop.project.folder)
    return {"project": folder, "goal": TALKS, "agent": "shell", "name": name, **more}


def get(server: Server, path: str) -> Any:
    answer = server.call("GET", path)
    assert answer.status == 200, answer.text
    return answer.json()


def of(workshop: Workshop, row: dict[str, Any]) -> Run:
    return workshop.load(workshop.engine().find(row["id"]))


def spoken(workshop: Workshop, run: Run) -> list[str]:
    return [str(each.fields["text"]) for each in workshop.events(run) if each.kind == "output"]


def speaks_on(workshop: Workshop, run: Run, more: int = 2) -> None:
    before = len(spoken(workshop, run))
    wait_for(f"{run.name} speaks", lambda: len(spoken(workshop, run)) >= before + more, LONG)


def hears(reader: OfRun, more: int = 1) -> None:
    before = len(reader.messages)
    wait_for("more is heard", lambda: len(reader.messages) >= before + more, LONG)


def let_go(workshop: Workshop, run: Run) -> None:
    folder = workshop.load(run).workspace
    assert folder is not None
    (folder / "go").touch()


def check_spoken(workshop: Workshop, run: Run) -> None:
    lines = spoken(workshop, run)
    assert lines == [f"line {n}" for n in range(1, len(lines) + 1)]


def check_done(server: Server, workshop: Workshop, run: Run) -> None:
    """Its log is whole, and its work is there."""
    ended = workshop.ended(run, LONG)
    assert (ended.state, ended.notes) == ("done", ())
    check_spoken(workshop, run)
    diff = get(server, f"/runs/{run.name}/diff")
    assert [each["path"] for each in diff["files"]] == ["made"]


def die(server: Server) -> None:
    assert server.end(signal.SIGKILL) == -signal.SIGKILL


@pytest.fixture(autouse=True)
def _rested(workshop: Workshop) -> Iterator[None]:
    yield
    rest(workshop)


def test_a_killed_server_leaves_no_gap_in_any_log_or_stream(workshop: Workshop) -> None:
    with serving(workshop.place, port=free_port()) as server:
        rows = [
            row for stem in "abcd" for row in start(server, workshop, stem, attempts=COUNT // 4)
        ]
        begun = [of(workshop, row) for row in rows]
        assert len({run.id for run in begun}) == COUNT
        followed = (begun[0], begun[7], begun[COUNT - 1])
        readers = [OfRun(server, run.name) for run in followed]
        board = OfBoard(server, lambda rows: is_all_done(rows, COUNT))
        with following(*readers, board):
            for run in begun:
                speaks_on(workshop, run)
            for reader in readers:
                hears(reader, 2)
            wait_for("the board has all", lambda: len(board.rows) == COUNT)
            die(server)
            for run in begun:
                speaks_on(workshop, run)
            with serving(workshop.place, port=server.port) as again:
                for reader in readers:
                    hears(reader)
                listed = get(again, "/runs?limit=500")
                assert listed["total"] == COUNT
                assert {row["state"] for row in listed["items"]} == {"running"}
                for run in begun:
                    let_go(workshop, run)
                for run in begun:
                    check_done(again, workshop, run)
                for run, reader in zip(followed, readers, strict=True):
                    reader.ended()
                    assert reader.numbers() == [each.seq for each in workshop.events(run)]
                    assert reader.lines() == spoken(workshop, run)
                    assert len(reader.firsts) == 2
                board.ended()
                # The second server knows nothing of the first one's numbers.
                assert [each.event for each in board.firsts] == ["snapshot", "snapshot"]
                assert again.threads() == 1


def is_all_done(rows: dict[str, Any], count: int) -> bool:
    return len(rows) == count and {row["state"] for row in rows.values()} == {"done"}


KEYS = 5
KILLS = 2
"""For each key, before it is left in peace."""


def test_a_request_that_is_repeated_until_it_is_answered_makes_one_run(workshop: Workshop) -> None:
    chance = random.Random(7)
    with serving(workshop.place) as first:
        began = time.monotonic()
        start(first, workshop, "calm", goal="true")
        usual = time.monotonic() - began
        die(first)
    answers = {
        f"key-{number}": insistent(workshop, f"run-{number}", f"key-{number}", chance, usual)
        for number in range(KEYS)
    }
    with serving(workshop.place) as server:
        for key, answer in answers.items():
            (row,) = answer.json()["items"]
            again = post(server, workshop, row["name"], key, goal=WORK)
            assert (again.status, [each["id"] for each in again.json()["items"]]) == (
                200,
                [row["id"]],
            )
        listed = get(server, "/runs?limit=500")["items"]
        assert sorted(row["name"] for row in listed) == ["calm", *sorted(names(answers))]
        assert server.threads() == 1
    for answer in answers.values():
        check_whole(workshop, answer.json()["items"][0])
    made = {path.name for path in (workshop.ags_home / "runs").iterdir()}
    assert made == {row["id"] for row in listed}
    pins = workshop.project.ask("for-each-ref", "--format=%(refname)", "refs/ags/base").split()
    assert {pin.rpartition("/")[2] for pin in pins} <= made


def names(answers: dict[str, Answer]) -> list[str]:
    return [answer.json()["items"][0]["name"] for answer in answers.values()]


def insistent(
    workshop: Workshop, name: str, key: str, chance: random.Random, usual: float
) -> Answer:
    """What a client is told in the end whose server is killed at any moment of its request."""
    for _ in range(KILLS):
        with serving(workshop.place) as server, server.connection() as connection:
            connection.request("POST", "/api/v1/runs", *told(server, workshop, name, key))
            time.sleep(chance.uniform(0, usual))
            die(server)
            with contextlib.suppress(OSError, http.client.HTTPException):
                found = connection.getresponse()
                return Answer(found.status, found.headers, found.read())
    with serving(workshop.place) as server:
        return post(server, workshop, name, key, goal=WORK)


def told(server: Server, workshop: Workshop, name: str, key: str) -> tuple[bytes, dict[str, str]]:
    headers = {
        "Authorization": f"Bearer {server.token}",
        "Content-Type": "application/json",
        "Idempotency-Key": key,
    }
    return json.dumps(wish(workshop, name, goal=WORK)).encode(), headers


def check_whole(workshop: Workshop, row: dict[str, Any]) -> None:
    """It went to its end; or it was cut off before it began, says so, and can be begun anew."""
    run = workshop.ended(of(workshop, row), LONG)
    if run.state == "interrupted":
        run = workshop.restarted(run)
    assert (run.state, workshop.files(run)) == ("done", CHANGED)


# What it stands on


@pytest.fixture
def small(workshop: Workshop) -> Iterator[Workshop]:
    """The state folder has a disk of its own, and runs are content with what there is."""
    settings = workshop.place / "home/.config/ags/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[limits]\ndisk_free = "none"\n')
    with small_disk(workshop.ags_home, "48m"):
        yield workshop
        rest(workshop)


def test_a_full_disk_is_told_and_costs_nothing_but_lines_that_are_counted(small: Workshop) -> None:
    with serving(small.place) as server:
        begun = [of(small, start(server, small, name, goal=BEATS)[0]) for name in ("one", "two")]
        readers = [OfRun(server, run.name) for run in begun]
        with following(*readers):
            for run in begun:
                speaks_on(small, run)
            there = entries(small)
            filler = fill(small.ags_home)
            for run in begun:
                goes_unheard(small, run)
            check_refused(server, small, there)
            assert {row["state"] for row in get(server, "/runs")["items"]} == {"running"}
            with listening(server, "/runs/one/stream") as late:
                assert late.until(lambda each: each.event == "output").json()["text"] == "line 1"
            filler.unlink()
            for run, reader in zip(begun, readers, strict=True):
                speaks_on(small, run)
                is_told(reader)
            third = of(small, start(server, small, "three")[0])
            for run in (*begun, third):
                speaks_on(small, run)
                let_go(small, run)
            for run, reader in zip(begun, readers, strict=True):
                assert small.ended(run, LONG).state == "done"
                reader.ended()
                check_counted(small, run, reader)
            check_done(server, small, third)
            assert server.threads() == 1


def entries(workshop: Workshop) -> set[str]:
    """Everything that a run could leave behind, wherever that is."""
    folders = ("runs", "names", "worktrees", "git", "home", "server/keys")
    found = {str(path) for name in folders for path in (workshop.ags_home / name).glob("*")}
    return found | set(workshop.project.ask("for-each-ref", "--format=%(refname)").split())


def check_refused(server: Server, workshop: Workshop, there: set[str]) -> None:
    for key in ("", "key"):
        refused = problem(post(server, workshop, "more", key), 507)
        assert "no space left" in refused["detail"] and "room" in refused["hint"]
    assert entries(workshop) == there


def goes_unheard(workshop: Workshop, run: Run) -> None:
    """Until the agent is ahead of its log, by more than can be on the way."""
    folder = workshop.load(run).workspace
    assert folder is not None
    ahead = (folder / "beat").stat
    wait_for("lines are lost", lambda: ahead().st_mtime > len(spoken(workshop, run)) + 3, LONG)


def is_told(reader: OfRun) -> None:
    wait_for("it is told of the loss", lambda: lost(reader), LONG)


def lost(reader: OfRun) -> int:
    told = [each.json() for each in reader.messages if each.event == "system"]
    return sum(each.get("dropped", 0) for each in told)


def check_counted(workshop: Workshop, run: Run, reader: OfRun) -> None:
    """What is missing from the log is as much as the log says."""
    kept = [int(line.removeprefix("line ")) for line in spoken(workshop, run)]
    assert kept == sorted(set(kept)) and kept[0] == 1
    said = int(workshop.files(run)["made"])
    assert said - len(kept) == lost(reader) > 0
    assert reader.numbers() == [each.seq for each in workshop.events(run)]


HOLDS_IT = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(index: Path) -> Iterator[None]:
    argv = (sys.executable, "-I", "-c", HOLDS_IT, str(index))
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdin
        assert holder.stdout.readline() == b"held\n"
        # As it is for others: they would wait in vain.
        with pytest.raises(sqlite3.OperationalError), sqlite3.connect(index, timeout=0) as other:
            other.execute("BEGIN IMMEDIATE")
        yield
        holder.stdin.close()


def test_the_server_needs_no_index_on_the_disk(workshop: Workshop) -> None:
    before = workshop.ended(workshop.start("before"))
    index = workshop.ags_home / "agents.db"
    workshop.engine().listing()
    assert index.exists()
    with serving(workshop.place) as server:
        with held(index):
            check_works(server, workshop, before, "locked")
        index.write_bytes(os.urandom(index.stat().st_size))
        check_works(server, workshop, before, "garbled")
    index.write_bytes(os.urandom(5000))
    with serving(workshop.place) as server:
        check_works(server, workshop, before, "new")


def check_works(server: Server, workshop: Workshop, before: Run, name: str) -> None:
    """List, show, create, stop."""
    run = of(workshop, start(server, workshop, name)[0])
    assert {before.name, name} <= {row["name"] for row in get(server, "/runs")["items"]}
    assert get(server, f"/runs/{before.name}")["state"] == "done"
    wait_for("it speaks", lambda: spoken(workshop, run), LONG)
    assert get(server, f"/runs/{name}")["state"] == "running"
    stopped = server.call("POST", f"/runs/{name}/stop", json={"now": True})
    assert (stopped.status, stopped.json()["state"]) == (200, "stopped")
    check_spoken(workshop, run)
    assert server.threads() == 1


# Told to end


def test_a_server_that_is_told_to_end_lets_go_of_everything(workshop: Workshop) -> None:
    seated = seat(workshop)
    talker = workshop.start("talker", TALKS)
    with (
        forge(workshop.place, tls=False, locked=False) as origin,
        serving(workshop.place) as server,
    ):
        workshop.project.git("clone", "--quiet", "--bare", ".", str(origin.root / "big.git"))
        origin.stall = True
        url = {"url": origin.url("big.git", "http")}
        project = server.call("POST", "/projects", json=url).json()
        asyncio.run(asyncio.wait_for(leaves(server, talker, seated, origin), LONG))
        assert server.process.returncode == 0
        assert [str(path) for path in (workshop.ags_home / "projects").rglob("HEAD")] == []
        for run in (talker, seated):
            assert workshop.load(run).state == "running"
        speaks_on(workshop, talker)
        origin.stall = False
        origin.stalled.set()
        with serving(workshop.place) as again:
            check_believed_nothing(again, project["id"], url)
            let_go(workshop, talker)
            check_done(again, workshop, talker)
            assert again.threads() == 1


def check_believed_nothing(server: Server, project: str, url: dict[str, str]) -> None:
    """And asked again, it is cloned."""
    assert server.call("GET", f"/projects/{project}").status == 404
    assert server.call("POST", "/projects", json=url).status == 201
    state = wait_for("it is cloned", lambda: settled(server, project))
    assert state == "ready"


def settled(server: Server, project: str) -> str:
    state = str(get(server, f"/projects/{project}")["state"])
    return "" if state == "cloning" else state


async def leaves(server: Server, talker: Run, seated: Run, origin: Forge) -> None:
    """With all that can be open, open."""
    with (
        listening(server, f"/runs/{talker.name}/stream") as stream,
        listening(server, "/stream") as board,
    ):
        async with watching(server, seated.name) as screen:
            await screen.types("echo $((6 * 7))-seen\n")
            await screen.shows(rb"42-seen")
            stream.until(lambda each: each.event == "output")
            assert board.next() is not None
            wait_for("it is being cloned", lambda: "POST" in {each[0] for each in origin.asked})
            assert server.threads() == 1
            server.process.terminate()
            assert (await screen.closing())[0] == 1012
        assert not [each for each in stream if each.event == "end"]
        list(board)
        assert server.process.wait(60) == 0


def seat(workshop: Workshop) -> Run:
    """A run with a shell at a terminal."""
    order = Order(terminal=True)
    goal = "exec bash --norc --noprofile -i"
    wanted = Wish("seated", goal, "shell", workshop.project.folder, Limits(), order=order)
    run = workshop.does(workshop.engine().start(wanted))
    wait_for("it runs", lambda: workshop.load(run).state == "running", LONG)
    return run
