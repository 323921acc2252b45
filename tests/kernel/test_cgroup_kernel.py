"""Cgroups of the real kernel with real processes in them, whichever version this machine has."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from ags.errors import AgsError
from ags.kernel import cgroup, processes
from ags.kernel.cgroup import Cgroup, CgroupUnavailable
from ags.kernel.hierarchies import here, members_of, step_aside
from ags.model import GIB, MIB, Limits

T = TypeVar("T")
ORDINARY = 54321
PATIENCE = 60.0
"""Seconds that processes may take to be gone: on a busy machine they die slowly."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has cgroups of its own here")


@contextmanager
def group(limits: Limits, run: str = "test") -> Iterator[Cgroup]:
    made = cgroup.create(run, limits)
    try:
        yield made
    finally:
        made.kill(PATIENCE)
        made.remove(PATIENCE)


@contextmanager
def inside(made: Cgroup, code: str) -> Iterator[subprocess.Popen[str]]:
    """Python code that starts when it is in the cgroup."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", f"import os, time; input()\n{code}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        made.add(process.pid)
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def members(made: Cgroup) -> set[int]:
    return set.union(*(members_of(directory) for directory in made.directories))


def stat(made: Cgroup, file: str, key: str) -> int:
    return sum(cgroup._count(directory / file, key) for directory in made.directories)


@needs_root
def test_a_run_that_takes_too_much_memory_is_ended_and_we_know_why() -> None:
    with group(Limits(memory=64 * MIB)) as made:
        assert made.reached() is None
        with inside(made, "kept = b'x' * (128 << 20); print('had it')") as process:
            assert process.wait(60) == -signal.SIGKILL
        sentence = "the memory limit of 64 MiB was reached (the kernel ended a process)"
        assert made.reached() == sentence
        made.kill(PATIENCE)
        made.remove(PATIENCE)
        assert made.reached() == sentence


@needs_root
def test_a_run_within_its_memory_is_left_alone() -> None:
    with group(Limits(memory=128 * MIB)) as made:
        with inside(made, "kept = b'x' * (32 << 20); print('had it')") as process:
            assert line(process) == "had it"
            assert process.wait(60) == 0
        assert made.reached() is None


@needs_root
def test_files_in_memory_count_too(tmp_path: Path) -> None:
    code = """
fd = os.memfd_create('x')
for _ in range(128):
    os.write(fd, bytes(1 << 20))
print('had it')
"""
    with group(Limits(memory=64 * MIB)) as made, inside(made, code) as process:
        assert process.wait(60) == -signal.SIGKILL


BOMB = """
count = 0
try:
    while count < 100:
        if os.fork() == 0: time.sleep(60)
        count += 1
except BlockingIOError:
    pass
print(count, flush=True)
time.sleep(60)
"""


@needs_root
def test_a_fork_bomb_stays_within_the_limit_and_kill_ends_it_all() -> None:
    with group(Limits(pids=20)) as made, inside(made, BOMB) as process:
        assert line(process) == "19"
        assert len(members(made)) == 20
        assert made.reached() == "the limit of 20 processes and threads was reached"
        made.kill(PATIENCE)
        assert members(made) == set()
        assert process.wait(60) == -signal.SIGKILL


@needs_root
def test_as_many_processes_as_allowed_are_no_offence() -> None:
    with group(Limits(pids=101)) as made, inside(made, BOMB) as process:
        assert line(process) == "100"
        assert made.reached() is None


@needs_root
def test_kill_ends_processes_that_keep_forking_and_does_not_blame_them() -> None:
    # Who has ended is let go of at once: those who wait for their first process count as well.
    hydra = """
import ctypes, signal
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(4):
    if os.fork() == 0:
        while True:
            try:
                if os.fork() != 0: os._exit(0)
            except OSError:
                pass
print('started', flush=True)
time.sleep(60)
"""
    with group(Limits(pids=200)) as made, inside(made, hydra) as process:
        assert line(process) == "started"
        assert made.reached() is None
        made.kill(PATIENCE)
        assert members(made) == set()
        assert made.reached() is None


@needs_root
def test_after_kill_nothing_more_is_started_inside() -> None:
    with group(Limits(pids=20)) as made:
        made.kill(PATIENCE)
        with inside(made, BOMB) as process:
            assert line(process) == "0"
        assert made.reached() is None


SPIN = "end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"


@needs_root
@pytest.mark.parametrize(("cpus", "throttled"), [(0.05, True), (64, False)])
def test_a_run_gets_no_more_cpu_than_its_share(cpus: float, throttled: bool) -> None:
    with group(Limits(cpus=cpus)) as made:
        with inside(made, SPIN) as process:
            assert process.wait(60) == 0
        assert stat(made, "cpu.stat", "nr_periods") > 0
        assert (stat(made, "cpu.stat", "nr_throttled") > 0) is throttled


@needs_root
def test_a_cgroup_with_a_process_in_it_is_not_removed() -> None:
    with group(Limits(pids=20)) as made, inside(made, "time.sleep(60)"):
        with pytest.raises(AgsError, match="remove the run's cgroup.*busy"):
            made.remove(patience=0.05)
        made.kill(PATIENCE)
        made.remove(PATIENCE)
        assert not any(directory.exists() for directory in made.directories)
        made.remove(PATIENCE)


@needs_root
def test_a_process_that_is_gone_cannot_be_added() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with group(Limits()) as made, pytest.raises(AgsError, match="put the run into its cgroup"):
        made.add(gone.pid)


@needs_root
def test_a_second_cgroup_of_the_same_run_is_refused_and_the_first_stays() -> None:
    with group(Limits()) as made:
        with pytest.raises(CgroupUnavailable, match="File exists"):
            cgroup.create("test", Limits())
        assert all(directory.exists() for directory in made.directories)


@needs_root
def test_one_controller_that_fails_takes_back_the_others(tmp_path: Path) -> None:
    places = here()
    if not any("memory" in place.controllers for place in places):
        pytest.skip("the controllers are in one hierarchy here")
    broken = [
        replace(place, own=tmp_path) if "memory" in place.controllers else place for place in places
    ]
    with pytest.raises(CgroupUnavailable):
        cgroup.create("broken", Limits(memory=GIB, cpus=1), broken)
    left = [each for place in broken for each in place.own.glob(f"ags-broken-{own_identity()}")]
    assert left == []


@needs_root
def test_the_description_is_what_really_works() -> None:
    offer = cgroup.describe()
    with group(cgroup.TRIAL) as made:
        assert offer.how == made.how
    impossible = cgroup.describe(replace(cgroup.TRIAL, pids=1 << 40))
    assert impossible.how == "rlimits and the watch"
    assert "the kernel refuses pids.max" in impossible.why


# Leftovers


def identity_of_the_dead() -> str:
    process = subprocess.Popen(["true"])
    identity = f"{process.pid}-{processes.start_time(process.pid)}"
    process.wait()
    return identity


def own_identity() -> str:
    return f"{os.getpid()}-{processes.start_time(os.getpid())}"


@pytest.fixture
def own_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a sweep looks, but for that of others: whoever starts a run sweeps the usual place."""
    place = next(place for place in here() if os.access(place.base, os.W_OK))
    directory = place.base / f"agstest-{os.getpid()}"
    directory.mkdir()
    monkeypatch.setattr(cgroup, "here", lambda: [replace(place, own=directory, top=directory)])
    try:
        yield directory
    finally:
        cgroup._remove(directory, 60)


@contextmanager
def made_by_hand(place: Path, name: str) -> Iterator[Path]:
    """A cgroup where a sweep looks, whatever its name."""
    directory = place / name
    directory.mkdir()
    try:
        yield directory
    finally:
        if directory.exists():
            cgroup._kill([directory], 60)
            cgroup._remove(directory, 60)


@needs_root
@pytest.mark.parametrize("everywhere", [False, True])
def test_the_cgroup_of_a_dead_owner_is_swept_with_all_that_still_runs_in_it(
    own_place: Path, everywhere: bool
) -> None:
    with made_by_hand(own_place, f"ags-some-run-{identity_of_the_dead()}") as directory:
        leftover = Cgroup("cgroup", [directory], Limits())
        with inside(leftover, "time.sleep(60)") as process:
            until = time.monotonic() + PATIENCE
            while directory not in cgroup.sweep(everywhere=everywhere):  # it has little patience
                assert time.monotonic() < until
            assert process.wait(60) == -signal.SIGKILL
        assert not directory.exists()


@needs_root
def test_the_cgroup_of_a_live_owner_is_never_swept(own_place: Path) -> None:
    with made_by_hand(own_place, f"ags-some-run-{own_identity()}") as directory:
        assert directory not in cgroup.sweep()
        assert directory.exists()


@needs_root
def test_a_reused_pid_is_a_dead_owner(own_place: Path) -> None:
    with made_by_hand(own_place, f"ags-some-run-{os.getpid()}-1") as directory:
        assert directory in cgroup.sweep()


@needs_root
@pytest.mark.parametrize(
    "name", ["ags", "agsx-r-{}", "ags-r-{}.service", "x-ags-r-{}", "ags-r-x-1"]
)
def test_what_is_not_named_by_us_is_never_swept(own_place: Path, name: str) -> None:
    with made_by_hand(own_place, name.format(identity_of_the_dead())) as directory:
        assert directory not in cgroup.sweep()
        assert directory.exists()


@needs_root
def test_the_leaf_of_a_dead_supervisor_is_swept_only_when_nobody_is_in_it(
    own_place: Path,
) -> None:
    with made_by_hand(own_place, f"ags-{identity_of_the_dead()}") as directory:
        with inside(Cgroup("cgroup", [directory], Limits()), "time.sleep(60)") as process:
            assert directory not in cgroup.sweep()
            assert process.poll() is None
        assert directory in cgroup.sweep()


# As an ordinary user, and version 2 without controllers: in a process of its own


def in_a_fork(function: Callable[[], T]) -> T:
    """What `function` returns or raises, called in a child that may change itself as it likes."""
    result, send = os.pipe()
    child = os.fork()
    if child == 0:
        answer: object
        try:
            answer = function()
        except BaseException as error:
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        os.write(send, pickle.dumps(answer))
        os._exit(0)
    os.close(send)
    with open(result, "rb") as stream:
        answer = pickle.loads(stream.read())
    os.waitpid(child, 0)
    if isinstance(answer, RuntimeError):
        raise answer
    return answer  # type: ignore[return-value]


@contextmanager
def place_for(version: int, controller: str | None) -> Iterator[Path]:
    for place in here():
        if place.version == version and (controller is None or controller in place.controllers):
            break
    else:
        pytest.skip(f"no cgroup v{version} hierarchy with {controller} here")
    directory = place.top / f"agstest-{os.getpid()}"
    directory.mkdir()
    try:
        yield directory
    finally:
        for each in (*(child for child in directory.iterdir() if child.is_dir()), directory):
            cgroup._remove(each, 60)


def become_ordinary() -> None:
    os.setgroups([])
    os.setresgid(ORDINARY, ORDINARY, ORDINARY)
    os.setresuid(ORDINARY, ORDINARY, ORDINARY)


@needs_root
@pytest.mark.parametrize("given", [True, False])
def test_an_ordinary_user_is_limited_in_a_cgroup_that_was_given_to_them(given: bool) -> None:
    with place_for(1, "pids") as directory:
        if given:
            os.chown(directory, ORDINARY, ORDINARY)

        def run() -> tuple[str, int]:
            (directory / "cgroup.procs").write_text(str(os.getpid()))
            become_ordinary()
            made = cgroup.create("mine", Limits(pids=5))
            try:
                return made.how, _forks_of_one_inside(made)
            finally:
                made.kill(PATIENCE)
                made.remove(PATIENCE)

        if given:
            assert in_a_fork(run) == ("cgroup v1", 4)
        else:
            with pytest.raises(RuntimeError, match="CgroupUnavailable.*Permission denied"):
                in_a_fork(run)


def _forks_of_one_inside(made: Cgroup) -> int:
    go, start = os.pipe()
    count, answer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go, 1)
        forked = 0
        with suppress(BlockingIOError):
            while forked < 20:
                if os.fork() == 0:
                    time.sleep(60)
                forked += 1
        os.write(answer, bytes([forked]))
        time.sleep(60)
    made.add(child)
    os.write(start, b"g")
    return os.read(count, 1)[0]


@needs_root
def test_we_step_aside_with_our_children_in_a_cgroup_of_version_2() -> None:
    with place_for(2, None) as directory:

        def run() -> tuple[set[int], int, str, str]:
            (directory / "cgroup.procs").write_text(str(os.getpid()))
            child = subprocess.Popen(["sleep", "60"])
            try:
                step_aside(directory)
                own = next(place for place in here() if place.version == 2)
                moved = members_of(own.own) == {os.getpid(), child.pid}
                return members_of(directory), moved, str(own.own), str(own.base)
            finally:
                child.kill()
                child.wait()

        left, moved, own, base = in_a_fork(run)
        assert (left, moved, base) == (set(), True, str(directory))
        assert Path(own).parent == directory


@needs_root
def test_we_do_not_step_aside_where_somebody_else_is() -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        with place_for(2, None) as directory:
            (directory / "cgroup.procs").write_text(str(stranger.pid))

            def run() -> None:
                (directory / "cgroup.procs").write_text(str(os.getpid()))
                step_aside(directory)

            with pytest.raises(RuntimeError, match="other processes share"):
                in_a_fork(run)
            assert members_of(directory) == {stranger.pid}
            stranger.kill()
    finally:
        stranger.kill()
        stranger.wait()


@needs_root
def test_kill_reaches_everyone_in_a_cgroup_of_version_2() -> None:
    with place_for(2, None) as directory:
        made = Cgroup("cgroup v2", [directory], Limits())
        with inside(made, BOMB) as process:
            assert line(process) == "100"
            assert len(members(made)) == 101
            made.kill(PATIENCE)
            assert members(made) == set()
            assert process.wait(60) == -signal.SIGKILL
