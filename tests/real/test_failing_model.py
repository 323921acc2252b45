"""A model that refuses: the run has failed, with the agent's reason, whatever its exit code."""

from __future__ import annotations

import pytest

from tests.models import Fail
from tests.real.installed import AGENTS
from tests.real.stage import Stage

REASON = "the scripted model is out of order"
# It would try for minutes; and so do gemini and opencode, which cannot be told not to.
QUICKLY = {"claude": ("-e", "CLAUDE_CODE_MAX_RETRIES=1")}
OWN_WORDS = {("codex", 500): "high demand"}
"""What an agent says in place of the model's words."""


def fails(stage: Stage, status: int) -> None:
    stage.script.extend([Fail(status, REASON)] * 100)
    done = stage.start("try", "write a file", *QUICKLY.get(stage.agent, ()))
    run = stage.record()
    assert done.returncode != 0 and run.state == "failed", stage.told()
    words = OWN_WORDS.get((stage.agent, status), REASON)
    assert run.stopped_by and words in run.stopped_by, (run.stopped_by, stage.told())
    assert words in stage.ags("logs", "try").stdout


@pytest.mark.parametrize("stage", AGENTS, indirect=True)
def test_a_model_that_knows_no_such_key_makes_the_run_fail(stage: Stage) -> None:
    fails(stage, 401)


@pytest.mark.parametrize("stage", ["claude", "codex", "pi"], indirect=True)
def test_a_model_out_of_order_makes_the_run_fail(stage: Stage) -> None:
    fails(stage, 500)
