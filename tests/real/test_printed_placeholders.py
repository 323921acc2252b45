"""Placeholders in the conversation: a printed environment does not stop an agent."""

from __future__ import annotations

import json
import re

from tests.models import Say
from tests.real.stage import Stage, holding

VALUE = "tracker-" + "Q7w" * 12
SETTINGS = """\
[[secret]]
name = "tracker"
from_file = "{path}"
env = "TRACKER_TOKEN"
host = "issues.example"
"""


def give_second_secret(stage: Stage) -> None:
    path = stage.home / "tracker.secret"
    path.write_text(VALUE)
    path.chmod(0o600)
    (stage.settings / "config.toml").write_text(SETTINGS.format(path=path))


def list_notes(stage: Stage) -> list[tuple[str, bool]]:
    lines = (stage.run_dir() / "egress.jsonl").read_text().splitlines()
    found = [each for each in map(json.loads, lines) if "placeholder" in each["reason"]]
    return [(each["reason"], each["allowed"]) for each in found]


def test_a_printed_environment_stops_neither_the_turn_nor_the_next(stage: Stage) -> None:
    give_second_secret(stage)
    stage.script.extend(
        [stage.run("env"), stage.write("new.txt", "hello\n"), Say("First is done.")]
    )
    done = stage.start("try", "print the environment")
    assert done.returncode == 0, done.stdout + done.stderr + stage.told()
    assert stage.record().answer == "First is done.", stage.told()
    assert stage.on_branch("new.txt") == "hello\n"
    assert list_notes(stage) == [("placeholder-passed", True)]
    before = len(stage.server.requests)
    stage.script.extend([stage.write("more.txt", "more\n"), Say("Second is done.")])
    told = stage.ags("tell", "try", "now write the second file")
    assert told.returncode == 0, told.stdout + told.stderr + stage.told()
    assert stage.on_branch("more.txt") == "more\n"
    printed = re.search(r"TRACKER_TOKEN=([\w-]{20,})", stage.seen())
    assert printed and printed[1] != VALUE
    again = [each.body.decode(errors="replace") for each in stage.server.requests[before:]]
    assert any(printed[1] in body for body in again), "the next turn repeats what was printed"
    assert list_notes(stage) == [("placeholder-passed", True)] * 2, "once in each turn"
    assert VALUE not in stage.seen()
    assert holding(VALUE, stage.project.folder, *stage.own_files) == []
    stage.check_key_stayed_outside()
