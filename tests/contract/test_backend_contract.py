"""What every backend promises (`ags/backends/base.py`), asked of each one in turn."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ags.backends.base import Backend, Sandbox, Streams
from ags.backends.bubblewrap import Bubblewrap
from ags.backends.fake import Fake
from ags.errors import AgsError
from ags.model import Bind, Limits
from tests.box import Box

BACKENDS: dict[str, Callable[[], Backend]] = {"bubblewrap": Bubblewrap, "fake": Fake}


@pytest.fixture(params=BACKENDS)
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Box:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Box(workspace, tmp_path / "home", BACKENDS[request.param]())


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 30))


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


def test_a_signal_ends_the_command_with_its_number(box: Box) -> None:
    async def scene() -> None:
        sandbox, _ = await launched(box, "sleep", "60")
        await sandbox.release()
        await asyncio.sleep(0.2)
        sandbox.signal(signal.SIGTERM)
        assert (await sandbox.wait()).code == 128 + signal.SIGTERM
        sandbox.signal(signal.SIGTERM)  # to one that ended: nothing

    play(scene())


def test_kill_ends_it_at_once(box: Box) -> None:
    async def scene() -> None:
        sandbox, _ = await launched(box, "sleep", "60")
        await sandbox.release()
        began = time.monotonic()
        await sandbox.kill()
        assert time.monotonic() - began < 20
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
    ending = box.run("sleep", "60", limits=Limits(timeout=0.3)).ending
    assert ending.code == 124
    assert ending.stopped_by is not None and "time limit" in ending.stopped_by


def test_a_missing_mount_source_is_an_error_and_nothing_runs(box: Box) -> None:
    gone = box.workspace / "gone"
    with pytest.raises(AgsError) as caught:
        box.run("true", binds=[Bind(gone, box.plan("true").cwd / "x")])
    assert str(gone) in str(caught.value)
