"""The one writer of a log: crashes, caps, full disks."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.events import Caps, Event, Writer, read
from ags.events.writer import LINGER
from tests.disk import fill, small_disk
from tests.people import ROOT


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def seqs(log: Path) -> list[int]:
    return [event.seq for event in read(log)]


def system(log: Path) -> list[Event]:
    return [event for event in read(log) if event.kind == "system"]


class Ticks:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_events_are_numbered_from_one_and_go_on_after_a_restart(log: Path) -> None:
    for _ in range(2):
        writer = Writer(log, clock=lambda: 5.0)
        assert writer.write("message", text="hello") == writer.seq
        writer.write("status", state="running")
        writer.close()
    assert seqs(log) == [1, 2, 3, 4]
    assert next(read(log)) == Event(1, 5.0, "message", {"text": "hello"})


def test_the_log_is_the_persons_alone(log: Path) -> None:
    Writer(log).close()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_link_in_the_place_of_the_log_is_not_followed(log: Path, tmp_path: Path) -> None:
    log.symlink_to(tmp_path / "victim")
    with pytest.raises(AgsError, match="cannot open the log"):
        Writer(log)
    assert not (tmp_path / "victim").exists()
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(AgsError, match="it is not a file"):
        Writer(log)


def test_a_second_writer_is_refused_until_the_first_has_ended(log: Path) -> None:
    first = Writer(log)
    with pytest.raises(AgsError, match="it has a writer already"):
        Writer(log)
    first.close()
    Writer(log).close()


def test_events_are_written_in_batches_but_soon(log: Path) -> None:
    async def scene() -> None:
        writer = Writer(log, ticks=Ticks())  # so both that follow come soon after it
        writer.write("output", text="after a silence, at once")
        assert seqs(log) == [1]
        writer.write("output", text="b")
        writer.write("output", text="c")
        assert seqs(log) == [1]
        async with asyncio.timeout(60):
            while seqs(log) == [1]:
                await asyncio.sleep(LINGER)
        assert seqs(log) == [1, 2, 3]
        writer.write("ask", text="may I?")
        assert seqs(log) == [1, 2, 3, 4]
        writer.close()

    asyncio.run(scene())


def test_without_an_event_loop_a_later_write_takes_the_waiting_along(log: Path) -> None:
    ticks = Ticks()
    writer = Writer(log, ticks=ticks)
    for text in "abc":
        writer.write("output", text=text)
    assert seqs(log) == [1]
    ticks.now += LINGER
    writer.write("output", text="d")
    assert seqs(log) == [1, 2, 3, 4]
    writer.close()


@pytest.mark.parametrize("lost", range(1, 60, 7))
def test_a_torn_line_is_closed_off_and_told(log: Path, lost: int) -> None:
    writer = Writer(log)
    for text in ("one", "two", "three, which is the one that is torn"):
        writer.write("output", text=text)
    writer.close()
    os.truncate(log, log.stat().st_size - lost)
    before = log.read_bytes()
    writer = Writer(log)
    writer.write("output", text="after")
    writer.close()
    assert log.read_bytes().startswith(before)
    events = list(read(log))
    if lost == 1:  # only the end of the line
        assert [event.fields["text"][:5] for event in events] == ["one", "two", "three", "after"]
    else:
        torn = before.rpartition(b"\n")[2].decode()
        assert [event.seq for event in events] == [1, 2, 3, 4]
        assert "cut off" in events[2].fields["text"] and events[2].fields["torn"] == torn


@pytest.mark.parametrize("rubbish", [b"\0" * 300_000, b"\xff\n" * 9, b"{}\n[]\nnull", b"\n\n\n"])
def test_rubbish_at_the_end_does_not_lose_the_count(log: Path, rubbish: bytes) -> None:
    writer = Writer(log)
    for _ in range(3):
        writer.write("output", text="x")
    writer.close()
    with open(log, "ab") as file:
        file.write(rubbish)
    writer = Writer(log)
    writer.write("output", text="after")
    writer.close()
    assert seqs(log) == list(range(1, writer.seq + 1)) and writer.seq in (4, 5)


WRITE_WITHOUT_END = """
import sys
from pathlib import Path
from ags.events import Caps, Writer
writer = Writer(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    seq = writer.write("output", text="line " + "x" * (writer.seq % 300))
    if seq % 50 == 0:
        writer.flush()
"""


def test_a_writer_killed_anywhere_leaves_a_log_that_goes_on(log: Path) -> None:
    chance = random.Random(3)
    last = 0
    for _ in range(12):
        script = [sys.executable, "-c", WRITE_WITHOUT_END, str(log)]
        before = log.stat().st_size if last else 0
        with subprocess.Popen(script, stdout=subprocess.PIPE, env=environment()) as process:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            while log.stat().st_size < before + 1000:  # more than is cut off below
                assert process.poll() is None
                time.sleep(0.001)
            time.sleep(chance.uniform(0.001, 0.04))
            process.send_signal(signal.SIGKILL)
        # The kernel finishes a write it has begun; a machine that goes down does not.
        if chance.random() < 0.5:
            os.truncate(log, max(0, log.stat().st_size - chance.randrange(1, 200)))
        found = seqs(log)
        assert found == list(range(1, len(found) + 1))
        assert len(found) > last
        last = len(found)
    writer = Writer(log)
    writer.close()
    assert seqs(log) == list(range(1, writer.seq + 1))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def test_beyond_its_size_a_log_counts_what_it_does_not_keep(log: Path) -> None:
    caps = Caps(size=100_000, reserve=10_000)
    ticks = Ticks()
    writer = Writer(log, caps, ticks=ticks)
    kept = sum(writer.write("output", text="x" * 100) is not None for _ in range(5000))
    ticks.now += 1000
    assert writer.write("output", text="late") is None
    assert writer.write("status", state="done") is not None
    writer.close()
    told = [event.fields for event in system(log)]
    assert sum(fields["dropped"] for fields in told) == 5001 - kept == writer.dropped["size"]
    assert told[-1]["total"] == 5001 - kept and "as large as it may" in told[0]["text"]
    assert log.stat().st_size < caps.size + 2 * caps.reserve
    assert [event.fields["state"] for event in read(log) if event.kind == "status"] == ["done"]


def test_an_agent_cannot_take_the_room_of_our_own_words(log: Path) -> None:
    writer = Writer(log, Caps(size=10_000, reserve=10_000))
    for kind in ("output", "message", "egress", "hook"):
        for _ in range(1000):
            writer.write(kind, text="x" * 100)
    assert writer.write("egress", text="x") is None
    assert writer.write("status", state="stopped") is not None
    writer.close()
    assert log.stat().st_size < 40_000


def test_tellings_become_seldom(log: Path) -> None:
    ticks = Ticks()
    writer = Writer(log, Caps(size=0), ticks=ticks)
    for _ in range(24 * 3600):
        ticks.now += 1
        writer.write("output", text="x")
    writer.close()
    told = [event.fields["dropped"] for event in system(log)]
    assert sum(told) == 24 * 3600 and 200 < len(told) < 320


def test_a_flood_is_held_to_the_rate_and_a_burst_is_kept(log: Path) -> None:
    ticks = Ticks()
    writer = Writer(log, Caps(burst=50_000, rate=10_000), ticks=ticks)

    def flood(seconds: float) -> int:
        ticks.now += seconds
        size = log.stat().st_size
        for _ in range(2000):
            writer.write("output", text="x" * 100)
        writer.flush()
        return log.stat().st_size - size

    assert 50_000 <= flood(0) < 51_000
    assert 9_800 <= flood(1) < 10_500  # the burst's last line is paid for now
    assert 50_000 <= flood(3600) < 51_000
    writer.write("status", state="running")
    writer.close()
    assert writer.dropped.keys() == {"rate"}
    told = [event.fields["dropped"] for event in system(log)]
    assert sum(told) == writer.dropped["rate"]
    assert len(seqs(log)) == 6000 - sum(told) + len(told) + 1


def test_drops_are_told_though_the_agent_falls_silent(log: Path) -> None:
    async def scene() -> None:
        writer = Writer(log, Caps(size=0))
        for _ in range(10):
            writer.write("output", text="x")
        while sum(event.fields["dropped"] for event in system(log)) < 10:
            await asyncio.sleep(0.05)
        writer.close()

    asyncio.run(asyncio.wait_for(scene(), 60))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small") as place:
        yield place


def test_a_full_disk_stops_nobody_and_is_told_once_there_is_room(disk: Path) -> None:
    log, ticks = disk / "events.jsonl", Ticks()
    writer = Writer(log, ticks=ticks)
    for _ in range(10):
        writer.write("output", text="before")
    writer.flush()
    filler = fill(disk)
    for _ in range(5000):
        ticks.now += 0.001
        writer.write("output", text="x" * 200)
    writer.flush()
    assert writer.fault == "no space left on device"
    lost = writer.dropped["disk"]
    assert log.read_bytes().endswith(b"}\n") and 4000 < lost <= 5000
    filler.unlink()
    writer.write("output", text="after")
    writer.close()
    assert writer.fault is None
    events = list(read(log))
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert sum(e.fields["dropped"] for e in events if e.kind == "system") == lost
    assert sum(e.kind == "output" for e in events) == 10 + 5000 - lost + 1


def test_a_torn_log_on_a_full_disk_is_closed_off_later(disk: Path) -> None:
    log = disk / "events.jsonl"
    log.write_bytes(b'{"seq":1,"ts":1,"kind":"output"}\n{"seq":2,"ts"')
    # The rest of the log's last page is room that is left.
    with open(log, "ab") as file:
        file.write(b" " * (4096 - log.stat().st_size))
    filler = fill(disk)
    writer = Writer(log)
    assert writer.fault == "no space left on device"
    filler.unlink()
    writer.write("output", text="after")
    writer.close()
    outputs = [event for event in read(log) if event.kind == "output"]
    assert [event.fields.get("text") for event in outputs] == [None, "after"]
    assert writer.dropped == {"disk": 1} and len(system(log)) == 1
