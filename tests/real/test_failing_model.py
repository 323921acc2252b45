"""A model that refuses: the run has failed, with the agent's reason, whatever its exit code."""

from __future__ import annotations

import pytest

from tests.models import Fail
from tests.real.stage import Stage

REASON = "the scripted model is out of order"
# It would try for minutes.
QUICKLY = {"claude": ("-e", "CLAUDE_CODE_MAX_RETRIES=1")}


@pytest.mark.parametrize("status", [401, 500])
def test_a_model_that_refuses_makes_the_run_fail(stage: Stage, status: int) -> None:
    stage.script.extend([Fail(status, REASON)] * 100)
    done = stage.start("try", "write a file", *QUICKLY.get(stage.agent, ()))
    run = stage.record()
    assert done.returncode != 0 and run.state == "failed", stage.told()
    assert run.stopped_by and REASON in run.stopped_by, (run.stopped_by, stage.told())
    assert REASON in stage.ags("logs", "try").stdout
