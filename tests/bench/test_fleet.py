"""That runs are measured while they are at work, and that none is left, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.kernel import processes
from bench import fleet
from bench.fleet import Found, Server, Used, delays, flat, is_agents, p99
from bench.measure import Row, Series

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0
FOUND = Found(
    size=10,
    started=2.0,
    requests=Series((100.0,)),
    memory=Series((20.0,)),
    server=50.0,
    listed=Series((5.0,)),
    shown=Series((5.0,)),
    answered=4.0,
    calm=Series((30.0,)),
    asked=Series((30.0,)),
    used=Used(2.0, 5.0, 50.0),
    pace=10.0,
)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the bench has its folder; short, for the sockets in it."""
    with tempfile.TemporaryDirectory(prefix="f-") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "QUICK_SIZES": (1, 2),
        "QUICK_REQUESTS": 3,
        "QUICK_CALM": 3.0,  # in which something is said, on a busy machine as well
        "SETTLED": 0.1,
    }.items():
        monkeypatch.setattr(fleet, name, value)


class Left:
    """The processes of runs, taken down while they were there."""

    def __init__(self) -> None:
        self.known: dict[int, int | None] = {}

    def note(self, supervisors: Sequence[int]) -> None:
        for pid in (*supervisors, *(each for above in supervisors for each in below(above))):
            self.known[pid] = processes.start_time(pid)

    def now(self) -> list[int]:
        return [pid for pid, start in self.known.items() if is_alive(pid, start)]


def below(pid: int) -> list[int]:
    return processes.descendants(pid)


def is_alive(pid: int, start: int | None) -> bool:
    with contextlib.suppress(OSError):
        return processes.start_time(pid) == start and bool(_words(pid))
    return False


def _words(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_every_number_of_runs_is_measured_and_none_is_left(
    place: Path, brief: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, real = Left(), fleet.tended

    def tended(supervisor: int) -> int:
        left.note([supervisor])
        return real(supervisor)

    monkeypatch.setattr(fleet, "tended", tended)
    rows = list(fleet.rows(quick=True))
    one, two, between = rows[:15], rows[15:30], rows[30:]
    assert [row.case.removeprefix("1 runs: ") for row in one] == [
        row.case.removeprefix("2 runs: ") for row in two
    ]
    for row in rows:
        assert isinstance(row.ours, Series) and row.ours.median >= 0
    assert [row.peer.name for row in between if row.peer] == ["with 1 runs"] * 2
    # A supervisor, bwrap outside, the first process inside, and the agent's shell.
    assert len(left.known) >= 3 * 4 and not left.now()
    assert not list(place.iterdir())


def failing(left: Left, effect: Callable[[Server], None]) -> Callable[..., tuple[Series, Series]]:
    """In place of the questions, while all runs are at work."""

    def asked(server: Server, names: Sequence[str], count: int) -> tuple[Series, Series]:
        left.note(fleet.supervisors(server.state))
        effect(server)
        raise AgsError("ask", cause="the bench failed here")

    return asked


@pytest.mark.parametrize("effect", ["nothing", "the server is killed"])
def test_a_failure_leaves_no_run(
    place: Path, brief: None, monkeypatch: pytest.MonkeyPatch, effect: str
) -> None:
    def act(server: Server) -> None:
        if effect != "nothing":
            os.kill(server.pid, signal.SIGKILL)

    left = Left()
    monkeypatch.setattr(fleet, "_asked", failing(left, act))
    with pytest.raises(AgsError, match="the bench failed here"):
        list(fleet.rows(quick=True))
    assert len(left.known) >= 4 and not left.now()
    assert not list(place.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_breaks_it_off_leaves_no_run(place: Path, number: signal.Signals) -> None:
    environ = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "TMPDIR": str(place)}
    words = (sys.executable, "-m", "bench", "fleet", "--quick")
    with subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL) as bench:
        try:
            left = Left()
            left.note(wait_for(lambda: at_work(place), bench))
            bench.send_signal(number)
            assert bench.wait(PATIENCE) == 130
        finally:
            bench.kill()
    assert len(left.known) >= 4 and not left.now()
    assert not list(place.iterdir())


def at_work(place: Path) -> list[int]:
    found = [pid for state in place.glob("*/state") for pid in fleet.supervisors(state)]
    return found if any(is_agents(pid) for each in found for pid in below(each)) else []


def wait_for(what: Callable[[], list[int]], bench: subprocess.Popen[bytes]) -> list[int]:
    until = time.monotonic() + PATIENCE
    while not (found := what()):
        assert bench.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    return found


def test_a_server_that_does_not_start_is_told_of(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "SERVER", "import sys; sys.exit('no such luck')")
    with pytest.raises(AgsError, match="no such luck"):
        list(fleet.rows(quick=True))
    assert not list(place.iterdir())


def test_only_the_agents_processes_are_not_counted() -> None:
    words = ("unshare", "--user", "--pid", "--fork", "--kill-child", "sh", "-c", "sleep 60; true")
    with subprocess.Popen(words) as outside:
        try:
            found = wait_for(
                lambda: found if len(found := below(outside.pid)) == 2 else [], outside
            )
            first, other = found
            assert not is_agents(os.getpid())
            assert not is_agents(outside.pid) and not is_agents(first) and is_agents(other)
        finally:
            outside.kill()


def test_one_in_a_hundred_is_above_p99() -> None:
    assert p99(Series(tuple(map(float, range(200, 0, -1))))).median == 198
    assert p99(Series((3.0,))).median == 3


def test_a_line_counts_for_the_time_in_which_it_was_said() -> None:
    heard = [(9.9, 5.0), (10.0, 0.02), (19.9, 0.4), (20.0, 5.0)]
    assert delays(heard, 10, 20).values == (20, 400)
    with pytest.raises(AgsError, match="no line was heard"):
        delays(heard, 30, 40)


def named(rows: Iterator[Row], case: str) -> Row:
    return next(row for row in rows if row.case.endswith(f": {case}"))


def test_memory_and_patience_have_a_mark() -> None:
    heavy = replace(FOUND, memory=Series((30.1,)), shown=Series((100.1,)))
    for case in ("memory per run", "show one, p99"):
        assert named(FOUND.rows(), case).met is True
        assert named(heavy.rows(), case).met is False
    assert named(replace(heavy, size=200).rows(), "show one, p99").met is None


def test_a_run_among_many_must_cost_the_same() -> None:
    same = replace(FOUND, size=200, started=50.0, memory=Series((25.0,)))
    assert [row.met for row in flat(FOUND, same)] == [True, True]
    dearer = replace(FOUND, size=200, started=50.2, memory=Series((25.1,)))
    assert [row.met for row in flat(FOUND, dearer)] == [False, False]
