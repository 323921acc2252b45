"""The person's own hooks, asked by each of the five."""

from __future__ import annotations

import json
from pathlib import Path

from tests.models import Say
from tests.real.stage import Stage


def hook(stage: Stage, name: str, script: str) -> Path:
    folder = stage.settings / "hooks"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_hook_denies_a_command_and_another_is_told_of_the_end(stage: Stage) -> None:
    told = stage.place / "told"
    hook(stage, "pre-bash", "if grep -q forbidden; then echo 'not on a Monday' >&2; exit 2; fi")
    hook(stage, "post-stop", f"cat >> {told}")
    stage.script.extend(
        [
            stage.run("echo no > forbidden.txt"),
            stage.run("echo yes > allowed.txt"),
            Say("All done."),
        ]
    )
    done = stage.start("try", "write files")
    assert done.returncode == 0, done.stdout + done.stderr + stage.told()
    names = stage.project.ask("ls-tree", "--name-only", "agent--try").split()
    assert names == ["a.txt", "allowed.txt"]
    denied = [each for each in stage.events("hook") if each["decision"] == "deny"]
    assert [(each["by"], each["reason"]) for each in denied] == [(["pre-bash"], "not on a Monday")]
    assert "not on a Monday" in stage.seen()
    ends = [json.loads(line) for line in told.read_text().splitlines()]
    assert ends and {(each["hook_event_name"], each["agent"]) for each in ends} == {
        ("Stop", stage.agent)
    }
