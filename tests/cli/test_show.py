"""`ags show`: everything about one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ags import runs
from ags.cli.show import limits, next_steps
from ags.config.schema import MountConfig
from ags.model import GIB, Limits, Weakening
from ags.runs import Applied, Mount, Order, Result, Run
from tests.cli.desk import HOSTILE, Desk, is_harmless
from tests.runs.examples import example

SECRET = "canary-3f9a"


def shown(desk: Desk, name: str = "fix-login") -> dict[str, list[str]]:
    """By label; a label may come more than once."""
    said = desk.ags("show", name)
    assert said.code == 0, said.err
    found: dict[str, list[str]] = {}
    label = ""
    for line in said.out.splitlines()[1:]:
        label = line[:11].strip() or label
        found.setdefault(label, []).append(line[11:])
    return found


def test_processors_are_no_limit_where_nobody_holds_it(desk: Desk) -> None:
    desk.finished(limits=Limits(memory=2 * GIB, cpus=1.5), limited_by="rlimits")
    (told,) = shown(desk)["limits"]
    assert told.startswith("2 GiB of memory, 4096 processes") and "processors" not in told


def test_everything_is_told(desk: Desk) -> None:
    at = runs.now()
    run = desk.finished(
        workspace=True,
        goal="make the log-in work\nand test it",
        exit_code=3,
        stopped_by="stopped by you",
        limits=Limits(memory=2 * GIB, cpus=1.5, timeout=90),
        limited_by="cgroup v2",
        weakenings=(Weakening("ptrace", "processes inside may debug one another"),),
        notes=("one thing", "another"),
        applied=(Applied("merge", "refs/heads/main", "b" * 40, "c" * 40, at, undone=at),),
    )
    desk.log(run, ("message", {"text": "hello"}))
    (desk.state / "runs" / run.id / "result.patch").write_text("")
    said = desk.ags("show", "fix-login").out
    assert said.splitlines()[0] == "fix-login  done"
    found = shown(desk)
    assert found["goal"] == ["make the log-in work", "and test it"]
    assert found["agent"] == ["shell, in a workspace of its own"]
    assert found["project"] == [str(desk.project.folder)]
    assert found["base"] == [run.base] and found["branch"] == ["agent--fix-login"]
    assert found["exit code"] == ["3"] and found["stopped by"] == ["you"]
    assert found["limits"][0].startswith("2 GiB of memory, 1.5 processors, 4096 processes")
    assert found["limits"][0].endswith("; held by cgroup v2")
    assert found["weakened"] == ["ptrace: processes inside may debug one another"]
    assert found["note"] == ["one thing", "another"]
    assert run.result and found["result"] == [f"+1 −0 in 1 file, commit {run.result.commit}"]
    assert found["applied"][0].startswith("merge to main (bbbbbbbbbbbb → cccccccccccc)")
    assert "; undone " in found["applied"][0]
    folder = desk.state / "runs" / run.id
    assert found["workspace"] == [str(desk.state / "worktrees" / "fix-login")]
    assert found["log"] == [str(folder / "events.jsonl")]
    assert found["patch"] == [str(folder / "result.patch")]
    assert found["next"] == ["ags diff fix-login", "ags apply fix-login", "ags restart fix-login"]


def test_what_a_run_was_given_is_told_but_not_the_values_of_variables(desk: Desk) -> None:
    order = Order(
        arguments=("--model", "x"),
        environment=(("TOKEN", SECRET), ("PLAIN", "1")),
        mounts=(Mount("--mount-rw", MountConfig(host=Path("/data"), mode="rw")),),
    )
    desk.record(order=order)
    found = shown(desk)
    assert found["variables"] == ["TOKEN, PLAIN"] and found["arguments"] == ["--model x"]
    assert found["mount"] == ["--mount-rw /data (rw)"]
    as_text, as_json = desk.ags("show", "fix-login").out, desk.ags("show", "--json", "fix-login")
    assert SECRET not in as_text + as_json.out
    assert json.loads(as_json.out)["order"]["environment"] == ["TOKEN", "PLAIN"]


def test_json_is_the_record(desk: Desk) -> None:
    run = desk.finished(goal=f"{HOSTILE}\udcff")
    said = desk.ags("show", "--json", "fix-login")
    assert said.out.isascii()
    found = json.loads(said.out)
    assert found["id"] == run.id and found["state"] == "done"
    assert run.result is not None
    assert found["result"] == {"commit": run.result.commit, "files": 1, "insertions": 1,
                               "deletions": 0}  # fmt: skip
    found["goal"].encode()


def test_nothing_in_a_record_is_obeyed_by_the_terminal(desk: Desk) -> None:
    desk.record(
        goal=f"goal {HOSTILE}",
        notes=(f"note {HOSTILE}\nags: pretends to be ours",),
        stopped_by=HOSTILE,
        weakenings=(Weakening(HOSTILE, HOSTILE),),
        branch=f"agent--{HOSTILE}",
        order=Order(arguments=(HOSTILE,), environment=((HOSTILE, ""),)),
    )
    code, screen = desk.on_terminal("show", "fix-login")
    assert code == 0 and is_harmless(screen)
    assert not any(line.startswith("ags: ") for line in screen.splitlines())


@pytest.mark.parametrize("name", ["nobody", "../etc", "-x", "", "A", "x" * 500, "a\nb\x1b[2J"])
def test_a_name_that_is_no_runs_is_refused(desk: Desk, name: str) -> None:
    desk.record()
    said = desk.refused("show", "--", name)
    assert is_harmless(said) and "there is no run of this name" in said


def test_a_run_can_be_named_by_its_id(desk: Desk) -> None:
    assert desk.ags("show", desk.record().id).out.startswith("fix-login  done\n")


def test_limits_that_are_not_set_are_not_told() -> None:
    nothing = Limits(pids=None, file_size=None, open_files=None, disk_free=None, memory_free=None)
    assert limits(nothing) == "none"


AT = runs.now()
DONE = Result("a" * 40, 1, 1, 1)
APPLIED = Applied("merge", "refs/heads/main", "b" * 40, "c" * 40, AT)


@pytest.mark.parametrize(
    ("run", "verbs"),
    [
        (example(state="running"), ["logs", "stop"]),
        (example(state="done", result=DONE), ["diff", "apply", "restart"]),
        (example(state="done", result=DONE, applied=(APPLIED,)), ["undo", "diff", "rm"]),
        (example(state="done", result=Result("a" * 40, 0, 0, 0)), ["logs", "restart", "rm"]),
        (example(state="failed"), ["logs", "restart", "rm"]),
        (
            example(state="interrupted", started=AT, workspace=Path("/w")),
            ["diff", "logs", "restart"],
        ),
        (example(state="done", result=DONE, mode="inplace"), ["diff"]),
        (
            example(state="done", result=DONE, mode="inplace", applied=(APPLIED,)),
            ["undo", "diff", "rm"],
        ),
    ],
)
def test_what_to_do_next_fits_the_state(run: Run, verbs: list[str]) -> None:
    assert [step.split()[1] for step in next_steps(run)] == verbs
