"""The watch: pure judgement by table, and real processes and file systems that go too far."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.kernel import processes
from ags.kernel.watch import (
    Room,
    Sample,
    _own_tmpfs,
    _watched,
    check_room,
    human_size,
    judge,
    memory_available,
    watch,
)
from ags.model import GIB, KIB, MIB, Limits
from tests.descriptors import held

FREE = Limits(memory=None, pids=None, disk_free=None, memory_free=None)
QUICK = 0.02


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (KIB, "1 KiB"),
        (64 * MIB, "64 MiB"),
        (3 * GIB // 2, "1.5 GiB"),
        (MIB - 1, "1 MiB"),
        (1023 * GIB, "1023 GiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_a_size_reads_as_a_person_would_say_it(size: int, text: str) -> None:
    assert human_size(size) == text


PLENTY = Room(Path("/work"), bytes_free=10 * GIB, inodes_free=1_000_000, inodes=2_000_000)


def room(
    bytes_free: int | None = GIB, inodes_free: int = 1_000_000, inodes: int = 2_000_000
) -> Room:
    return Room(Path("/work"), bytes_free, inodes_free, inodes)


@pytest.mark.parametrize(
    ("sample", "limits", "reason"),
    [
        (Sample(), Limits(memory=GIB), None),
        (Sample((PLENTY,), GIB, 10, GIB), Limits(memory=GIB, pids=10), None),
        (
            Sample(memory=GIB + 1),
            Limits(memory=GIB),
            "the memory limit of 1 GiB was reached",
        ),
        (Sample(memory=GIB + 1), FREE, None),
        (
            Sample(tasks=51),
            Limits(pids=50),
            "the limit of 50 processes and threads was reached",
        ),
        (Sample(tasks=51), FREE, None),
        (
            Sample(memory_available=100 * MIB),
            Limits(memory_free=256 * MIB),
            "the machine has only 100 MiB of memory left (the floor is 256 MiB)",
        ),
        (Sample(memory_available=100 * MIB), FREE, None),
        (Sample((room(bytes_free=GIB),)), Limits(disk_free=GIB), None),
        (
            Sample((PLENTY, room(bytes_free=512 * MIB))),
            Limits(disk_free=GIB),
            "the file system of /work has only 512 MiB left (the floor is 1 GiB)",
        ),
        (Sample((room(bytes_free=0, inodes_free=0),)), FREE, None),
        (Sample((room(bytes_free=None),)), Limits(disk_free=GIB), None),
        (
            Sample((room(inodes_free=9_999),)),
            Limits(disk_free=MIB),
            "the file system of /work has only 9999 inodes left (the floor is 10000)",
        ),
        (Sample((room(inodes_free=50, inodes=1000),)), Limits(disk_free=MIB), None),
        (
            Sample((room(inodes_free=49, inodes=1000),)),
            Limits(disk_free=MIB),
            "the file system of /work has only 49 inodes left (the floor is 50)",
        ),
        (Sample((room(inodes_free=0, inodes=0),)), Limits(disk_free=MIB), None),
    ],
)
def test_a_run_is_judged_by_its_limits(sample: Sample, limits: Limits, reason: str | None) -> None:
    assert judge(sample, limits) == reason


def test_a_run_starts_only_with_room_above_the_floor(tmp_path: Path) -> None:
    check_room(Limits(disk_free=1), [tmp_path])
    check_room(Limits(disk_free=None), [tmp_path])
    with pytest.raises(AgsError) as caught:
        check_room(Limits(disk_free=1 << 60), [tmp_path])
    assert f"the file system of {tmp_path} has only" in str(caught.value)
    assert "disk_free" in caught.value.hint


def test_a_file_system_that_does_not_count_its_room_is_not_full() -> None:
    assert os.statvfs("/proc").f_blocks == 0
    check_room(Limits(disk_free=1), [Path("/proc")])


def test_a_missing_place_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(AgsError, match=r"nowhere.*No such file"):
        check_room(Limits(), [tmp_path / "nowhere"])


@contextmanager
def process(*argv: str) -> Iterator[int]:
    """A command that says `ready` and waits."""
    started = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        yield started.pid
    finally:
        os.killpg(started.pid, 9)
        started.communicate()


@contextmanager
def python(code: str) -> Iterator[int]:
    """Code that runs in a child of the process watched, as in a sandbox below its init."""
    script = f"""
import mmap, os, sys, threading, time
told, tell = os.pipe()
if os.fork() == 0:
    {code.strip().replace(chr(10), chr(10) + "    ")}
    os.write(tell, b"r")
    time.sleep(60)
os.read(told, 1)
print("ready", flush=True)
sys.stdin.read()
"""
    with process(sys.executable, "-I", "-S", "-c", script) as pid:
        yield pid


def tmpfs(options: str) -> tuple[str, ...]:
    """A process with a tmpfs of its own at /mnt, reached from here through its root."""
    script = f"mount -t tmpfs -o {options} none /mnt && echo ready && exec cat"
    return ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)


def verdict(
    pid: int,
    limits: Limits,
    writable: Sequence[Path] = (),
    *,
    contained: bool = False,
    seconds: float = 60,
) -> str | None:
    """What the watch says of a run; None when it keeps silent for `seconds`."""

    async def ask() -> str | None:
        try:
            return await asyncio.wait_for(
                watch(pid, limits, writable, contained=contained, interval=QUICK), seconds
            )
        except TimeoutError:
            return None

    return asyncio.run(ask())


def is_quiet(
    pid: int,
    limits: Limits,
    writable: Sequence[Path] = (),
    *,
    contained: bool = False,
    seconds: float = 0.5,
) -> bool:
    return verdict(pid, limits, writable, contained=contained, seconds=seconds) is None


HOG = "kept = b'x' * (96 << 20)"
SHARED = """
mine, yours = os.pipe()
kept = mmap.mmap(-1, 64 << 20)
kept.write(b'x' * (64 << 20))
for _ in range(3):
    if os.fork() == 0:
        for at in range(0, 64 << 20, 4096): kept[at]
        os.write(yours, b'r')
        time.sleep(60)
    os.read(mine, 1)
"""
THREADS = """
for _ in range(20):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
"""


def memory(size: int) -> Limits:
    return Limits(memory=size, memory_free=None)


def test_a_run_whose_processes_hold_too_much_memory_is_stopped() -> None:
    with python(HOG) as pid:
        assert verdict(pid, memory(64 * MIB)) == "the memory limit of 64 MiB was reached"
        assert is_quiet(pid, memory(512 * MIB))


def test_memory_is_left_to_the_cgroup_where_there_is_one() -> None:
    with python(HOG) as pid:
        assert is_quiet(pid, memory(64 * MIB), contained=True)


def test_memory_shared_by_many_processes_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ags.kernel.watch.LOOK_CLOSER", 60.0)
    with python(SHARED) as pid:
        assert is_quiet(pid, memory(160 * MIB))
        assert verdict(pid, memory(64 * MIB)) == "the memory limit of 64 MiB was reached"


def test_threads_count_as_the_kernel_would_count_them() -> None:
    with python(THREADS) as pid:
        sentence = "the limit of 21 processes and threads was reached"
        assert verdict(pid, Limits(pids=21, memory_free=None)) == sentence
        assert is_quiet(pid, Limits(pids=22, memory_free=None))
        assert is_quiet(pid, Limits(pids=21, memory_free=None), contained=True)


def test_files_in_the_runs_own_tmpfs_are_memory() -> None:
    with process(*tmpfs("size=128m")) as pid:
        assert is_quiet(pid, memory(64 * MIB))
        Path(f"/proc/{pid}/root/mnt/file").write_bytes(bytes(80 * MIB))
        assert verdict(pid, memory(64 * MIB)) == "the memory limit of 64 MiB was reached"


def test_tmpfs_of_the_host_that_the_run_sees_is_not_its_memory() -> None:
    with process(*tmpfs("size=1m")) as pid, python("pass") as ours:
        # Of what it sees, others may have taken theirs away on the host meanwhile.
        root, own = Path(f"/proc/{pid}/root"), _own_tmpfs(pid)
        hosts = {mount.path for mount in processes.mounts() if mount.kind == "tmpfs"}
        assert root / "mnt" in own and hosts
        assert not {root / path.relative_to("/") for path in hosts} & set(own)
        assert any(mount.kind == "tmpfs" for mount in processes.mounts(ours))
        assert _own_tmpfs(ours) == []


@pytest.mark.parametrize(
    ("before", "after", "own"),
    [(False, True, False), (True, False, False), (True, True, False), (False, False, True)],
)
def test_nor_is_one_that_the_host_mounts_or_takes_away_meanwhile(
    monkeypatch: pytest.MonkeyPatch, before: bool, after: bool, own: bool
) -> None:
    late = processes.parse_mount("99 1 0:999 / /late rw - tmpfs none rw")
    looks = iter([[late] * before, [late], [late] * after])
    monkeypatch.setattr(processes, "mounts", lambda pid=None: next(looks))
    assert _own_tmpfs(7) == [Path("/proc/7/root/late")] * own


def test_a_run_is_stopped_when_its_disk_gets_full() -> None:
    with process(*tmpfs("size=32m")) as pid:
        disk = Path(f"/proc/{pid}/root/mnt")
        limits = Limits(disk_free=16 * MIB)
        assert is_quiet(pid, limits, [disk], contained=True)
        (disk / "file").write_bytes(bytes(24 * MIB))
        sentence = f"the file system of {disk} has only 8 MiB left (the floor is 16 MiB)"
        assert verdict(pid, limits, [disk], contained=True) == sentence
        with pytest.raises(AgsError, match="only 8 MiB left"):
            check_room(limits, [disk])


def test_a_run_is_stopped_when_its_disk_runs_out_of_inodes() -> None:
    with process(*tmpfs("size=32m,nr_inodes=400")) as pid:
        disk = Path(f"/proc/{pid}/root/mnt")
        limits = Limits(disk_free=MIB)
        assert is_quiet(pid, limits, [disk], contained=True)
        for number in range(385):
            (disk / str(number)).touch()
        reason = verdict(pid, limits, [disk], contained=True)
        assert reason is not None and "inodes left (the floor is 20)" in reason


def test_a_disk_is_still_watched_when_the_run_renames_the_way_to_it(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()

    async def rename_under_watch() -> str | None:
        task = asyncio.create_task(
            watch(os.getpid(), Limits(disk_free=1), [place], contained=True, interval=QUICK)
        )
        await asyncio.sleep(3 * QUICK)
        place.rename(tmp_path / "elsewhere")
        done, _ = await asyncio.wait([task], timeout=5 * QUICK)
        task.cancel()
        return repr(done) if done else None

    assert asyncio.run(rename_under_watch()) is None


@pytest.mark.parametrize(
    ("contained", "limit", "speaks"),
    [(False, None, True), (False, GIB, True), (True, GIB, False), (True, None, True)],
)
def test_the_machines_memory_is_watched_unless_a_cgroup_bounds_the_run(
    contained: bool, limit: int | None, speaks: bool
) -> None:
    with python("pass") as pid:
        limits, seconds = Limits(memory=limit, memory_free=1 << 60), 60 if speaks else 0.5
        reason = verdict(pid, limits, contained=contained, seconds=seconds)
        assert (reason is not None and "of memory left" in reason) is speaks


def test_the_machine_has_memory_available() -> None:
    available = memory_available()
    assert available is not None and 0 < available < 1 << 50


def test_a_run_that_has_ended_is_nobodys_fault() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert is_quiet(gone.pid, memory(1))


def test_a_later_process_with_the_pid_of_the_run_is_not_the_run() -> None:
    with python(HOG) as pid, _watched(pid, memory(GIB), (), contained=False) as watched:
        found = asyncio.run(watched.sample()).memory
        assert found is not None and found > 96 * MIB
        later = replace(watched, born=1)
        assert asyncio.run(later.sample()).memory == 0


def test_a_cancelled_watch_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = held()
    with process(*tmpfs("size=1m")) as pid:
        assert is_quiet(pid, memory(GIB), [tmp_path], seconds=0.1)
    assert held() == before
