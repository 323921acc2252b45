"""THREATS R1: what floods is contained, and says why; what keeps within limits is left alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ags import plan as plans
from ags.backends.base import Streams
from ags.host import Host
from ags.kernel import cgroup, processes
from ags.model import KIB, MIB, Limits, Plan
from tests.box import Box


@pytest.fixture(params=["cgroup", "rlimits"])
def held_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With control groups, and as on a machine where an ordinary user has none."""
    if request.param == "rlimits":

        def refuse(run: str, limits: Limits) -> cgroup.Cgroup:
            raise cgroup.CgroupUnavailable("none, for this test")

        monkeypatch.setattr(cgroup, "create", refuse)
    return str(request.param)


HOG = """
import sys, time
held = []
for _ in range(int(sys.argv[1])):
    held.append(b'x' * 1048576)
    time.sleep(0.002)
if len(held) > 100: time.sleep(30)  # more than it may: long enough to be noticed
print('HELD ALL', flush=True)
time.sleep(1)
"""


def hog(box: Box, megabytes: int, limits: Limits):  # type: ignore[no-untyped-def]
    return box.run("/usr/bin/python3", "-c", HOG, str(megabytes), limits=limits)


def test_a_memory_hog_is_stopped(box: Box, held_by: str) -> None:
    limits = Limits(memory=100 * MIB, memory_free=None)
    outcome = hog(box, 250, limits)
    assert "HELD ALL" not in outcome.out
    assert outcome.ending.stopped_by is not None and "memory" in outcome.ending.stopped_by
    assert "HELD ALL" in hog(box, 20, limits).out


BOMB = """
import os, sys, time
made = 0
for _ in range(int(sys.argv[1])):
    try:
        if os.fork() == 0: time.sleep(60); os._exit(0)
    except OSError: break
    made += 1
# No limit of the kernel's for the host's uid 0 without cgroups: the watch ends it.
time.sleep(60 if made > 60 else 1)
print(made, flush=True)
"""


def test_a_fork_bomb_is_bounded(box: Box, held_by: str) -> None:
    limits = Limits(pids=40, memory_free=None)

    def made(tries: int) -> int:
        out = box.run("/usr/bin/python3", "-c", BOMB, str(tries), limits=limits).out
        return int(out or 0)

    assert made(300) <= 60
    assert made(10) == 10


def test_a_bombed_run_leaves_the_others_alone(box: Box) -> None:
    async def scene() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        bomb = await box.backend.launch(
            box.plan("/bin/sh", "-c", ":(){ :|:& };:", limits=Limits(pids=100, timeout=5)),
            Streams(null, null, null),
        )
        await bomb.release()
        await asyncio.sleep(0.5)
        assert subprocess.run(["true"]).returncode == 0
        neighbour = await box.backend.launch(box.plan("true"), Streams(null, null, null))
        await neighbour.release()
        assert (await neighbour.wait()).code == 0
        await bomb.kill()

    asyncio.run(scene())


def test_processor_time_is_rationed(box: Box) -> None:
    """Judged by the kernel's own count of how often it held the run back, not by a clock."""
    spin = "while :; do :; done"

    async def throttled(limits: Limits) -> int:
        null = os.open(os.devnull, os.O_RDWR)
        sandbox = await box.backend.launch(
            box.plan("/bin/sh", "-c", spin, limits=limits), Streams(null, null, null)
        )
        await sandbox.release()
        count, deadline = 0, time.monotonic() + 120
        while not count and _spent(sandbox.init) < 1:
            assert time.monotonic() < deadline, "it neither spins nor is held back"
            await asyncio.sleep(0.1)
            count = sum(_throttled(line) for line in _cpu_folders(sandbox.init))
        await sandbox.kill()
        return count

    assert asyncio.run(throttled(Limits(cpus=0.05))) > 0
    assert asyncio.run(throttled(Limits(cpus=64))) == 0


def _spent(init: int) -> float:
    """Seconds that what runs inside has had of a processor."""
    ticks = 0
    for pid in processes.children(init):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _cpu_folders(pid: int) -> Iterator[Path]:
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for fields in mounts:
            options = fields[-1].split(",")
            kind = fields[fields.index("-") + 1]
            if (kind == "cgroup" and "cpu" in controllers.split(",") and "cpu" in options) or (
                kind == "cgroup2" and not controllers
            ):
                yield Path(fields[4] + path) / "cpu.stat"


def _throttled(file: Path) -> int:
    if not file.exists():
        return 0
    pairs = (line.split() for line in file.read_text().splitlines())
    return next((int(value) for name, value in pairs if name == "nr_throttled"), 0)


def test_a_giant_file_cannot_be_made(box: Box) -> None:
    write = "head -c 3000000 /dev/zero > big; stat -c %s big"
    assert int(box.shell(write, limits=Limits(file_size=MIB)).out) <= MIB
    assert int(box.shell(write, limits=Limits(file_size=4 * MIB)).out) == 3000000
    sparse = "truncate -s 100T sparse && echo MADE"
    assert "MADE" not in box.shell(sparse, limits=Limits(file_size=MIB)).out


def test_descriptors_are_bounded(box: Box) -> None:
    script = """
import os
n = 0
try:
    while n < 3000: os.open('/dev/null', os.O_RDONLY); n += 1
except OSError: pass
print(n)
"""
    assert int(box.python(script, limits=Limits(open_files=100)).out) < 100
    assert int(box.python(script, limits=Limits(open_files=4000)).out) == 3000


@pytest.fixture
def small_disk(box: Box) -> Iterator[Box]:
    """The workspace on a file system of 64 MiB and 4,000 inodes."""
    owner = box.workspace.stat()
    options = f"size=64m,nr_inodes=4000,uid={owner.st_uid},gid={owner.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", box.workspace], check=True)
    try:
        yield box
    finally:
        subprocess.run(["umount", "-l", box.workspace], check=True)


def test_a_disk_is_not_filled_to_the_brim(small_disk: Box) -> None:
    box, limits = small_disk, Limits(disk_free=16 * MIB, memory_free=None)
    slowly = (  # and below the floor, long enough to be noticed
        "for i in $(seq 1 {}); do head -c 1M /dev/zero > f$i || exit 9;"
        " [ $i != 52 ] || sleep 30; done; echo DONE"
    )
    outcome = box.shell(slowly.format(80), limits=limits)
    assert "DONE" not in outcome.out
    assert outcome.ending.stopped_by is not None and "floor" in outcome.ending.stopped_by
    left = os.statvfs(box.workspace)
    assert left.f_bavail * left.f_frsize > 4 * MIB
    subprocess.run(f"rm -f {box.workspace}/f*", shell=True, check=True)
    assert "DONE" in box.shell(slowly.format(5), limits=limits).out


def test_inodes_are_not_used_up(small_disk: Box) -> None:
    box, limits = small_disk, Limits(disk_free=MIB, memory_free=None)
    make = "for i in $(seq 1 100); do : > $j-$i || { echo FULL; exit 9; }; done"
    slowly = f"for j in $(seq 1 50); do {make}; [ $j != 39 ] || sleep 30; done; sleep 2"
    outcome = box.shell(slowly, limits=limits)
    assert "FULL" not in outcome.out
    assert outcome.ending.stopped_by is not None


def test_a_flood_of_output_is_the_readers_to_stop(box: Box) -> None:
    async def scene() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        reading, writing = os.pipe()
        plan = box.plan("yes", "flood", limits=Limits(timeout=600))
        sandbox = await box.backend.launch(plan, Streams(null, writing, null))
        os.close(writing)
        await sandbox.release()
        got = 0
        while got < 8 * MIB:
            got += len(os.read(reading, 64 * KIB))
        os.close(reading)
        assert (await asyncio.wait_for(sandbox.wait(), 60)).code in (1, 141)

    asyncio.run(scene())


def test_a_run_without_end_is_ended(box: Box) -> None:
    script = "trap '' TERM INT; while :; do sleep 1; done"
    limits = Limits(timeout=0.5)
    assert asyncio.run(asyncio.wait_for(_run(box, script, limits), 90)) == 124


async def _run(box: Box, script: str, limits: Limits) -> int:
    null = os.open(os.devnull, os.O_RDWR)
    plan = box.plan("/bin/sh", "-c", script, limits=limits)
    sandbox = await box.backend.launch(plan, Streams(null, null, null))
    await sandbox.release()
    try:
        return (await sandbox.wait()).code
    except asyncio.CancelledError:
        await sandbox.kill()
        raise


def test_nothing_runs_before_its_limits_hold(box: Box) -> None:
    marker = box.workspace / "ran"

    async def scene() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        sandbox = await box.backend.launch(box.plan("touch", "ran"), Streams(null, null, null))
        deadline = time.monotonic() + 60
        while not marker.exists() and not _waits_for_a_line(sandbox.init):
            assert time.monotonic() < deadline, "it neither waits nor runs"
            await asyncio.sleep(0.01)
        before = marker.exists()
        await sandbox.kill()
        assert not before
        again = await box.backend.launch(box.plan("touch", "ran"), Streams(null, null, null))
        await again.release()
        await again.wait()
        assert marker.exists()

    asyncio.run(scene())


def _waits_for_a_line(init: int) -> bool:
    """As the gate does, on its standard input; whoever has gone through reads nothing there."""
    with contextlib.suppress(OSError):
        for pid in processes.children(init):
            call = Path(f"/proc/{pid}/syscall").read_text().split()
            return call[:2] in (["0", "0x0"], ["63", "0x0"])  # `read` of x86_64, and of aarch64
    return False


# Writes a loop of its own over the code of the sandbox's first process, which bwrap set to die
# with us, and takes that back. All inside runs as one user, so only a kill from outside helps.
TAKE_OVER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def call():
    return open('/proc/1/syscall').read().split()
while (now := call())[0] == 'running':
    pass
place = int(now[-1], 16)
outlive = bytes.fromhex('b89d000000bf0100000031f60f05')
reap = bytes.fromhex('b83d00000048c7c7ffffffff31f631d24531d20f05')
again = bytes([0xEB, (256 - len(reap) - 2) & 255])
memory = os.open('/proc/1/mem', os.O_RDWR)
os.pwrite(memory, outlive + reap + again, place)
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.2)
    os._exit(0)
os.wait()
while call()[2:3] != ['0x0']:  # where it waits now, it asks for nobody's status
    time.sleep(0.01)
open('taken', 'w').close()
while True:
    time.sleep(1)
"""


def test_the_memory_of_the_first_process_is_out_of_reach(box: Box) -> None:
    taken = box.workspace / "taken"

    async def scene() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        plan = box.plan("/usr/bin/python3", "-c", TAKE_OVER)
        sandbox = await box.backend.launch(plan, Streams(null, null, null))
        await sandbox.release()
        ending = asyncio.create_task(sandbox.wait())
        while not ending.done() and not taken.exists():
            await asyncio.sleep(0.05)
        await sandbox.kill()
        await ending

    asyncio.run(asyncio.wait_for(scene(), 120))
    assert not taken.exists()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the attack is machine code")
def test_a_run_that_took_over_its_first_process_is_ended_too(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = plans.build

    def open_to_attack(spec: plans.Spec, facts: Host) -> Plan:
        made = build(spec, facts)
        kept = (step for step in made.mounts if str(step.target) != "/proc/1")
        return replace(made, mounts=tuple(kept))

    monkeypatch.setattr(plans, "build", open_to_attack)

    async def scene(seconds: int) -> int:
        null = os.open(os.devnull, os.O_RDWR)
        plan = box.plan("/usr/bin/python3", "-c", TAKE_OVER, limits=Limits(timeout=seconds))
        sandbox = await box.backend.launch(plan, Streams(null, null, null))
        first = os.pidfd_open(sandbox.init)
        await sandbox.release()
        try:
            return (await asyncio.wait_for(sandbox.wait(), seconds + 70)).code
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(first, signal.SIGKILL)

    for seconds in (2, 10, 50):  # a slow machine needs longer to be attacked
        assert asyncio.run(scene(seconds)) == 124
        if (box.workspace / "taken").exists():
            break
    assert (box.workspace / "taken").exists(), "the attack did not get far enough to prove anything"
