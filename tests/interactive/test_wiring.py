"""Pipes, files and background jobs: who has the keyboard, and what arrives where."""

from __future__ import annotations

from pathlib import Path

from tests.interactive.screen import Screen
from tests.interactive.watching import gone, long_sleep, running


def test_a_pager_behind_the_run_keeps_the_keyboard(screen: Screen) -> None:
    before = screen.prompt()
    # `cat` would eat the keys, were they handed inside.
    screen.enter("ags exec -- sh -c 'seq 500; cat' | less")
    screen.wait("^1$", visible=True)
    screen.press("G")
    screen.wait("^500$", visible=True)
    screen.press("q")
    assert screen.done(before).code == 0


def test_asked_for_the_keyboard_goes_inside_in_front_of_a_pipe(screen: Screen) -> None:
    before = screen.prompt()
    screen.enter("ags exec -i -- sh -c 'read line; echo \"<$line>\"' | tr a-z A-Z")
    screen.enter("quiet")
    assert "<QUIET>" in screen.done(before).output.splitlines()


def test_input_from_a_pipe_and_output_on_the_terminal(screen: Screen) -> None:
    done = screen.run("printf 'one\\ntwo\\n' | ags exec -- sh -c 'test -t 1 && ! test -t 0 && cat'")
    assert (done.code, done.output) == (0, "one\ntwo")


def test_output_to_a_file_and_the_keyboard_inside(screen: Screen, workspace: Path) -> None:
    before = screen.prompt()
    script = 'printf "name? " >&2; read name; echo "hello $name"'
    screen.enter(f"ags exec -- sh -c '{script}' >greeting")
    screen.wait(r"^name\?$")
    screen.enter("you")
    assert screen.done(before).code == 0
    assert (workspace / "greeting").read_text() == "hello you\n"
    screen.wait(r"^name\? you$")


def test_output_and_errors_to_files_and_the_keyboard_inside(
    screen: Screen, workspace: Path
) -> None:
    before = screen.prompt()
    screen.enter("ags exec -- sh -c 'read name; echo $name; echo $name >&2' >out 2>err")
    screen.enter("you")
    assert screen.done(before).code == 0
    assert (workspace / "out").read_text() == (workspace / "err").read_text() == "you\n"


def test_a_run_in_the_background_goes_on_and_takes_no_key(screen: Screen, workspace: Path) -> None:
    script = "cat; echo begun; until [ -e go ]; do sleep 0.05; done; touch end"
    screen.run(f"ags exec -- sh -c '{script}' &")
    screen.wait("^(out-.*> )?begun$")
    screen.press("Enter")
    assert screen.run("echo $((6 * 7))").output == "42"
    assert "Running" in screen.run("jobs").output
    assert not (workspace / "end").exists()
    # In one line and by builtins: at a prompt, or after a program, bash forgets a job that is done.
    assert screen.run(": >go; wait %1").code == 0
    assert (workspace / "end").exists()


def test_control_c_reaches_a_piped_run_of_several_programs(screen: Screen) -> None:
    before = screen.prompt()
    sleep = long_sleep()
    screen.enter(f"true | ags exec -- sh -c '{sleep}; echo not reached' | cat")
    running(sleep)
    screen.press("C-c")
    assert "not reached" not in screen.done(before).output
    gone(sleep)


def test_control_z_stops_a_piped_run_and_fg_goes_on_with_it(
    screen: Screen, workspace: Path
) -> None:
    before = screen.prompt()
    sleep = long_sleep()
    script = f"{sleep} & until [ -e go ]; do sleep 0.05; done; kill %1; echo over"
    screen.enter(f"true | ags exec -- sh -c '{script}'")
    running(sleep)
    screen.press("C-z")
    assert "Stopped" in screen.done(before).output
    running(sleep, state="T")
    before = screen.prompt()
    screen.enter("fg")
    running(sleep)
    (workspace / "go").touch()
    done = screen.done(before)
    assert (done.code, done.output.splitlines()[-1]) == (0, "over")
    gone(sleep)


def test_a_run_in_a_script_has_the_terminal_as_the_script_has(
    screen: Screen, workspace: Path
) -> None:
    (workspace / "script.sh").write_text(
        "ags exec -- sh -c 'read a; echo got $a'\nread b\necho then $b\n"
    )
    before = screen.prompt()
    screen.enter("sh script.sh")
    screen.enter("one")
    screen.wait("^got one$")
    screen.enter("two")
    assert screen.done(before).output.splitlines()[-1] == "then two"
