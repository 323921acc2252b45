"""Runs as a person at a terminal has them: streamed, detached, attached, entered, stopped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interactive.screen import Screen
from tests.interactive.watching import gone, long_sleep, running

SETTINGS = "git config --global user.name Ann; git config --global user.email ann@example.org"


@pytest.fixture
def project(screen: Screen) -> Screen:
    """In a repository, with a state folder of its own."""
    screen.prompt()
    screen.run(f"export AGS_HOME=$PWD/state; {SETTINGS}; mkdir project; cd project")
    screen.run("git init -q -b main; echo one > file; git add .; git commit -qm first; clear")
    return screen


def test_a_streamed_run_shows_what_it_does_and_what_to_do_next(project: Screen) -> None:
    done = project.run("ags start try --agent shell 'echo working; echo two >> file'")
    assert done.code == 0
    for words in ("working", "try: done", "+1 −0 in 1 file", "ags diff try", "ags apply try"):
        assert words in done.output, done.output
    shown = project.run("ags diff try | cat").output
    assert "modified file (+1 −0)" in shown and "+two" in shown
    assert project.run("ags apply try; cat file; ags undo try; cat file").output.count("two") == 1


def test_a_taken_name_and_a_bad_one_are_refused(project: Screen) -> None:
    project.run("ags start try --agent shell true")
    taken = project.run("ags start try --agent shell true")
    assert taken.code == 1 and "ags rm try" in taken.output
    bad = project.run("ags start 'No Name' --agent shell true")
    assert bad.code == 1 and "not a name for a run" in bad.output


def test_ctrl_c_stops_a_run_in_order_and_keeps_what_it_did(project: Screen) -> None:
    nap = long_sleep()
    before = project.prompt()
    project.enter(f"ags start try --agent shell 'echo made > made; trap \"echo bye\" TERM; {nap}'")
    running(nap)
    project.press("C-c")
    done = project.done(before)
    assert done.code == 130 and "try: stopped" in done.output and "+1 −0 in 1 file" in done.output
    assert "made" in project.run("git show agent--try --stat | cat").output
    gone(nap)


def test_processors_that_nobody_limits_are_told(project: Screen) -> None:
    done = project.run("ags start try --agent shell --cpus 1.5 true")
    assert done.code == 0
    held = project.run("ags show try | grep -o 'held by rlimits'").code == 0
    assert ("processors are not limited to 1.5 here" in done.output) == held


def test_a_second_ctrl_c_does_not_wait(project: Screen) -> None:
    nap = long_sleep()
    before = project.prompt()
    project.enter(
        f"ags start try --agent shell 'trap \"\" TERM HUP; {nap} & while :; do wait; done'"
    )
    running(nap)
    project.press("C-c")
    project.wait("Ctrl-C again ends it at once")
    project.press("C-c")
    done = project.done(before)
    assert "ending it at once" in done.output and "try: stopped" in done.output
    gone(nap)


def test_a_run_outlives_the_terminal_it_was_started_from(project: Screen) -> None:
    nap = long_sleep()
    says = "echo made > made; echo said-$((6*7))"
    project.run(f"ags start try --agent shell --detach '{says}; {nap}'")
    running(nap)
    before = project.prompt()
    project.enter("ags logs -f try")
    project.wait("said-42")
    project.press("C-c")
    project.done(before)
    running(nap)
    assert re.search(r"try +running", project.run("ags list").output)
    assert project.run("ags stop try").code == 0
    assert re.search(r"try +stopped", project.run("ags list").output)
    gone(nap)


def test_a_session_is_left_and_found_again(project: Screen) -> None:
    before = project.prompt()
    project.enter("ags --agent shell --name here -- --norc")
    project.wait(r"bash-[0-9.]+[$] *\Z")
    project.enter("echo again-$((6*7)); echo two >> file; git commit -qam agents")
    project.wait("^again-42$")
    project.press("C-]")
    assert "detached; `ags attach here` comes back" in project.done(before).output
    assert re.search(r"here +running", project.run("clear; ags list").output)
    before = project.prompt()
    project.enter("ags attach here")
    project.wait(r"bash-[0-9.]+[$] *\Z")
    project.enter("exit 3")
    done = project.done(before)
    assert done.code == 3 and "here: failed (exit code 3)" in done.output
    assert "agents" in project.run("git log --oneline | cat; ags diff here | cat").output
    project.run("ags undo here")
    assert project.run("cat file; git status --short").output == "one"


def test_a_shell_beside_the_agent_sees_what_it_sees(project: Screen) -> None:
    nap = long_sleep()
    project.run(f"ags start try --agent shell --detach 'echo secret > /tmp/agents; {nap}'")
    running(nap)
    before = project.prompt()
    project.enter("ags shell try")
    project.wait(r"[$] *\Z")
    project.enter("cat /tmp/agents; ls /proc/[0-9]*/exe | wc -l; touch from-shell; exit 5")
    done = project.done(before)
    assert done.code == 5 and re.search("^secret$", done.output, re.MULTILINE)
    assert project.run("ags stop try").code == 0
    assert "from-shell" in project.run("git show agent--try --stat | cat").output
    refused = project.run("ags shell try")
    assert refused.code == 1 and "it is stopped" in refused.output


def test_a_run_without_a_terminal_says_how_to_follow_it(project: Screen) -> None:
    nap = long_sleep()
    project.run(f"ags start try --agent shell --detach '{nap}'")
    running(nap)
    refused = project.run("ags attach try")
    assert refused.code == 1 and "ags logs -f try" in refused.output
    project.run("ags stop --now try")
    gone(nap)


def test_what_an_agent_prints_is_not_obeyed_by_the_terminal(project: Screen) -> None:
    hostile = r"printf \"\\033]0;owned\\007\\033[2J\\033[31mred\\n\""
    done = project.run(f'ags start try --agent shell "{hostile}"')
    assert "try: done" in done.output
    project.run("clear")
    shown = project.run("ags logs try").output
    assert "red" in shown and "[2J" in shown
    assert "owned" not in project.tmux("display-message", "-p", "#{pane_title}")


def test_the_demo_shows_everything(screen: Screen, workspace: Path) -> None:
    screen.prompt()
    done = screen.run("AGS_HOME=$PWD/state ags demo")
    assert done.code == 0
    for words in (
        "not there: this home is empty",
        "send your code to collector.example: refused by the policy",
        "What was blocked",
        "What changed",
        '+    return f"Hello, {name}!"',
        "added test_greet.py",
        "ags apply demo",
    ):
        assert words in done.output, done.output
    assert "READ YOUR KEYS" not in done.output and "REACHED" not in done.output


def test_arguments_pass_through_without_a_terminal(project: Screen) -> None:
    done = project.run(
        "ags --agent shell -- -lc 'echo passed; exit 4' | cat; echo ${PIPESTATUS[0]}"
    )
    assert "passed" in done.output and done.output.endswith("4")
