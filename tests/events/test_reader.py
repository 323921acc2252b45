"""Reading and following a log, while it grows and when it is damaged."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ags.events import LINE, Event, Writer, follow, last_seq, read
from ags.events.reader import BLOCK, LONGEST
from tests.events.test_writer import environment


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def write(log: Path, count: int, size: int = 50) -> None:
    writer = Writer(log)
    for _ in range(count):
        writer.write("output", text="x" * size)
    writer.close()


def test_a_log_that_is_not_there_has_no_events(log: Path) -> None:
    assert list(read(log)) == [] and last_seq(log) == 0


@pytest.mark.parametrize("after", [0, 1, 2, 999, 10_000, 19_998, 19_999, 20_000, 99_999])
def test_reading_starts_after_any_event(log: Path, after: int) -> None:
    write(log, 20_000, 60)
    assert log.stat().st_size > 10 * BLOCK
    assert [event.seq for event in read(log, after)] == list(range(after + 1, 20_001))
    assert last_seq(log) == 20_000


@settings(max_examples=60)
@given(data=st.data())
def test_damage_costs_only_the_lines_it_hits(data: st.DataObject, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path_factory.mktemp("log") / "events.jsonl"
    sizes = data.draw(st.lists(st.sampled_from([10, 300, 20_000, 64_000]), min_size=1, max_size=60))
    lines = []
    for seq, size in enumerate(sizes, 1):
        event = {"seq": seq, "ts": 1, "kind": "output", "text": "x" * size}
        lines.append(json.dumps(event).encode())
    hit = data.draw(st.sets(st.integers(0, len(lines) - 1)))
    rubbish = st.sampled_from([b"", b"{", b"\0" * 99, b"\r\r", b"z" * (3 * LINE), b"[]"])
    for index in hit:
        lines[index] = data.draw(rubbish)
    log.write_bytes(b"\n".join(lines) + b"\n")
    after = data.draw(st.integers(0, len(lines)))
    expected = [seq for seq in range(1, len(lines) + 1) if seq - 1 not in hit]
    assert [event.seq for event in read(log, after)] == [seq for seq in expected if seq > after]
    assert last_seq(log) == (expected[-1] if expected else 0)


def test_a_huge_log_is_read_from_its_end_in_little_memory(log: Path) -> None:
    """A gigabyte, nearly all of it a hole: what is in it costs nothing, getting past it does."""
    write(log, 5)
    os.truncate(log, 1 << 30)
    writer = Writer(log)
    writer.write("output", text="the end")
    writer.close()
    tracemalloc.start()
    assert [event.seq for event in read(log, 6)] == [7]
    assert last_seq(log) == 7
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * BLOCK


WRITE_MANY = """
import asyncio, sys
from pathlib import Path
from ags.events import Writer
async def main():
    writer = Writer(Path(sys.argv[1]))
    for number in range(int(sys.argv[2])):
        writer.write("output", text=f"line {number} of what a program prints while it builds")
        if number % 1000 == 0:
            await asyncio.sleep(0)
    writer.close()
    print(sum(writer.dropped.values()))
asyncio.run(main())
"""


async def collect(log: Path, after: int, process: subprocess.Popen[bytes]) -> list[int]:
    ended = lambda: process.poll() is not None  # noqa: E731
    return [event.seq async for event in follow(log, after, ended)]


def test_followers_miss_nothing_of_200_000_lines(log: Path) -> None:
    count = 200_000

    async def scene() -> None:
        script = [sys.executable, "-c", WRITE_MANY, str(log), str(count)]
        with subprocess.Popen(script, stdout=subprocess.PIPE, env=environment()) as process:
            all_of_it, part, slow = await asyncio.gather(
                collect(log, 0, process), collect(log, 150_000, process), look(process)
            )
            assert process.stdout and process.stdout.read() == b"0\n"
        assert all_of_it == list(range(1, count + 1))
        assert part == list(range(150_001, count + 1))
        assert slow == [1, 2, 3]

    async def look(process: subprocess.Popen[bytes]) -> list[int]:
        """A reader that takes its time, and leaves early."""
        seen: list[int] = []
        async for event in follow(log, 0, lambda: False):
            seen.append(event.seq)
            await asyncio.sleep(0.05)
            if len(seen) == 3:
                return seen
        return seen

    asyncio.run(asyncio.wait_for(scene(), 300))


def test_a_follower_waits_for_the_log_and_for_what_is_written_before_the_end(log: Path) -> None:
    async def scene() -> None:
        ended = asyncio.Event()
        got: list[Event] = []

        async def watch() -> None:
            async for event in follow(log, 0, ended.is_set):
                got.append(event)

        task = asyncio.create_task(watch())
        await asyncio.sleep(0.05)
        writer = Writer(log)
        writer.write("status", state="running")
        async with asyncio.timeout(60):
            while not got:
                await asyncio.sleep(0.01)
        assert [event.seq for event in got] == [1]
        writer.write("status", state="done")
        ended.set()
        await asyncio.wait_for(task, 60)
        assert [event.seq for event in got] == [1, 2]
        writer.close()

    asyncio.run(scene())


async def looked() -> None:
    """A follower in this loop has had its turn, however long the machine stood still."""
    for _ in range(5):
        await asyncio.sleep(LONGEST / 2)


def test_a_follower_survives_a_tail_that_is_cut_and_written_again(log: Path) -> None:
    async def scene() -> None:
        write(log, 3)
        events = follow(log)
        assert [(await anext(events)).seq for _ in range(3)] == [1, 2, 3]
        with open(log, "ab") as file:
            file.write(b'{"seq":4,"ts":1,"kind":"out')
        later = asyncio.ensure_future(anext(events))
        await looked()
        os.truncate(log, log.stat().st_size - 40)  # into the third line
        await looked()
        write(log, 1)
        event = await asyncio.wait_for(later, 60)
        # The third line is torn now, so its number is given again: to what tells of it.
        assert (event.seq, event.kind) == (4, "output")
        await events.aclose()

    asyncio.run(scene())


def test_a_follower_notices_that_a_log_was_begun_anew(log: Path) -> None:
    async def scene() -> None:
        write(log, 100)
        events = follow(log)
        for _ in range(100):
            await anext(events)
        later = asyncio.ensure_future(anext(events))
        await looked()
        os.truncate(log, 0)
        await looked()
        log.write_bytes(b'{"seq":101,"ts":1,"kind":"output"}\n')
        assert (await asyncio.wait_for(later, 60)).seq == 101
        await events.aclose()

    asyncio.run(scene())
