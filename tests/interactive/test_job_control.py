"""A shell in the sandbox is as good as one outside: prompt, jobs and the keys that rule them."""

from __future__ import annotations

from pathlib import Path

from tests.interactive.screen import Screen
from tests.interactive.watching import long_sleep, running

CATCHES = """
import time
try:
    print("ready", flush=True)
    time.sleep(1000)
except KeyboardInterrupt:
    print("caught", flush=True)
"""


def test_a_shell_greets_with_its_prompt_and_complains_of_nothing(screen: Screen) -> None:
    screen.enter("ags exec -- bash")
    shown = screen.wait(r"^\S.*[$>]\Z(?<!out-1-0>)").string
    assert "job control" not in shown and "terminal process group" not in shown
    screen.press("C-d")
    assert screen.prompt(after=1)["code"] == "0"


def test_a_job_goes_to_the_background_comes_back_stops_and_goes_on(screen: Screen) -> None:
    screen.sandbox()
    sleep = long_sleep()
    screen.run(f"{sleep} &", "in")
    assert "Running" in screen.run("jobs", "in").output

    before = screen.prompt("in")
    screen.enter("fg")
    running(sleep, has_terminal=True)
    screen.press("C-z")
    assert "Stopped" in screen.done(before, "in").output
    running(sleep, state="T")

    screen.run("bg", "in")
    assert not running(sleep).has_terminal
    assert "Running" in screen.run("jobs", "in").output
    screen.run("kill %1; wait", "in")
    assert screen.run("jobs", "in").output == ""


def test_control_c_ends_the_program_and_not_the_sandbox(screen: Screen) -> None:
    screen.sandbox()
    before = screen.prompt("in")
    sleep = long_sleep()
    screen.enter(sleep)
    running(sleep, has_terminal=True)
    screen.press("C-c")
    assert screen.done(before, "in").code == 130
    assert screen.run("echo $((6 * 7))", "in").output == "42"


def test_control_c_reaches_a_program_that_catches_it(screen: Screen, workspace: Path) -> None:
    (workspace / "catches.py").write_text(CATCHES)
    before = screen.prompt()
    screen.enter("ags exec -- python3 catches.py")
    screen.wait("^ready$")
    screen.press("C-c")
    done = screen.done(before)
    assert (done.code, done.output.splitlines()[-1]) == (0, "^Ccaught")


def test_control_z_without_a_shell_does_no_harm(screen: Screen) -> None:
    """Nobody inside could continue the program, so the kernel does not stop it either."""
    before = screen.prompt()
    screen.enter("ags exec -- cat")
    screen.enter("one")
    screen.wait(r"^one\none$")
    screen.press("C-z")
    screen.enter("two")
    screen.wait(r"two\ntwo$")
    screen.press("C-d")
    assert screen.done(before).code == 0


def test_control_d_ends_the_shell_and_its_exit_code_comes_out(screen: Screen) -> None:
    screen.sandbox()
    screen.run("(exit 3)", "in")
    screen.press("C-d")
    assert screen.prompt(after=1)["code"] == "3"


def test_what_was_typed_before_the_start_is_not_lost(screen: Screen) -> None:
    before = screen.prompt()
    screen.tmux("send-keys", "-l", "ags exec -- head -n 1\rearly bird\r")
    assert screen.done(before).output.splitlines()[-1] == "early bird"


def test_a_program_that_let_go_of_the_terminal_can_take_it_again(screen: Screen) -> None:
    done = screen.run(
        "ags exec -- bash -c 'exec </dev/null >/dev/null 2>&1; sleep 0.3; echo back >/dev/tty'"
    )
    assert (done.code, done.output) == (0, "back")
