"""The person's own hooks, asked by each of the five."""

from __future__ import annotations

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

from tests.models import Say
from tests.real.stage import Stage


def hook(stage: Stage, name: str, script: str) -> Path:
    folder = stage.settings / "hooks"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


JUDGE = """
call=$(cat)
case $call in
*forbidden*) echo 'not on a Monday' >&2; exit 2 ;;
*careful*) echo '{"hookSpecificOutput":
    {"permissionDecision": "ask", "permissionDecisionReason": "sure?"}}' ;;
esac
"""


def allow(stage: Stage, under_way: Future[CompletedProcess[str]]) -> None:
    """As soon as a hook asks, at another terminal."""
    while not (asked := json.loads(stage.ags("asks", "--json").stdout)):
        assert not under_way.done(), stage.told()
        time.sleep(0.1)
    assert [(each["by"], each["reason"]) for each in asked] == [("pre-bash", "sure?")]
    assert "careful.txt" in asked[0]["about"]
    allowed = stage.ags("allow", asked[0]["id"])
    assert allowed.returncode == 0, allowed.stderr


def test_a_hook_denies_one_command_and_leaves_another_to_the_person(stage: Stage) -> None:
    told = stage.home / "told"
    hook(stage, "pre-bash", JUDGE)
    hook(stage, "post-stop", f"cat >> {told}")
    stage.script.extend(
        [
            stage.run("echo no > forbidden.txt"),
            stage.run("echo yes > allowed.txt"),
            stage.run("echo yes > careful.txt"),
            Say("All done."),
        ]
    )
    with ThreadPoolExecutor(1) as at_hand:
        under_way = at_hand.submit(stage.start, "try", "write files")
        allow(stage, under_way)
        done = under_way.result()
    assert done.returncode == 0, done.stdout + done.stderr + stage.told()
    names = stage.project.ask("ls-tree", "--name-only", "agent--try").split()
    assert names == ["a.txt", "allowed.txt", "careful.txt"]
    assert [each["outcome"] for each in stage.events("ask")] == ["asked", "once"]
    denied = [each for each in stage.events("hook") if each["decision"] == "deny"]
    assert [(each["by"], each["reason"]) for each in denied] == [(["pre-bash"], "not on a Monday")]
    assert "not on a Monday" in stage.seen()
    ends = [json.loads(line) for line in told.read_text().splitlines()]
    assert ends and {(each["hook_event_name"], each["agent"]) for each in ends} == {
        ("Stop", stage.agent)
    }
