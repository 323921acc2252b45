"""Many runs at once under one server: what each costs, and how quick the server stays.

As a program it is those who listen: `PORT TOKEN-FILE RUN...`, until its input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ags.client.sse import Parser
from ags.errors import AgsError
from ags.kernel import cgroup, processes
from ags.model import MIB
from ags.workspace import temporary
from bench.measure import Mark, Peer, Row, Series, at_most
from bench.traffic import LOCAL, ROOT, environment
from bench.workshop import Workshop, make_repository, workshop

SIZES, QUICK_SIZES = (10, 50, 100, 200), (3, 6)
REQUESTS, QUICK_REQUESTS = 300, 20
LEAST_ASKING = 2.0
CALM, QUICK_CALM = 10.0, 2.0
"""Seconds in which everybody listens and nobody asks."""
SETTLED = 2.0
"""Seconds for what a start leaves to be done, before anything else is measured."""
UNDER_WAY = 1.0
"""Seconds for the last lines: without those that come late, none would seem to be late."""
READERS, AT_ONCE = 5, 8
"""Runs that are listened to, and runs that are told to end together."""
PATIENCE = 60.0
"""Seconds for an answer; and for a start, beside a few for each run."""
ENDING = 10.0
"""Seconds for a process that was told to end."""
MOST_MEMORY, MOST_WAITED, WAITED_AT, FLAT = 30, 100, 100, 1.25
CORE = os.sysconf("SC_CLK_TCK")

Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Heard: TypeAlias = tuple[float, float]
"""When a line was said, and how many seconds later it was heard."""

# The shell alone, and its own clock: two programs for each line would be most of what is measured.
GOAL = """
LC_ALL=C
mkfifo /tmp/silent && exec 3<> /tmp/silent
while :; do echo "$EPOCHREALTIME"; read -t 0.1 -u 3; done
"""
# As bin/ags starts it, but in the environment that this runs in.
SERVER = """
import sys
root = sys.argv.pop(1)
sys.path[:0] = [root, root + "/src"]
from bootstrap import start
sys.argv[0] = "ags"
sys.exit(start.run("ags"))
"""


def rows(*, quick: bool) -> Iterator[Row]:
    """For each number of runs, in a state folder and with a server of their own."""
    found = []
    # Whoever ends the bench ends the runs: they would go on by themselves.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for size in QUICK_SIZES if quick else SIZES:
            found.append(measured(size, quick=quick))
            yield from found[-1].rows()
    finally:
        signal.signal(signal.SIGTERM, before)
    yield from flat(found[0], found[-1])


@dataclass(frozen=True, slots=True)
class Used:
    """Shares of a core, in per cent."""

    server: float
    supervisors: float
    machine: float
    """Of all cores, with the agents and whoever else is at work."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured with so many runs."""

    size: int
    started: float
    """Seconds from the first request until the last run was at work."""
    requests: Series
    memory: Series
    """MiB of each run."""
    server: float
    listed: Series
    shown: Series
    answered: float
    """Milliseconds of a core for one of each, whoever else is at work on the machine."""
    calm: Series
    """Milliseconds until a line was heard; `asked`: while requests came as well."""
    asked: Series
    used: Used
    pace: float
    """Lines a second that were heard of each run: all of them should say ten."""

    def rows(self) -> Iterator[Row]:
        yield self._row("start all", Series((round(self.started, 2),)), "s")
        yield self._row("start, per run", self.start_per_run)
        yield self._row("start, the request alone", self.requests)
        light = at_most(MOST_MEMORY, f"≤ {MOST_MEMORY} MiB")
        whose = "all but the agent's own processes"
        yield self._row("memory per run", self.memory, "MiB", light, whose)
        yield self._row("memory of the server", Series((round(self.server, 1),)), "MiB")
        owed = at_most(MOST_WAITED, f"≤ {MOST_WAITED} ms") if self.size <= WAITED_AT else None
        for case, series in (("list", self.listed), ("show one", self.shown)):
            yield self._row(f"{case}, p50", series)
            yield self._row(f"{case}, p99", p99(series), mark=owed)
        yield self._row("processor for a list and one shown", _share(self.answered))
        pace = f"{self.pace:.1f} lines/s of each run"
        yield self._row("event delay, p50", self.calm, note=pace)
        yield self._row("event delay, p99", p99(self.calm))
        yield self._row("event delay while others ask, p99", p99(self.asked))
        whole = f"the machine was {self.used.machine:.0f} % busy"
        yield self._row("processor, server", _share(self.used.server), "%", note=whole)
        each = f"{self.used.supervisors / self.size:.2f} % each"
        yield self._row("processor, supervisors", _share(self.used.supervisors), "%", note=each)

    @property
    def start_per_run(self) -> Series:
        return Series((round(1000 * self.started / self.size, 1),))

    def _row(
        self, case: str, ours: Series, unit: str = "ms", mark: Mark | None = None, note: str = ""
    ) -> Row:
        return Row("fleet", f"{self.size} runs: {case}", ours, unit, mark=mark, note=note)


def flat(few: Found, many: Found) -> Iterator[Row]:
    """Whether a run costs the same among many."""
    mark, name = at_most(FLAT, f"≤ {FLAT} ×"), f"with {few.size} runs"
    for case, unit, ours, theirs in (
        ("start, per run", "ms", many.start_per_run, few.start_per_run),
        ("memory per run", "MiB", many.memory, few.memory),
    ):
        yield Row("fleet", f"{many.size} runs: {case}", ours, unit, Peer(name, theirs), mark)


def p99(series: Series) -> Series:
    """The value that one in a hundred is above."""
    place = math.ceil(0.99 * len(series.values)) - 1
    return Series((round(sorted(series.values)[place], 2),))


def _share(value: float) -> Series:
    return Series((round(value, 1),))


def measured(size: int, *, quick: bool) -> Found:
    """While all are at work and some listen: first nobody asks, then somebody does all the time."""
    with workshop() as shop, served(shop) as server:
        make_repository(shop.workspace, {"README": "a small project\n"})
        started, requests = _started(server, shop, size)
        time.sleep(SETTLED)
        names = [row["name"] for row in server.listed()]
        with listening(server, names[:READERS]) as listeners:
            calm = time.time()
            used = _used(server, QUICK_CALM if quick else CALM)
            asking, ticks = time.time(), _ticks(server.pid)
            listed, shown = _asked(server, names, QUICK_REQUESTS if quick else REQUESTS)
            over, ticks = time.time(), _ticks(server.pid) - ticks
            time.sleep(UNDER_WAY)
            heard = _heard(listeners)
        quiet = delays(heard, calm, asking)
        found = Found(
            size=size,
            started=started,
            requests=requests,
            memory=Series(tuple(tended(pid) / MIB for pid in supervisors(server.state))),
            server=processes.proportional(server.pid) / MIB,
            listed=listed,
            shown=shown,
            calm=quiet,
            asked=delays(heard, asking, over),
            answered=1000 * ticks / CORE / len(listed.values),
            used=used,
            pace=len(quiet.values) / (asking - calm) / min(READERS, size),
        )
        server.stop_all()
    return found


def _started(server: Server, shop: Workshop, size: int) -> tuple[float, Series]:
    """Seconds until all are at work, and how many milliseconds each request took of it."""
    wish = {"project": str(shop.workspace), "goal": GOAL, "agent": "shell"}
    begun = time.time()
    with server.caller() as caller:
        requests = tuple(
            caller.timed("POST", "/runs", wish | {"name": f"fleet-{number}"})
            for number in range(size)
        )
    return server.at_work(size) - begun, Series(requests)


def delays(heard: Sequence[Heard], begun: float, over: float) -> Series:
    """Of what was said in that time, in milliseconds."""
    values = tuple(1000 * late for said, late in heard if begun <= said < over)
    if not values:
        raise AgsError("measure the delay", cause="no line was heard in that time")
    return Series(values)


def _asked(server: Server, names: Sequence[str], count: int) -> tuple[Series, Series]:
    """One client that takes turns, over one connection; for so long that lines are heard, too."""
    listed: list[float] = []
    shown: list[float] = []
    until = time.monotonic() + LEAST_ASKING
    with server.caller() as caller:
        while len(listed) < count or time.monotonic() < until:
            listed.append(caller.timed("GET", "/runs"))
            shown.append(caller.timed("GET", f"/runs/{names[len(shown) % len(names)]}"))
    return Series(tuple(listed)), Series(tuple(shown))


# What processes take


def tended(supervisor: int) -> int:
    """Bytes of a supervisor and of all it started, but not of the agent's processes."""
    ours = (supervisor, *(pid for pid in processes.descendants(supervisor) if not is_agents(pid)))
    return sum(processes.proportional(pid) for pid in ours)


def is_agents(pid: int) -> bool:
    """Whether it is in a sandbox; the first process of one is ours."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        numbers = status.partition("\nNSpid:")[2].partition("\n")[0].split()
        return len(numbers) > 1 and numbers[-1] != "1"
    return False


def _used(server: Server, seconds: float) -> Used:
    pids = supervisors(server.state)

    def now() -> tuple[float, int, int, int]:
        whole = [int(each) for each in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
        busy = sum(whole) - whole[3] - whole[4]
        return time.monotonic(), _ticks(server.pid), sum(map(_ticks, pids)), busy

    before = now()
    time.sleep(seconds)
    taken, *ticks = (after - first for after, first in zip(now(), before, strict=True))
    ours, theirs, busy = (100 * each / CORE / taken for each in ticks)
    return Used(ours, theirs, busy / (os.cpu_count() or 1))


def _ticks(pid: int) -> int:
    """Of a core, used since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# The server


@dataclass(frozen=True, slots=True)
class Server:
    """One that listens, in a process of its own."""

    pid: int
    port: int
    state: Path

    @property
    def token_file(self) -> Path:
        return self.state / "server" / "token"

    def caller(self) -> contextlib.closing[Caller]:
        return contextlib.closing(Caller(self.port, self.token_file.read_text().strip()))

    def listed(self, where: str = "") -> list[dict[str, Any]]:
        with self.caller() as caller:
            caller.ask("GET", f"/runs?limit=500{where}")
            items: list[dict[str, Any]] = json.loads(caller.answer())["items"]
            return items

    def at_work(self, size: int) -> float:
        """Wait until that many runs are; tells when the last of them began."""
        until = time.monotonic() + PATIENCE + 2 * size
        while time.monotonic() < until:
            found = self.listed()
            if over := [row for row in found if row["ended"] is not None]:
                cause = f"{over[0]['name']} is {over[0]['state']} already"
                raise AgsError("start the runs", cause=cause)
            began = [row["started"] for row in found if row["state"] == "running"]
            if len(began) == size:
                return float(max(began))
            time.sleep(0.25)
        raise AgsError("start the runs", cause="they are not all at work after a long time")

    def stop_all(self) -> None:
        """Some at a time: each answers when it has ended."""
        left = self.listed("&state=queued&state=preparing&state=running")
        names = [row["name"] for row in left]
        for first in range(0, len(names), AT_ONCE):
            with contextlib.ExitStack() as stack:
                asked = [stack.enter_context(self.caller()) for _ in names[first:][:AT_ONCE]]
                for caller, name in zip(asked, names[first:], strict=False):
                    caller.ask("POST", f"/runs/{name}/stop", {"now": True})
                for caller in asked:
                    caller.answer()


class Caller:
    """One connection to the API, kept from request to request."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection(LOCAL, port, timeout=PATIENCE)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None) -> None:
        sent = None if body is None else json.dumps(body)
        self._connection.request(method, f"/api/v1{path}", sent, self._headers)

    def answer(self) -> bytes:
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status >= 300:
            cause = f"{answer.status}: {said[:500].decode(errors='replace')}"
            raise AgsError("ask the server", cause=cause)
        return said

    def timed(self, method: str, path: str, body: object = None) -> float:
        """Milliseconds from the question to the last byte of the answer."""
        begun = time.monotonic()
        self.ask(method, path, body)
        self.answer()
        return 1000 * (time.monotonic() - begun)


@contextlib.contextmanager
def served(shop: Workshop) -> Iterator[Server]:
    """Gone at the end, with every run that is still there."""
    words = (sys.executable, "-I", "-c", SERVER, str(ROOT), "server", "--port", "0")
    state = Path(shop.environ["AGS_HOME"])
    environ = {name: text for name, text in shop.environ.items() if name != "AGS_SERVER"}
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(state.parent / "server.log", "wb"))
        process = subprocess.Popen(
            words,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us: the server is still needed to end the runs
        )
        stack.enter_context(process)
        stack.callback(_clear_up, process, state)
        assert process.stdout is not None
        said = process.stdout.readline().decode().strip()
        _, _, port = said.rpartition(":")
        if not port.isdecimal():
            raise AgsError("start the server", cause=said or Path(log.name).read_text()[-500:])
        server = Server(process.pid, int(port), state)
        stack.callback(_stop_rest, server)
        yield server


def _stop_rest(server: Server) -> None:
    """What cannot be ended in order is killed by whoever is next."""
    with contextlib.suppress(AgsError, OSError, http.client.HTTPException):
        server.stop_all()


def _clear_up(process: subprocess.Popen[bytes], state: Path) -> None:
    process.terminate()
    try:
        process.wait(ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _kill_all(state)
    cgroup.sweep()
    temporary.sweep()


def _kill_all(state: Path) -> None:
    """Whatever of the runs is left, by process id."""
    above = supervisors(state)
    pids = (*above, *(pid for each in above for pid in processes.descendants(each)))
    left = {pid: processes.start_time(pid) for pid in pids}
    for pid, start in left.items():
        processes.kill(pid, only_if=partial(_is_there, pid, start))
    until = time.monotonic() + ENDING
    while any(_is_there(pid, start) for pid, start in left.items()):
        if time.monotonic() > until:
            raise AgsError("end the runs", cause="processes that were killed are still there")
        time.sleep(0.02)


def _is_there(pid: int, start: int | None) -> bool:
    """What has ended, and is not waited for yet, has no words any more."""
    return start is not None and processes.start_time(pid) == start and _words(pid) != b""


def supervisors(state: Path) -> list[int]:
    """Of the runs in this state folder, whoever started them."""
    mark = b"\0ags.supervisor\0" + os.fsencode(state) + b"\0"
    pids = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal())
    return [pid for pid in pids if mark in _words(pid)]


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


# Those who listen


@contextlib.contextmanager
def listening(server: Server, names: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """To each of these runs and to the board, as soon as all of them are answered.

    A process of its own, since whoever asks would keep it from hearing.
    """
    words = (sys.executable, "-m", "bench.fleet", str(server.port), str(server.token_file), *names)
    with subprocess.Popen(
        words, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def _heard(listeners: subprocess.Popen[str]) -> list[Heard]:
    """All of it; they stop listening."""
    told, _ = listeners.communicate(timeout=PATIENCE)
    if listeners.returncode:
        raise AgsError("listen to the runs", cause="those who listened failed")
    return [(said, late) for said, late in json.loads(told)]


async def listen(port: int, token: str, names: Sequence[str]) -> list[Heard]:
    """Until the input ends: when each line was said, and how late it came."""
    heard: list[Heard] = []
    paths = ("/stream", *(f"/runs/{name}/stream" for name in names))
    streams = [await _opened(port, token, path) for path in paths]
    print(flush=True)
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, over.set)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_follow(reader, heard)) for reader, _ in streams]
        await over.wait()
        for task in tasks:
            task.cancel()
    return heard


async def _opened(port: int, token: str, path: str) -> Stream:
    reader, writer = await asyncio.open_connection(LOCAL, port)
    head = f"GET /api/v1{path} HTTP/1.0\r\nHost: {LOCAL}:{port}\r\nAuthorization: Bearer {token}"
    writer.write(f"{head}\r\n\r\n".encode())
    if b" 200 " not in (said := await reader.readuntil(b"\r\n\r\n")):
        raise AgsError("listen", subject=path, cause=said[:60].decode(errors="replace"))
    return reader, writer


async def _follow(reader: asyncio.StreamReader, heard: list[Heard]) -> None:
    parser = Parser(64 * MIB)
    while piece := await reader.read(1 << 16):
        now = time.time()
        for sent in parser.feed(piece):
            if sent.event == "output":
                said = float(json.loads(sent.data)["text"])
                heard.append((said, now - said))
    raise AgsError("listen", cause="a stream ended early")


if __name__ == "__main__":
    port, token_file, *runs = sys.argv[1:]
    print(json.dumps(asyncio.run(listen(int(port), Path(token_file).read_text().strip(), runs))))
