"""However a run ends, the person's terminal is as it was before."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.interactive.screen import Screen
from tests.interactive.watching import caller, long_sleep, running

LEAVES_IT_RAW = """
import sys, tty
tty.setraw(0)
sys.exit(5)
"""


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("sh -c 'kill -9 $$'", 137),
        ("python3 raw.py", 5),
        ("sh -c 'stty -echo -icanon -isig -opost'", 0),
        ("no-such-program", 127),
    ],
)
def test_settings_are_the_same_after_any_end(
    screen: Screen, workspace: Path, command: str, code: int
) -> None:
    (workspace / "raw.py").write_text(LEAVES_IT_RAW)
    before = screen.run("stty -a").output
    assert screen.run(f"ags exec -- {command}").code == code
    assert screen.run("stty -a").output == before
    assert "-echo " not in before


def test_settings_the_person_chose_go_inside_and_stay_outside(screen: Screen) -> None:
    screen.run("stty intr ^P -ixon")
    before = screen.run("stty -a").output
    inside = screen.run("ags exec -- stty -a").output
    assert "intr = ^P" in inside and "-ixon" in inside
    assert screen.run("stty -a").output == before


def test_a_run_that_is_paused_gives_the_terminal_back_and_takes_it_again(screen: Screen) -> None:
    settings = screen.run("stty -a").output
    screen.sandbox()
    os.kill(caller("bash --norc").pid, signal.SIGTSTP)
    screen.wait("Stopped")
    assert screen.run("stty -a").output == settings
    screen.enter("fg")
    screen.wait("^ags exec.*bash --norc$")
    screen.press("Enter")
    screen.enter("cat")
    running("cat", has_terminal=True)
    screen.press("C-c")  # raw again: otherwise this would reach ags and not the program
    screen.run("true", "in")
    screen.enter("exit")
    screen.prompt(after=1)
    assert screen.run("stty -a").output == settings


def test_after_the_time_limit_settings_are_back_and_it_is_said(screen: Screen) -> None:
    before = screen.run("stty -a").output
    done = screen.run(f"ags exec --timeout 1s -- {long_sleep()}")
    assert (done.code, done.output) == (124, "ags: stopped: the time limit of 1 s was reached")
    assert screen.run("stty -a").output == before
