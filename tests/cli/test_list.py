"""`ags list` as a person reads it, and as a script does."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from ags import runs
from ags.cli.list import NEWEST
from ags.model import Weakening
from ags.paint import cells
from ags.runs import Applied, Result
from tests.cli.desk import HOSTILE, Desk, is_harmless
from tests.people import ROOT
from tests.runs.examples import create

KEYS = [
    "id", "name", "state", "asking", "agent", "goal", "mode", "client", "group", "project",
    "branch", "created", "started", "ended", "exit_code", "stopped_by", "weakenings", "files",
    "insertions", "deletions", "applied",
]  # fmt: skip


def test_without_runs_it_says_how_to_start_one(desk: Desk) -> None:
    said = desk.ags("list")
    assert (said.code, said.out, said.err) == (0, 'no runs yet: `ags start NAME "GOAL"`\n', "")
    assert not desk.state.exists()


def test_a_run_is_one_aligned_line_newest_first(desk: Desk) -> None:
    desk.record("older", state="failed")
    at = runs.now()
    desk.record(
        "the-newer-one",
        goal="first line\nsecond line",
        result=Result("a" * 40, 2, 10, 3),
        applied=(Applied("merge", "refs/heads/main", "b" * 40, "c" * 40, at),),
    )
    heads, newer, older = desk.ags("list").out.splitlines()
    assert newer.split("  ")[0] == "the-newer-one" and older.startswith("older ")
    for text, line in (("done", newer), ("failed", older)):
        assert line.index(text) == heads.index("STATE")
    assert "+10 −3 in 2 files  applied  first line" in newer
    assert "second line" not in newer


def test_an_undone_apply_is_not_marked(desk: Desk) -> None:
    at = runs.now()
    once = Applied("merge", "refs/heads/main", "b" * 40, "c" * 40, at)
    desk.record("kept", applied=(once,))
    desk.record("taken-back", applied=(replace(once, undone=at),))
    lines = desk.ags("list").out.splitlines()[1:]
    marked = {line.split()[0]: " applied " in line for line in lines}
    assert marked == {"kept": True, "taken-back": False}


def test_a_weakened_run_says_so(desk: Desk) -> None:
    desk.record("open", weakenings=(Weakening("ptrace", "asked for"),))
    desk.record("closed")
    lines = {line.split()[0]: line for line in desk.ags("list").out.splitlines()[1:]}
    assert "weakened: make the log-in work" in lines["open"]
    assert "weakened" not in lines["closed"]


def test_nothing_in_a_goal_is_obeyed_by_the_terminal(desk: Desk) -> None:
    desk.record(goal=f"{HOSTILE} tail")
    code, shown = desk.on_terminal("list")
    assert code == 0 and is_harmless(shown)
    assert "\\x1b]0;owned\\x07" in shown


def test_a_goal_is_cut_to_the_terminal_also_if_its_characters_are_wide(desk: Desk) -> None:
    desk.record("latin", goal="x" * 300)
    desk.record("han", goal="漢" * 300)
    desk.record("marks", goal="e" + "\u0301" * 5000)
    _, shown = desk.on_terminal("list", env={"NO_COLOR": "1"})
    lines = shown.splitlines()
    assert all(cells(line) <= 100 for line in lines), lines
    assert sum(line.endswith("…") for line in lines) == 3
    assert all(len(line) < 500 for line in lines)


def test_colours_are_for_terminals_only_and_only_if_wanted(desk: Desk) -> None:
    desk.record()
    assert "\x1b[32m" in desk.on_terminal("list")[1]
    assert "\x1b[" not in desk.on_terminal("list", env={"NO_COLOR": "1"})[1]
    assert "\x1b[" not in desk.on_terminal("list", env={"TERM": "dumb"})[1]
    assert "\x1b[" not in desk.ags("list").out


def test_json_is_one_array_with_the_same_keys_for_every_run(desk: Desk) -> None:
    desk.record("half", state="failed", goal=f"not utf-8: \udcff {HOSTILE}")
    desk.record("whole", result=Result("a" * 40, 1, 2, 3))
    said = desk.ags("list", "--json")
    assert said.out.isascii() and is_harmless(said.out)
    whole, half = json.loads(said.out)
    assert list(whole) == list(half) == KEYS
    assert (whole["files"], whole["insertions"], whole["deletions"]) == (1, 2, 3)
    assert half["goal"].startswith("not utf-8: \\xff ")
    half["goal"].encode()
    assert half["created"][10] == "T" and half["created"].endswith("Z")


def test_json_without_runs_is_an_empty_array(desk: Desk) -> None:
    assert json.loads(desk.ags("list", "--json").out) == []


def names(desk: Desk, *arguments: str) -> list[str]:
    return sorted(run["name"] for run in json.loads(desk.ags("list", "--json", *arguments).out))


def test_filters_choose_by_state_agent_and_project(desk: Desk, tmp_path: Path) -> None:
    inner = desk.project.folder / "inner"
    (inner / "deep").mkdir(parents=True)
    desk.record("one", state="failed")
    desk.record("two")
    desk.record("three", state="stopped", agent="demo", project=inner)
    assert names(desk, "--state", "failed") == ["one"]
    assert names(desk, "--state", "failed", "--state", "done") == ["one", "two"]
    assert names(desk, "--agent", "demo") == ["three"]
    assert names(desk, "--project", str(desk.project.folder)) == ["one", "two"]
    assert names(desk, "--project", str(inner / "deep")) == ["three"]
    assert names(desk, "--project", str(tmp_path)) == []
    assert desk.ags("list", "--state", "queued").out.startswith("no such runs")


def test_a_state_that_does_not_exist_is_refused(desk: Desk) -> None:
    said = desk.ags("list", "--state", "asleep")
    assert said.code == 2 and "asleep" in said.err


def test_old_runs_are_counted_and_shown_with_all(desk: Desk) -> None:
    for number in range(NEWEST + 2):
        create(desk.state, f"run-{number}", state="done").close()
    shown = desk.ags("list").out.splitlines()
    assert len(shown) == 1 + NEWEST + 1 and shown[-1] == "2 older ones: `ags list --all`"
    assert len(desk.ags("list", "--all").out.splitlines()) == 1 + NEWEST + 2


def test_a_run_at_work_is_shown_however_old(desk: Desk) -> None:
    long_ago = runs.new_id(replace(runs.now(), wall=1.0))
    with create(desk.state, "first", state="running", id=long_ago):
        for number in range(NEWEST + 2):
            create(desk.state, f"run-{number}", state="done").close()
        shown = desk.ags("list").out.splitlines()
    assert shown[-2].startswith("first ") and "running" in shown[-2]


def test_a_damaged_run_is_named_below_and_hides_no_other(desk: Desk) -> None:
    bad, good = desk.record("bad"), desk.record("good")
    (desk.state / "runs" / bad.id / "run.json").write_text("{")
    said = desk.ags("list")
    lines = said.out.splitlines()
    assert lines[1].startswith(good.name) and lines[-1].startswith(f"damaged: run {bad.id}")
    said = desk.ags("list", "--json")
    assert [run["name"] for run in json.loads(said.out)] == ["good"]
    assert f"ags: note: damaged: run {bad.id}" in said.err


def test_a_run_whose_supervisor_is_gone_is_interrupted_and_the_person_hears_of_it(
    desk: Desk,
) -> None:
    desk.record("lost", state="running")
    said = desk.ags("list")
    assert "interrupted" in said.out
    assert said.err.startswith("ags: note: lost was interrupted")
    assert desk.ags("list").err == ""


_CALL = "import sys; sys.path.insert(0, sys.argv.pop(1))\nfrom ags.cli.main import main; main()"


def test_listing_loads_nothing_heavy(desk: Desk) -> None:
    desk.record()
    script = f"{_CALL}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        (sys.executable, "-I", "-c", script, str(ROOT / "src"), "list"),
        env=desk.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"rich", "asyncio", "ags.engine", "ags.workspace.git", "ags.backends"}
    assert not heavy & set(done.stderr.split())
