"""Programs that take the whole screen: its size, its colours, and all put back at the end."""

from __future__ import annotations

import re
from pathlib import Path

from tests.interactive.screen import Screen

TELLS_ITS_SIZE = """
import os, signal
def tell(*_):
    size = os.get_terminal_size()
    print(f"now {size.columns} by {size.lines}", flush=True)
signal.signal(signal.SIGWINCH, tell)
tell()
while True:
    signal.pause()
"""


def test_a_shell_knows_the_size_of_the_terminal_and_hears_of_a_new_one(screen: Screen) -> None:
    screen.sandbox()
    assert screen.run("stty size; tput cols", "in").output.split() == ["30", "100", "100"]
    screen.tmux("resize-window", "-x", "84", "-y", "22")
    # tmux is free to tell its programs a little later.
    screen.run("until [ $(tput cols) = 84 ]; do sleep 0.05; done", "in")
    assert screen.run("stty size; echo $COLUMNS", "in").output.split() == ["22", "84", "84"]


def test_a_program_gets_the_signal_of_a_new_size(screen: Screen, workspace: Path) -> None:
    (workspace / "size.py").write_text(TELLS_ITS_SIZE)
    screen.enter("ags exec -- python3 size.py")
    screen.wait("^now 100 by 30$")
    screen.tmux("resize-window", "-x", "84", "-y", "22")
    screen.wait("^now 84 by 22$")
    screen.press("C-c")
    screen.prompt(after=1)


def test_output_alone_on_the_terminal_has_its_size_too(screen: Screen) -> None:
    done = screen.run("true | ags exec -- sh -c 'stty size <&1'")
    assert done.output == "30 100"


def test_colours_are_as_many_as_the_terminal_has(screen: Screen, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    screen.run("export COLORTERM=truecolor")
    screen.sandbox()
    assert screen.run("echo $TERM $COLORTERM $(tput colors)", "in").output == (
        "screen-256color truecolor 256"
    )
    screen.run("ls --color=auto", "in")
    assert re.search(r"\x1b\[[0-9;]*34m\S*folder", screen.tmux("capture-pane", "-p", "-e"))
    screen.run(r"printf '\033[38;2;1;2;3mdeep\033[0m\n'", "in")
    assert re.search(r"38;2;1;2;3m\S*deep", screen.tmux("capture-pane", "-p", "-e"))


def test_vim_saves_a_file_and_leaves_the_screen_as_it_was(screen: Screen, workspace: Path) -> None:
    screen.run("echo $((10 * 10)) bottles")
    before = screen.prompt()
    screen.enter("ags exec -- vim --clean notes.txt")
    screen.wait("^~$", visible=True)
    assert screen.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"
    screen.type("i")
    screen.wait("INSERT", visible=True)
    screen.type("written inside")
    screen.press("Enter")
    screen.type("ütf-8 ✓")
    screen.press("Escape")
    screen.enter(":wq")
    assert screen.done(before).code == 0
    assert (workspace / "notes.txt").read_text() == "written inside\nütf-8 ✓\n"
    assert screen.tmux("display-message", "-p", "#{alternate_on}").strip() == "0"
    shown = screen.visible()
    assert "100 bottles" in shown and "written inside" not in shown


def test_vim_stops_and_comes_back(screen: Screen) -> None:
    screen.sandbox()
    before = screen.prompt("in")
    screen.enter("vim --clean notes.txt")
    screen.wait("^~$", visible=True)
    screen.press("C-z")
    assert "Stopped" in screen.done(before, "in").output
    before = screen.prompt("in")
    screen.enter("fg")
    screen.wait("^~$", visible=True)
    screen.enter(":q")
    assert screen.done(before, "in").code == 0


def test_tmux_runs_inside_with_panes_of_its_own(screen: Screen) -> None:
    before = screen.prompt()
    screen.enter("ags exec -- tmux -f /dev/null new-session -s nested")
    screen.wait(r"^\[nested\]", visible=True)
    screen.press("C-b", '"')
    screen.wait(r"─{90,}", visible=True)
    screen.enter("tmux list-panes -F 'pane #{pane_index} of #{session_name}'")
    screen.wait("^pane 1 of nested", visible=True)
    screen.tmux("resize-window", "-x", "70", "-y", "20")
    screen.enter("until [ $(tput cols) = 70 ]; do sleep 0.05; done; echo now $(tput cols)")
    screen.wait("^now 70$", visible=True)
    screen.enter("tmux kill-server")
    assert screen.done(before).code in (0, 1)  # "[server exited]", whichever it takes that for
    assert "exited" in screen.text()
