"""However a run ends, the person's terminal is as it was before."""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path

import pytest

from tests.interactive.line import dialled, line
from tests.interactive.screen import Screen
from tests.interactive.watching import caller, long_sleep, running
from tests.people import Person

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
    # Others on this machine may have a shell in a sandbox as well.
    mark = f"MARK={secrets.token_hex(8)}"
    screen.sandbox(f"-e {mark}")
    os.kill(caller(mark).pid, signal.SIGTSTP)
    screen.wait("Stopped")
    assert screen.run("stty -a").output == settings
    screen.enter("fg")
    screen.wait("^ags exec.*bash --norc$")
    screen.press("Enter")
    sleep = long_sleep()
    screen.enter(sleep)
    running(sleep, has_terminal=True)
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


@pytest.mark.parametrize("question", [r"\033[6n", r"\033[5n\033[c", r"\033]11;?\007"])
@pytest.mark.parametrize("answer", [b"\x1b[3;4R\x1b[0n", b"\x1b[0n\x1b[?62c\x1b[0n", b""])
def test_what_the_terminal_answers_late_is_not_typed_at_the_shell(
    person: Person, workspace: Path, question: str, answer: bytes
) -> None:
    """The shell's part is played by `cat`, which takes what comes within a second."""
    ags = person.checkout / "bin/ags"
    script = (
        f"{ags} exec -- sh -c 'stty raw -echo; printf \"asked{question}\"'\n"
        "stty raw -echo min 0 time 10; printf over; cat > typed"
    )
    for _ in range(3):  # nobody waits long for an answer, and this machine may be slow to give it
        with dialled(person, workspace, "sh", "-c", script) as terminal:
            # Not before our own question, or the program's part of ags would take it.
            terminal.read_until(
                lambda seen: b"over" in seen or b"\x1b[5n" in seen.partition(b"asked")[2][4:]
            )
            terminal.write(answer)
            terminal.read_all()
        if not (typed := (workspace / "typed").read_bytes()):
            return
    raise AssertionError(typed)


def test_without_a_question_nothing_of_ours_is_added(person: Person, workspace: Path) -> None:
    with line(person, workspace, "--", "printf", r"\033[31mred\033[0m \033[2 q\033[u") as terminal:
        assert terminal.read_all() == b"\x1b[31mred\x1b[0m \x1b[2 q\x1b[u"
