"""The one door for processes."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ags import proc
from ags.errors import AgsError
from tests.descriptors import held
from tests.interactive.watching import gone, long_sleep


def test_a_command_gets_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "x")
    found = asyncio.run(proc.run(("/usr/bin/env",), env={"GIVEN": "1"}))
    assert found.text == "GIVEN=1\n"


def test_a_failure_tells_the_arguments_the_code_and_the_end_of_stderr() -> None:
    with pytest.raises(proc.ProcessError) as caught:
        asyncio.run(proc.run(("/bin/sh", "-c", "echo because >&2; exit 3")))
    assert caught.value.code == 3
    assert caught.value.said == "because"
    assert "exit 3" in caught.value.cause


def test_a_program_that_is_not_there_is_an_error_of_ours() -> None:
    with pytest.raises(proc.ProcessError):
        asyncio.run(proc.run(("/nonexistent/program",)))


def test_a_command_without_end_is_ended_with_all_it_started() -> None:
    sleep = long_sleep()
    with pytest.raises(proc.ProcessError, match="no end"):
        asyncio.run(proc.run(("/bin/sh", "-c", f"{sleep} & wait"), timeout=0.5))
    gone(sleep)


@pytest.mark.parametrize("command", ["sleep 600", "yes >&2"])
def test_a_command_that_is_no_longer_wanted_is_ended_and_nobody_waits_for_it(command: str) -> None:
    async def scene() -> None:
        task = asyncio.create_task(proc.run(("/bin/sh", "-c", command), timeout=600))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_too_much_output_is_an_error_and_ends_the_command() -> None:
    with pytest.raises(proc.ProcessError, match="more than 1000 bytes"):
        asyncio.run(proc.run(("/usr/bin/yes",), most=1000))
    assert asyncio.run(proc.run(("/bin/echo", "fits"), most=1000)).text == "fits\n"


def test_what_it_reads_is_given_whole_or_by_descriptor(tmp_path: Path) -> None:
    assert asyncio.run(proc.run(("/bin/cat",), stdin=b"x" * 200_000)).stdout == b"x" * 200_000
    (tmp_path / "file").write_text("from a file")
    with open(tmp_path / "file") as file:
        assert asyncio.run(proc.run(("/bin/cat",), stdin=file.fileno())).text == "from a file"


def test_another_user_gets_the_environment_that_was_meant_for_it() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    script = "id -u; id -G; /usr/bin/env"
    found = asyncio.run(proc.run(("/bin/sh", "-c", script), env={"GIVEN": "1"}, user=(123, 456)))
    assert found.text.split()[:2] == ["123", "456"]
    assert {line for line in found.text.splitlines() if "=" in line} == {
        "GIVEN=1",
        "PWD=" + os.getcwd(),
    }


def test_a_failure_beside_it_does_not_hang_the_loop() -> None:
    async def fail() -> None:
        raise ValueError

    async def scene() -> None:
        await asyncio.gather(proc.run(("/bin/sh", "-c", "sleep 600"), timeout=600), fail())

    began = time.monotonic()
    with pytest.raises(ValueError):
        asyncio.run(scene())
    assert time.monotonic() - began < 300


def test_a_spawned_process_has_exactly_the_descriptors_it_is_given(tmp_path: Path) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    stray = fcntl.fcntl(null, fcntl.F_DUPFD, 40)  # no number that the process has anyway
    os.close(null)
    out = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)

    async def scene() -> int:
        script = "ls /proc/self/fd; env"
        given = {1: out, 5: stray}
        return await proc.spawn(("/bin/sh", "-c", script), env={}, descriptors=given).wait()

    try:
        assert asyncio.run(scene()) == 0
        found = (tmp_path / "out").read_text().split()
        assert "1" in found and "5" in found
        assert str(stray) not in found
    finally:
        os.close(stray)
        os.close(out)


def test_the_end_of_a_child_is_told_once_and_signals_after_it_do_nothing() -> None:
    async def scene() -> None:
        child = proc.spawn(("/bin/sleep", "60"), env={}, descriptors={})
        child.signal(signal.SIGTERM)
        assert await child.wait() == -signal.SIGTERM == child.code
        child.signal(signal.SIGKILL)

    asyncio.run(scene())


def test_what_is_taken_as_it_comes_ends_with_its_taker() -> None:
    async def scene(take: Callable[[], bool], *, cancel: bool = False) -> None:
        reading, writing = os.pipe()
        os.write(writing, b"a")
        waiting = asyncio.create_task(proc.while_readable(reading, take))
        try:
            while not taken:
                await asyncio.sleep(0)
            if cancel:
                waiting.cancel()
            await waiting
        finally:
            assert not asyncio.get_running_loop().remove_reader(reading)
            os.close(reading)
            os.close(writing)

    taken: list[int] = []

    def take(*, more: bool) -> bool:
        taken.append(1)
        return more

    def fail() -> bool:
        taken.append(1)
        raise OSError("gone")

    asyncio.run(scene(lambda: take(more=False)))
    assert taken == [1]
    taken.clear()
    with pytest.raises(OSError, match="gone"):
        asyncio.run(scene(fail))
    assert taken == [1]
    taken.clear()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scene(lambda: take(more=True), cancel=True))


def test_programs_are_looked_for_where_the_system_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert proc.find("sh") in ("/usr/bin/sh", "/bin/sh")
    assert proc.find("no-such-program") is None


def test_work_aside_is_done_and_holds_nobody_up(tmp_path: Path) -> None:
    def work() -> None:
        until = time.monotonic() + 60
        while not (tmp_path / "go").exists():
            assert time.monotonic() < until, "nobody went on meanwhile"
            time.sleep(0.01)
        (tmp_path / "done").write_text(str(os.getpid()))

    async def main() -> None:
        task = asyncio.create_task(proc.aside(work))
        for _ in range(5):
            await asyncio.sleep(0.01)
        (tmp_path / "go").touch()
        await task

    asyncio.run(main())
    assert int((tmp_path / "done").read_text()) != os.getpid()


def test_an_error_aside_is_raised_here_in_its_own_words() -> None:
    def work() -> None:
        raise AgsError("count", subject="sheep", cause="one was \udcff missing", hint="sleep")

    with pytest.raises(AgsError) as caught:
        asyncio.run(proc.aside(work))
    error = caught.value
    assert (error.what, error.subject, error.hint) == ("count", "sheep", "sleep")
    assert error.cause == "one was \udcff missing"


def test_what_nobody_foresaw_aside_is_raised_here_with_its_trace() -> None:
    def work() -> None:
        dict[str, int]()["sheep"]

    with pytest.raises(RuntimeError, match="in work\n(.*\n)+KeyError: 'sheep'"):
        asyncio.run(proc.aside(work))


@pytest.mark.parametrize("call", ["fork", "pidfd_open"])
def test_a_copy_that_cannot_be_made_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    async def main() -> None:
        before = held()
        with monkeypatch.context() as less:
            less.setattr(os, call, refused)
            with pytest.raises(AgsError, match="temporarily unavailable"):
                await proc.aside(lambda: None)
        assert held() == before
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
        assert await proc.aside(lambda: b"done") == b"done"

    asyncio.run(main())


def test_who_is_not_waited_for_aside_ends_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proc, "LEAVING", 600.0)
    script = 'echo $$ > "$1.new"; mv "$1.new" "$1"; exec sleep 600'
    argv = ("/bin/sh", "-c", script, "sh", str(tmp_path / "pid"))

    async def main() -> None:
        work = asyncio.create_task(proc.aside(lambda: asyncio.run(proc.run(argv)).stdout))
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_what_is_started_while_the_end_comes_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep, spawn = long_sleep(), proc.spawn

    def meanwhile(*args: Any, **more: Any) -> proc.Child:
        child = spawn(*args, **more)
        os.kill(os.getpid(), signal.SIGTERM)
        return child

    monkeypatch.setattr(proc, "spawn", meanwhile)
    with pytest.raises(AgsError, match="the process that did it ended with 1"):
        asyncio.run(proc.aside(lambda: asyncio.run(proc.run(("/bin/sh", "-c", sleep))).stdout))
    gone(sleep)


def test_a_copy_that_does_not_leave_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "LEAVING", 0.1)

    def work() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)

    with pytest.raises(AgsError, match="not done in 0.1 s"):
        asyncio.run(proc.aside(work, timeout=0.1))


def test_a_death_aside_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AgsError, match="ended with -9"):
        asyncio.run(proc.aside(lambda: os.kill(os.getpid(), signal.SIGKILL)))


def test_work_aside_keeps_no_lock_of_ours(tmp_path: Path) -> None:
    """A lock that is let go here must be free, though the copy goes on."""

    async def main() -> None:
        held = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(held, fcntl.LOCK_EX)
        task = asyncio.create_task(proc.aside(_wait(tmp_path)))
        while not (tmp_path / "there").exists():
            await asyncio.sleep(0.01)
        os.close(held)
        other = os.open(tmp_path / "lock", os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
        (tmp_path / "go").touch()
        await task

    asyncio.run(main())


def _wait(folder: Path) -> Callable[[], None]:
    def work() -> None:
        (folder / "there").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)

    return work


def test_a_child_that_nobody_could_follow_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    sleep = long_sleep()

    async def scene() -> None:
        before = held()
        with pytest.raises(proc.ProcessError, match="Too many open files"):
            proc.spawn(("/bin/sleep", sleep.split()[1]), env={}, descriptors={0: 0, 1: 1})
        assert held() == before

    monkeypatch.setattr(os, "pidfd_open", none_left)
    asyncio.run(scene())
    gone(sleep)


def test_without_descriptors_to_give_nothing_is_started_and_none_stays_open() -> None:
    async def scene() -> None:
        before = held()
        with pytest.raises(proc.ProcessError):
            proc.spawn(("/bin/true",), env={}, descriptors={0: 0, 1: 9999})
        assert held() == before

    asyncio.run(scene())


@pytest.mark.parametrize("terminal", [0, None], ids=["its own", "just open"])
def test_the_end_of_a_terminal_of_its_own_hangs_a_process_up(terminal: int | None) -> None:
    async def scene() -> int:
        master, slave = os.openpty()
        descriptors = {0: slave, 1: slave, 2: slave}
        sleep = ("/bin/sleep", "0.5" if terminal is None else "600")
        child = proc.spawn(sleep, env={}, descriptors=descriptors, terminal=terminal)
        os.close(slave)
        os.close(master)
        return await asyncio.wait_for(child.wait(), 60)

    assert asyncio.run(scene()) == (0 if terminal is None else -signal.SIGHUP)
