"""Limits set from outside on real processes, felt by them and by what they start."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.errors import AgsError
from ags.kernel import rlimits
from ags.model import MIB, Limits

ORDINARY = 54321
ROOT = os.geteuid() == 0
NEW, OLD = "6.1.0-generic", "5.13.19"


@contextmanager
def waiting(*argv: str, user: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A command that is started and, like the gate of a sandbox, waits for a line."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        cwd="/",
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, 9)
        process.communicate()


def release(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def limit(pid: int, number: int) -> tuple[int, int]:
    return resource.prlimit(pid, number)


def test_a_limit_that_is_none_is_not_touched() -> None:
    none = Limits(memory=None, pids=None, file_size=None, open_files=None)
    assert rlimits.wanted(none, contained=False, release=NEW) == {resource.RLIMIT_CORE: 0}


@pytest.mark.parametrize(
    ("contained", "kernel", "counted"),
    [(False, NEW, True), (True, NEW, False), (False, OLD, False), (False, "odd", False)],
)
def test_processes_are_counted_only_where_that_counts_the_run_alone(
    contained: bool, kernel: str, counted: bool
) -> None:
    ceilings = rlimits.wanted(Limits(pids=7), contained=contained, release=kernel)
    assert ceilings.get(resource.RLIMIT_NPROC) == (7 if counted else None)


@given(
    soft=st.integers(0, 1 << 40),
    above=st.one_of(st.none(), st.integers(0, 1 << 40)),
    ceiling=st.integers(0, 1 << 40),
)
def test_neither_limit_ever_rises_or_stays_over_the_ceiling(
    soft: int, above: int | None, ceiling: int
) -> None:
    hard = resource.RLIM_INFINITY if above is None else soft + above
    new_soft, new_hard = rlimits.tightened((soft, hard), ceiling)
    assert new_soft == min(soft, ceiling)
    assert new_hard == (ceiling if above is None else min(hard, ceiling))
    assert new_soft <= new_hard


def test_an_unlimited_soft_limit_comes_down_to_the_ceiling() -> None:
    infinite = resource.RLIM_INFINITY
    assert rlimits.tightened((infinite, infinite), 5) == (5, 5)


@pytest.mark.parametrize(("size", "written"), [(2 * MIB, 2 * MIB), (MIB, MIB)])
def test_a_file_grows_to_the_limit_and_no_further(tmp_path: Path, size: int, written: int) -> None:
    file = tmp_path / "file"
    script = f"read go; head -c {2 * MIB} /dev/zero > {file}; echo done"
    with waiting("sh", "-c", script) as process:
        rlimits.apply([process.pid], Limits(file_size=size, pids=None), contained=True)
        assert release(process) == "done"
    assert file.stat().st_size == written


def test_open_files_are_bounded_and_core_files_off_for_whatever_is_started() -> None:
    script = "read go; sh -c 'ulimit -n 2>&1; ' | tr '\\n' ' '; ulimit -Hn; sleep 60"
    with waiting("sh", "-c", script) as process:
        rlimits.apply([process.pid], Limits(open_files=99), contained=True)
        assert release(process) == "99 99"
        assert limit(process.pid, resource.RLIMIT_CORE) == (0, 0)


def test_a_hard_limit_below_ours_stays_and_a_soft_one_is_not_raised() -> None:
    with waiting("sh", "-c", "ulimit -Sn 50; ulimit -Hn 70; read go; ulimit -n") as process:
        deadline = time.monotonic() + 60
        while limit(process.pid, resource.RLIMIT_NOFILE) != (50, 70):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        rlimits.apply([process.pid], Limits(open_files=65536), contained=True)
        assert limit(process.pid, resource.RLIMIT_NOFILE) == (50, 70)


def test_with_a_cgroup_the_number_of_processes_is_left_to_it() -> None:
    with waiting("sh", "-c", "read go") as process:
        before = limit(process.pid, resource.RLIMIT_NPROC)
        rlimits.apply([process.pid], Limits(pids=7), contained=True)
        assert limit(process.pid, resource.RLIMIT_NPROC) == before
        rlimits.apply([process.pid], Limits(pids=7), contained=False)
        assert limit(process.pid, resource.RLIMIT_NPROC) == (7, 7)


def forks(user: int | None, pids: int | None) -> int:
    """How many of forty processes a run in a user namespace of its own can start."""
    (told, tell), (heard, say) = os.pipe(), os.pipe()
    run = os.fork()
    if run == 0:
        try:
            os.close(tell)
            _become(user)
            os.write(say, b"r")
            os.read(told, 1)
            os.write(say, bytes([_fork_until_refused(40, told)]))
            os.read(told, 1)
        finally:
            os._exit(0)
    os.close(told)
    os.close(say)
    try:
        assert os.read(heard, 1) == b"r"
        rlimits.apply([run], Limits(pids=pids), contained=False)
        os.write(tell, b"g")
        return os.read(heard, 1)[0]
    finally:
        os.close(tell)  # the end of this pipe is the end of all of them
        os.close(heard)
        os.waitpid(run, 0)


def _become(user: int | None) -> None:
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000) != 0:  # CLONE_NEWUSER
        raise OSError(ctypes.get_errno(), "unshare")


def _fork_until_refused(wanted: int, until_closed: int) -> int:
    for count in range(wanted):
        try:
            if os.fork() == 0:
                os.read(until_closed, 1)
                os._exit(0)
        except BlockingIOError:
            return count
    return wanted


def test_an_ordinary_users_run_cannot_have_more_processes_than_its_limit() -> None:
    user = ORDINARY if ROOT else None
    assert forks(user, pids=20) == 19
    assert forks(user, pids=None) == 40


@pytest.mark.skipif(not ROOT, reason="is about root")
def test_a_run_of_root_is_not_bounded_so_and_needs_the_watch() -> None:
    assert forks(None, pids=20) == 40


@pytest.mark.skipif(not ROOT, reason="only root has processes of two users")
def test_root_limits_the_processes_of_another_user_with_or_without_sys_resource() -> None:
    with waiting("unshare", "-U", "sh", "-c", "read go; ulimit -n", user=ORDINARY) as process:
        rlimits.apply([process.pid], Limits(open_files=88), contained=True)
        assert release(process) == "88"
    with waiting("sh", "-c", "read go; ulimit -n", user=ORDINARY) as process:
        ceilings = rlimits.wanted(Limits(open_files=77), contained=True, release=NEW)
        rlimits._set_as_owner(process.pid, ceilings)
        assert release(process) == "77"


def test_a_process_that_is_gone_is_an_error() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(AgsError, match="cannot limit the sandbox"):
        rlimits.apply([process.pid], Limits(), contained=True)
    with pytest.raises(AgsError, match="cannot limit the sandbox"):
        rlimits._set_as_owner(process.pid, {resource.RLIMIT_CORE: 0})
