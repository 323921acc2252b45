"""What /proc says about real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ags.kernel import processes
from ags.kernel.processes import MountPoint
from ags.model import MIB


@contextmanager
def python(code: str) -> Iterator[int]:
    """A program that says `ready` when it has done what it should and then waits."""
    script = f"""
import mmap, os, sys, threading, time
{code}
print("ready", flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        os.killpg(process.pid, 9)
        process.communicate()


def a_dead_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


SLEEPER = "os.fork() == 0 and time.sleep(60)"


def test_a_child_started_by_a_second_thread_is_a_child_of_the_process() -> None:
    code = f"""
forked = threading.Event()
def start():
    {SLEEPER}
    forked.set()
    time.sleep(60)
{SLEEPER}
threading.Thread(target=start, daemon=True).start()
forked.wait()
"""
    with python(code) as pid:
        assert len(processes.children(pid)) == 2


def test_descendants_are_all_generations_parents_first() -> None:
    code = f"""
told, tell = os.pipe()
if os.fork() == 0:
    {SLEEPER}
    os.write(tell, b"r")
    time.sleep(60)
os.read(told, 1)
"""
    with python(code) as pid:
        (child,) = processes.children(pid)
        (grandchild,) = processes.children(child)
        assert processes.descendants(pid) == [child, grandchild]
        assert processes.descendants(child) == [grandchild]


def test_the_search_for_descendants_ends_when_there_are_more_than_asked_for() -> None:
    six_generations = """
told, tell = os.pipe()
for generation in range(6):
    if os.fork() != 0:
        break
    generation = 6
if generation == 6:
    os.write(tell, b"r")
if generation > 0:
    time.sleep(60)
os.read(told, 1)
"""
    with python(six_generations) as pid:
        assert len(processes.descendants(pid)) == 6
        assert 2 < len(processes.descendants(pid, at_most=2)) < 6


def test_a_scan_of_all_processes_finds_the_children_the_kernel_lists() -> None:
    with python(f"{SLEEPER}\n{SLEEPER}") as pid:
        listed = processes._listed_children(pid)
        assert len(listed) == 2
        assert sorted(processes._scanned_children()[pid]) == sorted(listed)


def test_a_process_that_is_gone_has_nothing() -> None:
    gone = a_dead_process()
    assert processes.children(gone) == []
    assert processes.descendants(gone) == []
    assert processes.threads(gone) == []
    assert processes.resident(gone) == 0
    assert processes.proportional(gone) == 0
    assert processes.start_time(gone) is None
    assert processes.mounts(gone) == []
    processes.kill(gone, only_if=lambda: True)


def test_touched_memory_is_resident_and_reserved_memory_is_not() -> None:
    with python("kept = mmap.mmap(-1, 64 << 20)") as pid:
        assert processes.resident(pid) < 48 * MIB
    with python("kept = b'x' * (64 << 20)") as pid:
        assert processes.resident(pid) > 64 * MIB


def test_shared_memory_is_divided_among_those_who_share_it() -> None:
    code = """
told, tell = os.pipe()
kept = mmap.mmap(-1, 64 << 20)
kept.write(b'x' * (64 << 20))
for _ in range(3):
    if os.fork() == 0:
        kept.seek(0)
        for at in range(0, 64 << 20, 4096): kept[at]
        os.write(tell, b"r")
        time.sleep(60)
    os.read(told, 1)
"""
    with python(code) as pid:
        everyone = [pid, *processes.descendants(pid)]
        assert len(everyone) == 4
        assert sum(map(processes.resident, everyone)) > 4 * 64 * MIB
        assert 64 * MIB < sum(map(processes.proportional, everyone)) < 128 * MIB


def test_the_start_time_is_found_behind_any_program_name(tmp_path: Path) -> None:
    odd = tmp_path / "x) 1 (2 3"
    odd.symlink_to("/bin/sleep")
    process = subprocess.Popen([odd, "60"])
    try:
        while Path(f"/proc/{process.pid}/comm").read_text() != f"{odd.name}\n":
            time.sleep(0.01)
        start = processes.start_time(process.pid)
        own = processes.start_time(os.getpid())
        assert start is not None and own is not None
        assert own < start
        assert process.pid in processes.children(os.getpid())
        assert process.pid in processes._scanned_children()[os.getpid()]
    finally:
        process.kill()
        process.wait()


def test_a_process_is_killed_only_while_it_is_the_one_meant() -> None:
    process = subprocess.Popen(["sleep", "600"])
    try:
        processes.kill(process.pid, only_if=lambda: False)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        processes.kill(process.pid, only_if=lambda: True)
        assert process.wait(60) == -9
    finally:
        process.kill()
        process.wait()


def test_our_own_mounts_hold_proc() -> None:
    assert any(each.kind == "proc" and each.path == Path("/proc") for each in processes.mounts())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "36 35 0:33 / /mnt rw,noatime shared:1 master:2 - tmpfs none rw,size=4k",
            MountPoint("0:33", "/", Path("/mnt"), True, "tmpfs", frozenset({"rw", "size=4k"})),
        ),
        (
            "41 31 0:38 /a/b /with\\040space\\134 ro,nosuid - cgroup2 cgroup2 rw",
            MountPoint("0:38", "/a/b", Path("/with space\\"), False, "cgroup2", frozenset({"rw"})),
        ),
    ],
)
def test_a_mount_is_read_from_its_line(line: str, expected: MountPoint) -> None:
    assert processes.parse_mount(line) == expected
