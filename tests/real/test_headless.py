"""A goal given to each of the five, from the command line to the branch."""

from __future__ import annotations

import re

from tests.models import Say, Think
from tests.models.script import INPUT_TOKENS, OUTPUT_TOKENS
from tests.real.stage import Stage, holding


def play(stage: Stage) -> None:
    """It thinks, writes, runs, is refused a host and a path, and says so."""
    stage.script.extend(
        [
            (Think("Let me see."), Say("I write."), stage.write("new.txt", "hello\n")),
            stage.run("cat new.txt; env; echo ran > ran.txt"),
            stage.run("curl -sS -m 90 https://elsewhere.example/x"),
            stage.run("cat ~/.ssh/id_rsa"),
            Say("All done."),
        ]
    )
    done = stage.start("try", "write a file")
    assert done.returncode == 0, done.stdout + done.stderr + stage.told()


def test_an_agent_works_behind_the_fence_and_its_key_stays_outside(stage: Stage) -> None:
    play(stage)
    run = stage.record()
    assert run.state == "done" and run.session and run.result is not None, stage.told()
    assert run.result.files == 2
    assert run.answer == "All done."
    assert stage.on_branch("new.txt") == "hello\n" and stage.on_branch("ran.txt") == "ran\n"
    shown = stage.ags("diff", "try").stdout
    assert "new.txt" in shown and "+hello" in shown
    _told_of_everything(stage)
    _readable(stage)
    _key_stayed_outside(stage)


def _told_of_everything(stage: Stage) -> None:
    said = "".join(each["text"] for each in stage.events("message") if not each.get("error"))
    assert said.replace("\n", "") == "I write.All done.", stage.told()
    calls, results = stage.events("tool_call"), stage.events("tool_result")
    assert [each["files"] for each in calls if "files" in each] == [
        [str(stage.state / "worktrees" / "try" / "new.txt")]
    ]
    printed = "\n".join(each["output"] for each in results)
    assert "hello" in printed and "ags_policy_refusal" in printed, stage.told()
    used = stage.events("usage")
    assert sum(each["output"] for each in used) >= OUTPUT_TOKENS
    assert sum(each["input"] for each in used) >= INPUT_TOKENS
    denied = [each for each in stage.events("hook") if each["decision"] == "deny"]
    assert [each["by"] for each in denied] == [["guard"]] and ".ssh" in denied[0]["reason"]
    refused = {each["host"] for each in stage.events("egress")}
    assert "elsewhere.example" in refused and "elsewhere.example" in stage.refused()
    # What stood in the way is told to the model, in words.
    assert "ags_policy_refusal" in stage.seen() and "credentials are kept" in stage.seen()


def _readable(stage: Stage) -> None:
    shown = stage.ags("logs", "try").stdout
    for words in ("I write.", "All done.", "new.txt", "tokens:", "elsewhere.example", "guard"):
        assert words in shown, shown
    assert not any(line.startswith("{") for line in shown.splitlines()), shown


def _key_stayed_outside(stage: Stage) -> None:
    maker = stage.maker
    asked = [each for each in stage.server.requests if "write a file" in str(each.asked)]
    assert asked and all(each.header(maker.header) == maker.sent for each in asked)
    stage.check_key_stayed_outside()
    # It was asked for its environment: what stands in the key's place is all over the run.
    instead = re.search(rf"{maker.variable}=([\w-]{{20,}})", stage.seen())
    assert instead and holding(instead[1], *stage.own_files)
