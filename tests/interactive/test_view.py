"""A run's terminal on the person's own: leaving it, coming back, and what is left of it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ags.cli.view import DETACH, DetachKey, said
from tests import people
from tests.control.test_hub import FULL_SCREEN
from tests.interactive.screen import Screen
from tests.interactive.screen import screen as open_screen
from tests.interactive.watching import eventually, processes
from tests.people import ROOT

DRIVER = (sys.executable, "-m", "tests.control.driver")
WHERE = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
BASH = ("/usr/bin/bash", "--norc", "--noprofile")
CURSES = (sys.executable, "-c", FULL_SCREEN)
# Leaves on whatever a program can, asks what a terminal answers, and waits.
UNTIDY = (
    r"printf '\033[?1049h\033[?1000h\033[?1006h\033[?2004h\033[?25l\033[?1h\033=\033[31m\033(0'"
    r"; echo mess; printf '\033[6n\033[c\033[5;9r'; stty raw -echo; sleep 1000"
)


@contextmanager
def served(run_dir: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor's part, in a process of its own."""
    argv = (*DRIVER, "serve", str(run_dir), *command)
    with subprocess.Popen(argv, env=WHERE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    person = people.myself(ROOT, {**WHERE, "HOME": str(tmp_path)})
    with open_screen(person, tmp_path, tmp_path / "tmux") as made:
        yield made


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def attach(screen: Screen, run_dir: Path, *keys: str) -> re.Match[str]:
    before = screen.prompt()
    screen.enter(shlex.join((*DRIVER, "view", str(run_dir), *keys)))
    return before


def test_a_shell_is_left_and_found_again(screen: Screen, run_dir: Path) -> None:
    with served(run_dir, *BASH):
        settings = screen.run("stty -a").output
        before = attach(screen, run_dir)
        screen.wait("^in>")
        screen.enter("value=$((6 * 7)); echo is $value")
        screen.wait("^is 42$")
        screen.press("C-]")
        done = screen.done(before)
        assert done.output.splitlines()[-2:] == [
            "detached; `ags attach fox` comes back",
            "Detached()",
        ]
        assert screen.run("stty -a").output == settings
        screen.run("clear; tmux -V")
        before = attach(screen, run_dir)
        screen.wait("^is 42$", visible=True)
        screen.enter("echo still $value")
        screen.wait("^still 42$")
        screen.enter("exit 3")
        assert screen.done(before).output.splitlines()[-1] == "Ended(code=3, reason='')"
        assert screen.run("stty -a").output == settings


def test_a_full_screen_program_is_drawn_and_leaves_no_trace(screen: Screen, run_dir: Path) -> None:
    with served(run_dir, *CURSES):
        screen.run("echo stays here")
        for _ in range(2):
            before = attach(screen, run_dir)
            screen.wait(r"\Adrawn at 30x100", visible=True)
            screen.press("C-]")
            screen.done(before)
            assert "stays here" in screen.visible() and "drawn" not in screen.visible()
        before = attach(screen, run_dir)
        screen.wait(r"\Adrawn at 30x100", visible=True)
        screen.type("q")
        assert "Ended(code=0" in screen.done(before).output


def test_a_window_that_changes_its_size_is_followed(screen: Screen, run_dir: Path) -> None:
    with served(run_dir, *CURSES):
        before = attach(screen, run_dir)
        screen.wait(r"\Adrawn at 30x100", visible=True)
        screen.tmux("resize-window", "-x", "70", "-y", "20")
        screen.wait(r"\Adrawn at 20x70", visible=True)
        screen.press("C-]")
        screen.done(before)


def test_two_people_look_at_once(screen: Screen, run_dir: Path, tmp_path: Path) -> None:
    with (
        served(run_dir, *BASH),
        open_screen(screen.person, tmp_path, tmp_path / "other") as other,
    ):
        attach(screen, run_dir)
        screen.wait("^in>")
        attach(other, run_dir)
        other.wait("^in>")
        screen.enter("echo to $((1 + 1))")
        other.wait("^to 2$")


MODES = (
    "#{alternate_on} #{mouse_any_flag}#{mouse_button_flag}#{mouse_standard_flag}"
    " #{cursor_flag} #{keypad_cursor_flag}#{keypad_flag} #{scroll_region_upper}"
)


def test_whatever_a_program_left_on_is_off_again(screen: Screen, run_dir: Path) -> None:
    with served(run_dir, "/usr/bin/bash", "-c", UNTIDY):
        tidy = screen.tmux("display-message", "-p", MODES)
        before = attach(screen, run_dir)
        eventually(
            lambda: screen.tmux("display-message", "-p", MODES) != tidy or None,
            "mess",
            lambda: tidy,
        )
        screen.press("C-]")
        done = screen.done(before)
        assert "Detached()" in done.output
        assert screen.tmux("display-message", "-p", MODES) == tidy
        # Nothing that the terminal answered was typed at the shell's prompt, or was run there.
        assert screen.run("echo $((6 * 7))").output == "42"
        assert not re.search(r"\d+;\d+R|\?\d+[;c]", screen.text())


@pytest.mark.parametrize("question", [r"\033[6n", r"\033[5n\033[6n\033[6n\033[6n\033[6n"])
def test_what_the_terminal_answers_after_leaving_is_not_typed_at_the_shell(
    screen: Screen, run_dir: Path, question: str
) -> None:
    script = f"stty raw -echo; cat >/dev/null & while :; do printf 'ask {question}'; done"
    with served(run_dir, "/usr/bin/bash", "-c", script):
        clean = 0
        for _ in range(5):
            before = attach(screen, run_dir)
            screen.wait("ask ask", visible=True)
            screen.press("C-]")
            assert "Detached()" in screen.done(before).output
            clean += screen.run("clear; echo $((6 * 7))").output == "42"
        # Nobody waits long for an answer, and a busy machine's terminal may be late with one.
        assert clean >= 3


def test_closing_the_terminal_leaves_the_program_at_work(
    screen: Screen, run_dir: Path, tmp_path: Path
) -> None:
    with served(run_dir, *BASH):
        with open_screen(screen.person, tmp_path, tmp_path / "other") as closed:
            attach(closed, run_dir)
            closed.wait("^in>")
            closed.enter("value=kept; echo is $((6 * 7))")
            closed.wait("^is 42$")
        mark = f"driver view {run_dir}"
        eventually(lambda: not processes(mark) or None, "the end of view", lambda: processes(mark))
        attach(screen, run_dir)
        screen.wait("^in>")
        screen.enter("echo $value")
        screen.wait("^kept$")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_end_detaches(screen: Screen, run_dir: Path, number: signal.Signals) -> None:
    with served(run_dir, *BASH):
        settings = screen.run("stty -a").output
        before = attach(screen, run_dir)
        screen.wait("^in>")
        os.kill(processes(f"driver view {run_dir}")[0].pid, number)
        assert "Detached()" in screen.done(before).output
        assert screen.run("stty -a").output == settings


def test_a_pause_gives_the_terminal_back_and_comes_back_drawn(
    screen: Screen, run_dir: Path
) -> None:
    with served(run_dir, *CURSES):
        settings = screen.run("stty -a").output
        before = attach(screen, run_dir)
        screen.wait(r"\Adrawn at 30x100", visible=True)
        os.kill(processes(f"driver view {run_dir}")[0].pid, signal.SIGTSTP)
        assert "Stopped" in screen.done(before).output
        assert screen.run("stty -a").output == settings
        before = screen.prompt()
        screen.enter("fg")
        screen.wait(r"\Adrawn at 30x100", visible=True)
        screen.press("C-]")
        assert "Detached()" in screen.done(before).output


def test_a_supervisor_that_is_killed_gives_the_terminal_back(screen: Screen, run_dir: Path) -> None:
    with served(run_dir, *CURSES) as process:
        settings = screen.run("stty -a").output
        before = attach(screen, run_dir)
        screen.wait(r"\Adrawn at 30x100", visible=True)
        process.kill()
        assert "the run is not at work any more" in screen.done(before).output
        assert screen.run("stty -a").output == settings


def test_without_a_terminal_it_says_so(screen: Screen, run_dir: Path) -> None:
    with served(run_dir, *BASH):
        view = shlex.join((*DRIVER, "view", str(run_dir)))
        done = screen.run(f"{view} </dev/null 2>&1 | grep -c 'are not a terminal'")
        assert done.output != "0"


def test_other_keys_may_be_chosen(screen: Screen, run_dir: Path) -> None:
    with served(run_dir, "/usr/bin/bash", "-c", "stty raw -echo; echo ready; od -An -tx1 -v"):
        before = attach(screen, run_dir, "1011")
        screen.wait("ready")
        for key in ("C-]", "C-p", "x", "C-p", "C-q"):
            screen.press(key)
        assert "Detached()" in screen.done(before).output


@pytest.mark.parametrize(
    ("keys", "typed", "passed", "detached"),
    [
        (DETACH, [b"abc"], b"abc", False),
        (DETACH, [b"ab\x1dc"], b"ab", True),
        (DETACH, [b"\x1b[93;5u"], b"", True),
        (DETACH, [b"x\x1b[93;69:1u"], b"x", True),
        (DETACH, [b"\x1b[27;5;93~"], b"", True),
        (DETACH, [b"\x1b[93;5:3u\x1b[93;2u]"], b"\x1b[93;5:3u\x1b[93;2u]", False),
        (b"\x10\x11", [b"\x10", b"\x11"], b"", True),
        (b"\x10\x11", [b"a\x10", b"b\x10", b"\x10\x11"], b"a\x10b\x10", True),
        (b"\x10\x11", [b"\x10", b"x"], b"\x10x", False),
        (b"\x10\x11", [b"\x1b[112;5u", b"\x1b[113;5u"], b"", True),
        (b"~.", [b"~", b"~."], b"~", True),
    ],
)
def test_the_keys_are_found_however_they_come(
    keys: bytes, typed: list[bytes], passed: bytes, detached: bool
) -> None:
    finder = DetachKey(keys)
    results = [finder.feed(each) for each in typed]
    assert b"".join(data for data, _ in results) == passed
    assert [found for _, found in results] == [False] * (len(typed) - 1) + [detached]


def test_keys_are_said_as_a_person_would() -> None:
    assert (said(DETACH), said(b"\x10\x11"), said(b"~.")) == ("Ctrl-]", "Ctrl-P Ctrl-Q", "~ .")
