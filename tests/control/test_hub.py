"""Terminals that outlive those who look at them: real programs on a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from ags.control import hub
from ags.control.hub import MOST_WAITING
from ags.control.wire import Ended, Size
from tests.control.scene import LARGE, SMALL, Raw, looker, play, session, stage, until
from tests.interactive.watching import long_sleep, running

BASH = ("/usr/bin/bash", "--norc", "--noprofile", "--noediting")
MIB = 1 << 20
FLOOD = f"head -c {100 * MIB} /dev/zero | tr '\\0' x | fold -w 79; echo over"

# Draws its size on the alternate screen at the start and whenever it is told of a new one.
FULL_SCREEN = """
import curses
def main(screen):
    curses.curs_set(0)
    while True:
        screen.erase()
        screen.addstr(0, 0, "drawn at %dx%d" % screen.getmaxyx())
        screen.refresh()
        if screen.getch() == ord("q"):
            return
curses.wrapper(main)
"""
CURSES = (sys.executable, "-c", FULL_SCREEN)


def test_what_is_typed_arrives_and_what_is_printed_is_shown(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, BASH) as on, looker(tmp_path) as me:
            await me.look(b"in> ")
            await me.enter("echo $((6 * 7)); exit 3")
            await me.look(b"\n42\r\n")
            assert await on.end() == 3
            assert await me.end() == Ended(3)

    play(scene())


def test_a_program_goes_on_when_the_last_viewer_leaves(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, BASH) as on:
            async with looker(tmp_path) as me:
                await me.look(b"in> ")
                await me.enter("value=kept")
            await until(lambda: on.hub.viewers == 0, "nobody looks")
            async with looker(tmp_path) as me:
                await me.enter("echo $value")
                await me.look(b"kept\r\n")

    play(scene())


def test_two_viewers_see_the_same_and_both_may_type(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, BASH), looker(tmp_path) as one, looker(tmp_path) as two:
            await one.enter("echo from $((0 + 1))")
            await two.look(b"from 1\r\n")
            await two.enter("echo from $((1 + 1))")
            await one.look(b"from 1\r\n(.|\r|\n)*from 2\r\n")

    play(scene())


def test_who_comes_later_sees_the_last_lines(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, BASH) as on:
            async with looker(tmp_path) as me:
                await me.enter("seq 5000")
                await me.look(b"\n5000\r\n")
            async with looker(tmp_path) as me:
                await me.look(b"\n4999\r\n5000\r\n")
                assert on.logged > 5000

    play(scene())


def test_a_full_screen_program_draws_itself_for_who_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MOST_NUDGES", 600)  # the other size stays until it was drawn

    async def scene() -> None:
        async with stage(tmp_path, CURSES):
            async with looker(tmp_path) as me:
                await me.look(b"4x80")  # of a line that it may draw in part
            async with looker(tmp_path) as me:
                await me.look(rb"\x1b\[\?1049h")  # their terminal was never told
                await me.look(rb"3x80(.|\r|\n)*4x80")
            async with looker(tmp_path, LARGE) as me:
                await me.look(rb"39x120(.|\r|\n)*40")

    play(scene())


def test_a_program_on_the_main_screen_is_told_to_draw_as_well(tmp_path: Path) -> None:
    async def scene() -> None:
        script = "trap 'echo size $(stty size)' WINCH; while :; do sleep 0.01; done"
        async with stage(tmp_path, ("/usr/bin/bash", "-c", script)):
            async with looker(tmp_path) as me:
                await me.look(b"size 24 80")
            # On a busy machine it may look only when its size is the old one again.
            for _ in range(5):
                async with looker(tmp_path) as me:
                    await me.quiet(3)
                    if b"size 23 80\r\nsize 24 80" in me.shown:
                        return
            raise AssertionError("it was never shown the other size")

    play(scene())


# Notices only the second time that it is told of another size, and anew after each line it reads.
MISSES = """
import os, signal, sys
count, missed = 0, False
def told(*_):
    global missed
    if missed:
        os.write(1, b"%d: size %d\\n" % (count, os.get_terminal_size().lines))
    missed = True
signal.signal(signal.SIGWINCH, told)
print("ready", flush=True)
while sys.stdin.readline():
    count, missed = count + 1, False
    print("armed", flush=True)
"""


def test_a_program_that_has_missed_the_other_size_is_told_anew(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, (sys.executable, "-c", MISSES)) as on, looker(tmp_path) as me:
            await me.look(b"ready")
            await until(lambda: on.hub._settling is None, "the size has settled")
            await me.enter("")
            await me.look(b"armed")
            async with looker(tmp_path) as late:
                await late.look(b"1: size 23")

    play(scene())


def test_less_can_be_left_and_found_again(tmp_path: Path) -> None:
    async def scene() -> None:
        text = tmp_path / "text"
        text.write_text("".join(f"row {number}\n" for number in range(1000)))
        async with stage(tmp_path, BASH):
            async with looker(tmp_path) as me:
                await me.enter(f"less {text}")
                await me.look(b"row 22")
                await me.seen.type(b"G")
                await me.look(b"row 999")
            async with looker(tmp_path) as me:
                await me.look(b"row 999")
                await me.seen.type(b"q")
                await me.look(rb"\x1b\[\?1049l")
            async with looker(tmp_path) as me:
                await me.look(b"in> ")
                assert b"row" not in me.shown

    play(scene())


def test_the_size_follows_who_last_came_resized_or_typed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, BASH) as on, looker(tmp_path, SMALL) as one:
            assert on.hub.size == SMALL
            async with looker(tmp_path, LARGE) as two:
                assert on.hub.size == LARGE
                await until(lambda: on.hub._settling is None, "the size has settled")
                await one.enter("stty size")
                await two.look(b"24 80\r\n")
                two.seen.resize(Size(50, 132))
                await until(lambda: on.hub.size == Size(50, 132), "resized")
                await two.enter("stty size")
                await two.look(b"50 132\r\n")
            await until(lambda: on.hub.size == SMALL, "the size of who is left")

    play(scene())


def test_a_question_to_the_terminal_is_answered_once(tmp_path: Path) -> None:
    async def scene() -> None:
        reads = (f"dd bs=1 count={count} 2>/dev/null | od -c" for count in (6, 1))
        script = f"stty raw -echo; printf 'ready\\n'; {'; '.join(reads)}; sleep 600"
        async with (
            stage(tmp_path, ("/usr/bin/bash", "-c", script)),
            looker(tmp_path) as one,
            looker(tmp_path) as two,
        ):
            await two.look(b"ready")
            await one.seen.type(b"\x1b[1;1R")
            await two.seen.type(b"\x1b[2;2R")
            await two.look(rb"0000000 033\s+\[\s+2\s+;\s+2\s+R\s+0000006")
            await one.seen.type(b"x")
            await two.look(rb"0000000\s+x\s")

    play(scene())


def test_control_c_reaches_the_program(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, BASH), looker(tmp_path) as me:
            await me.look(b"in> ")
            sleep = long_sleep()
            await me.enter(f"{sleep}; echo not here")
            # Sent while the shell is still busy starting it, it would reach the shell.
            await asyncio.to_thread(running, sleep, has_terminal=True)
            await me.seen.type(b"\x03")
            await me.look(b"in> ")
            await me.enter("echo code $?")
            await me.look(b"code 130\r\n")
            assert b"\nnot here" not in me.shown

    play(scene())


def test_a_hundred_megabytes_run_through_with_nobody_looking(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, ("/usr/bin/bash", "-c", FLOOD)) as on:
            assert await on.end() == 0
            assert on.logged > 100 * MIB
            async with looker(tmp_path) as late:
                assert await late.end() == Ended(0)
                assert late.shown.endswith(b"over\r\n")

    play(scene())


def resident() -> int:
    """Bytes of memory that this process has, whatever the tests before this one left."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_a_stuck_viewer_holds_up_neither_the_program_nor_the_others(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            stage(tmp_path, ("/usr/bin/bash", "-c", f"read; {FLOOD}; read")) as on,
            looker(tmp_path) as me,
        ):
            with Raw(tmp_path) as stuck:
                await stuck.send(b'{"do": "attach"}\n')
                await until(lambda: on.hub.viewers == 2, "both look")
                before = resident()
                await me.enter("")
                while not me.shown.endswith(b"over\r\n"):
                    await me.more()
                    me.shown = me.shown[-100:]
                assert on.logged > 100 * MIB
                assert resident() - before < 80 * MIB, "all of it would be more"
                # It is not shown the door: once it reads again, it is brought up to date.
                data = b""
                while not data.rstrip(b"\0").endswith(b"over\r\n"):
                    data = data[-MIB:] + await asyncio.to_thread(stuck.socket.recv, MIB)
                assert b"bytes of output were not shown here" in data

    play(scene())


def test_a_stuck_viewer_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, ("/usr/bin/bash", "-c", f"read; {FLOOD}")) as on:
            with Raw(tmp_path) as stuck:
                await stuck.send(b'{"do": "attach"}\ni\0\0\0\1\n')
                assert await on.child.wait() == 0
                await on.hub.finish(Ended(0))
                assert await stuck.closed()

    play(scene())


def test_what_waits_for_a_stuck_viewer_is_bounded(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, ("/usr/bin/bash", "-c", f"read; {FLOOD}; read")) as on:
            with Raw(tmp_path) as stuck:
                await stuck.send(b'{"do": "attach"}\ni\0\0\0\1\n')
                await until(lambda: on.logged > 102 * MIB, "all is out")
                received, data = 0, b""
                while not data.rstrip(b"\0").endswith(b"over\r\n"):
                    data = data[-100:] + (more := await asyncio.to_thread(stuck.socket.recv, MIB))
                    received += len(more)
                assert MOST_WAITING < received < 4 * MOST_WAITING

    play(scene())


def test_a_large_paste_waits_for_the_program_and_arrives_whole(tmp_path: Path) -> None:
    async def scene() -> None:
        pasted = "".join(f"{number:07}\n" for number in range(100_000)).encode()
        script = f"stty raw -echo; echo ready; sleep 0.5; head -c {len(pasted)} >{tmp_path}/got"
        async with stage(tmp_path, ("/usr/bin/bash", "-c", script)) as on, looker(tmp_path) as me:
            await me.look(b"ready")
            await me.seen.type(pasted)
            assert await on.end() == 0
        assert (tmp_path / "got").read_bytes() == pasted

    play(scene())


def test_a_program_that_reads_nothing_can_still_be_looked_at_and_left(tmp_path: Path) -> None:
    async def scene() -> None:
        script = "stty raw -echo; echo ready; sleep 1000"
        command = ("/usr/bin/bash", "-c", script)
        async with stage(tmp_path, command) as on:
            async with looker(tmp_path) as me:
                await me.look(b"ready")  # until then the terminal drops what does not fit a line
            with Raw(tmp_path) as full:
                await full.send(b'{"do": "attach"}\n')
                full.socket.settimeout(0.5)
                with pytest.raises(TimeoutError):
                    await full.send((b"i\0\1\0\0" + b"x" * 65536) * 64)
                async with looker(tmp_path, LARGE):
                    await until(lambda: on.hub.size == LARGE, "another may come")
                await until(lambda: on.hub.viewers == 1, "and go")
            await until(lambda: on.hub.viewers == 0, "as may the first")

    play(scene())


def test_the_end_is_told_with_its_reason(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, BASH) as on, looker(tmp_path) as me:
            await me.look(b"in> ")
            for pid in session(on.child.pid):
                os.kill(pid, signal.SIGKILL)
            await on.child.wait()
            await on.hub.finish(Ended(137, "the memory limit was reached"))
            assert await me.end() == Ended(137, "the memory limit was reached")

    play(scene())


def test_a_supervisor_that_vanishes_is_an_end_too(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stage(tmp_path, BASH) as on, looker(tmp_path) as me:
            await me.look(b"in> ")
            await on.control.close()
            assert await me.end() == Ended(None, "the run is not at work any more")

    play(scene())
