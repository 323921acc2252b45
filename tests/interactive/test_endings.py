"""How a run ends, and that then all of it has ended."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import cast

import pytest

from ags.backends.base import Sandbox
from ags.cli.terminal import TO_COMMAND, Terminal, Wiring
from tests.cli.callers import as_user
from tests.interactive.screen import Screen
from tests.interactive.watching import caller, eventually, gone, long_sleep, running


@as_user
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("sh -c 'exit 3'", 3),
        ("sh -c 'kill -SEGV $$'", 139),
        ("no-such-program", 127),
        ("./not-a-program", 126),
        ("./a-folder", 126),
    ],
)
@pytest.mark.parametrize("input", ["", "< /dev/null"], ids=["terminal", "no terminal"])
def test_the_exit_code_is_the_commands(
    screen: Screen, workspace: Path, command: str, code: int, input: str
) -> None:
    (workspace / "not-a-program").write_text("text")
    (workspace / "a-folder").mkdir()
    assert screen.run(f"ags exec -- {command} {input}").code == code


@pytest.mark.parametrize(("key", "code"), [("C-c", 130), ("C-\\", 131)])
@pytest.mark.parametrize("input", ["", "true |"], ids=["terminal", "piped"])
def test_a_key_that_ends_the_command_shows_in_the_exit_code(
    screen: Screen, key: str, code: int, input: str
) -> None:
    before = screen.prompt()
    sleep = long_sleep()
    screen.enter(f"{input} ags exec -- {sleep}")
    running(sleep)
    screen.press(key)
    assert screen.done(before).code == code
    gone(sleep)


@pytest.mark.parametrize("input", ["", "true |"], ids=["terminal", "piped"])
def test_a_request_to_end_is_passed_on_and_the_command_answers(screen: Screen, input: str) -> None:
    before = screen.prompt()
    sleep = long_sleep()
    script = f"trap 'echo asked; exit 7' TERM; {sleep} & wait"
    screen.enter(f'{input} ags exec -- bash -c "{script}"')
    running(sleep)
    os.kill(caller(sleep).pid, signal.SIGTERM)
    done = screen.done(before)
    assert (done.code, done.output.splitlines()[-1]) == (7, "asked")
    gone(sleep)


class Begins:
    """What would become of a signal at the moment in which the command begins."""

    def __init__(self) -> None:
        self.found: list[object] = []

    async def release(self) -> None:
        self.found = [signal.getsignal(number) for number in TO_COMMAND]

    async def wait(self) -> None:
        assert self.found, "it was never let go"

    def signal(self, number: int, *, group: bool = False) -> None:
        raise AssertionError(number)


def test_signals_are_heard_as_soon_as_the_command_runs() -> None:
    begins = Begins()
    nowhere = Wiring(keyboard=False, on_terminal=(False,) * 3, outlet=None, shared=False)
    asyncio.run(Terminal(nowhere).accompany(cast(Sandbox, begins)))
    assert signal.SIG_DFL not in begins.found


def test_killed_outright_nothing_is_left_and_the_next_run_works(screen: Screen) -> None:
    before = screen.prompt()
    sleep = long_sleep()
    screen.enter(f"ags exec -- sh -c '{sleep} & {sleep}'")
    running(sleep)
    os.kill(caller(sleep).pid, signal.SIGKILL)
    assert screen.done(before).code == 137
    gone(sleep)
    assert screen.run("ags exec -- echo again").output == "again"


@as_user
@pytest.mark.parametrize(
    "script",
    ["{0}", "{0} & {0}", "trap '' HUP; {0}", "setsid {0} & {0}"],
    ids=["alone", "with a job", "deaf", "with a session of its own"],
)
@pytest.mark.parametrize("input", ["", "true |"], ids=["terminal", "piped"])
def test_closing_the_terminal_leaves_no_process_behind(
    screen: Screen, script: str, input: str
) -> None:
    sleep = long_sleep()
    screen.enter(f'{input} ags exec -- sh -c "{script.format(sleep)}"')
    running(sleep)
    screen.tmux("kill-server")
    gone(sleep)


def test_closing_the_terminal_on_a_shell_leaves_no_process_behind(screen: Screen) -> None:
    screen.sandbox()
    sleep = long_sleep()
    screen.run(f"{sleep} &", "in")
    running(sleep)
    screen.tmux("kill-server")
    gone(sleep)


def test_a_run_under_nohup_outlives_the_terminal(screen: Screen, workspace: Path) -> None:
    waiting = "until [ -e go ]; do sleep 0.05; done; echo done >result"
    sleep = long_sleep()
    screen.run(f"nohup ags exec -- sh -c '{sleep} & {waiting}' >log 2>&1 &")
    running(sleep)
    shell = screen.tmux("display-message", "-p", "#{pane_pid}").strip()
    screen.tmux("kill-server")
    eventually(lambda: None if Path("/proc", shell).exists() else True, "end of the shell", str)
    (workspace / "go").touch()
    eventually(
        lambda: True if (workspace / "result").exists() else None,
        "result",
        (workspace / "log").read_text,
    )
    gone(sleep)
