"""Much, fast, or odd: every byte arrives, in order, in both directions."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from ags.cli.terminal import ASK
from tests.cli.callers import as_user
from tests.interactive.line import line
from tests.interactive.screen import Screen
from tests.interactive.watching import caller, eventually, gone, long_sleep, processes, running
from tests.people import Person

MIB = 1 << 20

# Titles, colours, cursor moves, mouse and paste modes, questions a terminal would answer, unended
# sequences of every kind, a changed character set, a reset; and bytes that are no text at all.
HOSTILE = (
    b"\x1b]0;title\x07\x1b]52;c;cGF3bmVk\x07\x1b[31m\x1b[2J\x1b[999;999H\x1b[?1000h\x1b[?2004h"
    b"\x1b[6n\x1b[c\x05\x1b(0\x0e\x1bc\x1bP+q544e\x1b\\\x9b31m\x1b[?1049h\x1b[>4;2m"
    b"\x00\x04\x11\x13\x1a\x7f\xff\xfe\xc3\x28\xed\xa0\x80\xf8\x88\r\r\n\x1b[\x1b]\x1bP"
)


@as_user
def test_twenty_megabytes_of_output_arrive_whole_and_in_order(
    person: Person, workspace: Path
) -> None:
    lines = [f"{number:08} {'x' * 90}" for number in range(20 * MIB // 100)]
    (workspace / "big").write_text("\n".join(lines) + "\n")
    with line(person, workspace, "--", "cat", "big") as terminal:
        received = terminal.read_all()
        assert terminal.process.wait() == 0
    assert received == "".join(f"{each}\r\n" for each in lines).encode()


def test_hostile_bytes_pass_unchanged_and_do_no_harm(person: Person, workspace: Path) -> None:
    odd = HOSTILE + random.Random(7).randbytes(200_000) + HOSTILE
    (workspace / "odd").write_bytes(odd)
    with line(person, workspace, "--", "sh", "-c", "stty -opost; cat odd; exit 9") as terminal:
        # There are questions among them, so a last one of ours follows.
        assert terminal.read_all() == odd + ASK
        assert terminal.process.wait() == 9


@as_user
def test_every_byte_can_be_typed(person: Person, workspace: Path) -> None:
    keys = bytes(range(256))
    script = "stty raw -echo; echo ready; head -c 256 >typed"
    with line(person, workspace, "--", "sh", "-c", script) as terminal:
        terminal.read_until(lambda received: b"ready" in received)
        terminal.write(keys)
        terminal.read_all()
    assert (workspace / "typed").read_bytes() == keys


def test_what_is_typed_while_output_floods_is_heard(person: Person, workspace: Path) -> None:
    script = 'yes & read line; kill %1; wait; echo "heard <$line>"'
    with line(person, workspace, "--", "bash", "-c", script) as terminal:
        terminal.read_until(lambda received: len(received) > MIB)
        terminal.write(b"stop\n")
        assert b"heard <stop>" in terminal.read_all()[-1000:]


def test_control_c_stops_a_flood(screen: Screen) -> None:
    screen.sandbox()
    before = screen.prompt("in")
    screen.enter("yes")
    running("yes", has_terminal=True)
    screen.wait(r"^y\ny$")
    screen.press("C-c")
    assert screen.done(before, "in").code == 130


@as_user
@pytest.mark.parametrize("mode", ["cooked", "raw"])
def test_a_large_paste_arrives_whole(screen: Screen, workspace: Path, mode: str) -> None:
    between = "\n" if mode == "cooked" else " "
    text = between.join(f"{number:05} {'paste' * 12}" for number in range(1600)) + between
    assert len(text) > 100_000
    settings = "" if mode == "cooked" else "stty raw -echo;"
    before = screen.prompt()
    screen.enter(f"ags exec -- sh -c '{settings} echo ready; head -c {len(text)} >pasted'")
    screen.wait("^ready$")
    screen.tmux("load-buffer", "-", ";", "paste-buffer", "-r", input=text)
    assert screen.done(before).code == 0
    assert (workspace / "pasted").read_text() == text


def test_a_terminal_that_shows_nothing_more_does_not_hold_up_the_rest(
    person: Person, workspace: Path
) -> None:
    mark = long_sleep()
    with line(person, workspace, "--", "bash", "-c", f"{mark} & exec yes") as terminal:
        running(mark)
        ags = caller(mark)
        # Nobody reads on our side: once there is room nowhere, all stand still.
        eventually(
            lambda: True if _stands_still(ags.pid) else None, "standstill", lambda: processes(mark)
        )
        os.kill(ags.pid, signal.SIGTERM)
        gone(mark, alone=True)
        terminal.hang_up()
        gone(mark)


def _stands_still(pid: int) -> bool:
    """Whether the process needs no time at all for a while."""
    before = _time(pid)
    time.sleep(0.5)
    return _time(pid) == before


def _time(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
