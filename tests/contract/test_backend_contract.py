"""What every backend promises (`ags/backends/base.py`), asked of each one in turn."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from ags.backends.base import Backend, Entered, Sandbox, Streams
from ags.backends.bubblewrap import Bubblewrap
from ags.backends.fake import Fake
from ags.errors import AgsError
from ags.model import Bind, Limits, Text
from tests.box import Box

BACKENDS: dict[str, Callable[[], Backend]] = {"bubblewrap": Bubblewrap, "fake": Fake}


@pytest.fixture(params=BACKENDS)
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Box:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Box(workspace, tmp_path / "home", BACKENDS[request.param]())


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 120))


async def launched(box: Box, *command: str, limits: Limits | None = None) -> tuple[Sandbox, int]:
    """A held sandbox, and the reading end of what its command prints."""
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    streams = Streams(nothing, writing, writing)
    sandbox = await box.backend.launch(box.plan(*command, limits=limits), streams)
    if not isinstance(box.backend, Fake):  # which writes to this very descriptor later
        os.close(writing)
        os.close(nothing)
    return sandbox, reading


def test_a_probe_says_it_works(box: Box) -> None:
    assert asyncio.run(box.backend.probe()).ok


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1), ("no-such-command", 127)])
def test_the_exit_code_is_the_commands(box: Box, command: str, code: int) -> None:
    assert box.run(command).code == code


def test_output_arrives(box: Box) -> None:
    assert box.run("echo", "hello", "there").out == "hello there\n"


def test_input_goes_in_to_its_end(box: Box) -> None:
    assert box.run("cat", stdin=b"one\ntwo").out == "one\ntwo"


def test_the_command_starts_in_the_plans_directory(box: Box) -> None:
    assert box.run("pwd").out == f"{box.workspace}\n"


def test_the_environment_is_the_plans_and_nothing_else(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_OUTSIDE", "x")
    found = dict(line.split("=", 1) for line in box.run("env").out.splitlines())
    found.pop("_", None), found.pop("PWD", None), found.pop("OLDPWD", None)
    assert found == dict(box.plan("env").environment)


def test_nothing_runs_before_the_release(box: Box) -> None:
    async def scene() -> None:
        sandbox, reading = await launched(box, "echo", "ran")
        os.set_blocking(reading, False)
        await asyncio.sleep(0.2)
        with pytest.raises(BlockingIOError):
            os.read(reading, 10)
        await sandbox.release()
        await sandbox.wait()
        assert os.read(reading, 10) == b"ran\n"

    play(scene())


def test_a_sandbox_killed_before_its_release_never_runs(box: Box) -> None:
    async def scene() -> None:
        sandbox, reading = await launched(box, "echo", "ran")
        await sandbox.kill()
        assert (await sandbox.wait()).code != 0
        os.set_blocking(reading, False)
        with contextlib.suppress(BlockingIOError):
            assert os.read(reading, 10) == b""

    play(scene())


def test_a_link_where_something_is_to_be_mounted_ends_the_start(box: Box) -> None:
    place, elsewhere = box.workspace / "place", box.workspace.parent / "elsewhere"
    steps = [Text(PurePosixPath(place / "made"), b"")]
    elsewhere.mkdir()
    place.mkdir()
    assert box.run("true", protections=steps).code == 0
    place.rename(box.workspace / "old")
    place.symlink_to(f"/oldroot{elsewhere}")
    with pytest.raises(AgsError, match="there is a link"):
        box.run("true", protections=steps)
    assert list(elsewhere.iterdir()) == []


def test_a_signal_ends_the_command_with_its_number(box: Box) -> None:
    async def scene() -> None:
        sandbox, _ = await launched(box, "sleep", "600")
        await sandbox.release()
        await asyncio.sleep(0.2)
        sandbox.signal(signal.SIGTERM)
        assert (await sandbox.wait()).code == 128 + signal.SIGTERM
        sandbox.signal(signal.SIGTERM)  # to one that ended: nothing

    play(scene())


def test_kill_ends_it_at_once(box: Box) -> None:
    async def scene() -> None:
        sandbox, _ = await launched(box, "sleep", "600")
        await sandbox.release()
        await sandbox.kill()
        assert (await sandbox.wait()).code == 128 + signal.SIGKILL

    play(scene())


def test_the_end_can_be_asked_for_again_and_by_several(box: Box) -> None:
    async def scene() -> None:
        sandbox, _ = await launched(box, "false")
        await sandbox.release()
        first, second = await asyncio.gather(sandbox.wait(), sandbox.wait())
        assert first == second == await sandbox.wait()
        assert first.code == 1

    play(scene())


def test_a_time_limit_ends_it_and_says_so(box: Box) -> None:
    ending = box.run("sleep", "600", limits=Limits(timeout=0.3)).ending
    assert ending.code == 124
    assert ending.stopped_by is not None and "time limit" in ending.stopped_by


def test_a_missing_mount_source_is_an_error_and_nothing_runs(box: Box) -> None:
    gone = box.workspace / "gone"
    with pytest.raises(AgsError) as caught:
        box.run("true", binds=[Bind(gone, box.plan("true").cwd / "x")])
    assert str(gone) in str(caught.value)


async def entered(box: Box, sandbox: Sandbox, *command: str) -> tuple[Entered, int]:
    """A second command in a sandbox, and the reading end of what it prints."""
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    second = await sandbox.enter(command, Streams(nothing, writing, writing))
    if not isinstance(box.backend, Fake):
        os.close(writing)
        os.close(nothing)
    return second, reading


@contextlib.asynccontextmanager
async def running(box: Box) -> AsyncIterator[Sandbox]:
    sandbox, _ = await launched(box, "sleep", "600")
    await sandbox.release()
    try:
        yield sandbox
    finally:
        await sandbox.kill()


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1), ("no-such-command", 127)])
def test_a_second_command_has_an_exit_code_of_its_own(box: Box, command: str, code: int) -> None:
    async def scene() -> None:
        async with running(box) as sandbox:
            second, _ = await entered(box, sandbox, command)
            assert await second.wait() == code == await second.wait()

    play(scene())


def test_a_second_command_starts_where_the_first_did_and_with_its_environment(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_OUTSIDE", "x")
    first = box.run("pwd").out, set(box.run("env").out.splitlines())

    async def said(sandbox: Sandbox, command: str) -> str:
        second, reading = await entered(box, sandbox, command)
        assert await second.wait() == 0
        return os.read(reading, 65536).decode()

    async def scene() -> None:
        async with running(box) as sandbox:
            where, environment = await said(sandbox, "pwd"), await said(sandbox, "env")
            assert (where, set(environment.splitlines())) == first

    play(scene())


def test_a_second_command_reads_its_own_input(box: Box) -> None:
    async def scene() -> None:
        async with running(box) as sandbox:
            (theirs, to_it), (from_it, output) = os.pipe(), os.pipe()
            os.write(to_it, b"typed")
            os.close(to_it)
            second = await sandbox.enter(("cat",), Streams(theirs, output, output))
            assert await second.wait() == 0
            assert os.read(from_it, 100) == b"typed"

    play(scene())


def test_a_signal_ends_the_second_command_and_not_the_first(box: Box) -> None:
    async def scene() -> None:
        async with running(box) as sandbox:
            second, _ = await entered(box, sandbox, "sleep", "600")
            second.signal(signal.SIGTERM)
            assert await second.wait() == 128 + signal.SIGTERM
            second.signal(signal.SIGTERM)  # to one that ended: nothing
            third, _ = await entered(box, sandbox, "true")
            assert await third.wait() == 0

    play(scene())


def test_a_second_command_ends_with_the_sandbox(box: Box) -> None:
    async def scene() -> None:
        async with running(box) as sandbox:
            second, _ = await entered(box, sandbox, "sleep", "600")
        assert await second.wait() == 128 + signal.SIGKILL

    play(scene())


def test_nobody_enters_before_the_release_or_after_the_end(box: Box) -> None:
    async def scene() -> None:
        sandbox, _ = await launched(box, "sleep", "600")
        with pytest.raises(AgsError, match="not running"):
            await entered(box, sandbox, "true")
        await sandbox.release()
        second, _ = await entered(box, sandbox, "true")
        assert await second.wait() == 0
        await sandbox.kill()
        with pytest.raises(AgsError, match="not running"):
            await entered(box, sandbox, "true")

    play(scene())
