"""`ags tell`: the next turn of each of the five."""

from __future__ import annotations

from tests.models import Say
from tests.real.stage import Stage


def test_a_next_turn_goes_on_in_the_same_conversation_and_on_the_same_branch(stage: Stage) -> None:
    stage.script.extend([stage.write("new.txt", "hello\n"), Say("First is done.")])
    done = stage.start("try", "write the first file")
    assert done.returncode == 0, done.stdout + done.stderr + stage.told()
    first, before = stage.record(), len(stage.server.requests)
    stage.script.extend([stage.write("more.txt", "more\n"), Say("Second is done.")])
    told = stage.ags("tell", "try", "now write the second file")
    assert told.returncode == 0, told.stdout + told.stderr + stage.told()
    then = stage.record()
    assert (then.state, then.turn, then.session) == ("done", 1, first.session) and first.session
    sent = [each.body.decode(errors="replace") for each in stage.server.requests[before:]]
    both = [body for body in sent if "now write the second file" in body]
    assert any("write the first file" in body and "First is done." in body for body in both)
    assert first.result is not None and then.result is not None
    assert stage.project.ask("rev-parse", "agent--try") == then.result.commit
    assert stage.project.ask("rev-parse", "agent--try^") == first.result.commit
    assert stage.on_branch("new.txt") == "hello\n" and stage.on_branch("more.txt") == "more\n"
    assert "Second is done." in told.stdout and "First is done." not in told.stdout
