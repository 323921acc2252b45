"""A run's next turn where there is no conversation, and what each turn brought."""

from __future__ import annotations

import pytest

from ags import logtext, review
from ags.errors import AgsError, Missing
from tests.faults.workshop import Workshop

FIRST, SECOND = "echo one > a; echo '  x' > b", "echo two >> a; echo 'x' > b; echo new > c"


def told(workshop: Workshop) -> None:
    run = workshop.ended(workshop.start(goal=FIRST))
    assert run.state == "done"
    workshop.ended(workshop.does(workshop.engine().tell("try", SECOND)))


def test_the_next_script_goes_on_in_the_same_workspace(workshop: Workshop) -> None:
    told(workshop)
    run = workshop.engine().find("try")
    assert (run.state, run.turn, run.said) == ("done", 1, SECOND)
    assert workshop.files(run) == {"a": "one\ntwo", "b": "x", "c": "new"}


def test_a_turn_can_be_compared_with_the_one_before(workshop: Workshop) -> None:
    told(workshop)
    engine = workshop.engine()
    run = engine.find("try")
    (first,) = run.turns
    assert first.said is None
    whole = workshop.does(review.review(engine, "try"))
    since = workshop.does(review.review(engine, "try", since=0))
    assert {file.path: file.kind for file in whole.diff.files} == dict.fromkeys("abc", "added")
    kinds = {file.path: file.kind for file in since.diff.files}
    assert kinds == {"a": "modified", "b": "modified", "c": "added"}
    assert since.diff.old == first.commit


def test_lines_that_differ_in_spaces_only_can_be_left_out(workshop: Workshop) -> None:
    told(workshop)
    seen = workshop.does(review.review(workshop.engine(), "try", since=0, spaces=False))
    hunks = {file.path: len(file.hunks) for file in seen.diff.files}
    assert hunks == {"a": 1, "b": 0, "c": 1}


def test_a_turn_that_was_not_is_missing(workshop: Workshop) -> None:
    told(workshop)
    for turn in (1, -1):
        with pytest.raises(Missing, match="no turn"):
            workshop.does(review.review(workshop.engine(), "try", since=turn))


def test_what_a_turn_brought_stays_though_its_branch_goes_back(workshop: Workshop) -> None:
    workshop.ended(workshop.start(goal="echo 1 > a; git add a; git commit -qm one"))
    engine = workshop.engine()
    run = workshop.ended(workshop.does(engine.tell("try", "git reset -q --hard HEAD^; echo 2 > b")))
    workshop.project.git("reflog", "expire", "--expire=all", "--all")
    workshop.project.git("gc", "--quiet", "--prune=now")
    assert workshop.files(run) == {"b": "2"}
    since = workshop.does(review.review(engine, "try", since=0))
    assert {file.path: file.kind for file in since.diff.files} == {"a": "deleted", "b": "added"}


def test_a_workspace_that_is_gone_has_no_next_turn(workshop: Workshop) -> None:
    workshop.ended(workshop.start(goal=FIRST))
    engine = workshop.engine()
    assert workshop.does(engine.clean("try"))
    with pytest.raises(AgsError, match="its workspace is gone"):
        workshop.does(engine.tell("try", SECOND))


def test_a_restart_forgets_the_turns(workshop: Workshop) -> None:
    told(workshop)
    run = workshop.ended(workshop.does(workshop.engine().restart("try")))
    assert (run.turn, run.turns, run.said) == (0, (), None)
    assert workshop.files(run) == {"a": "one", "b": "x"}


def test_what_it_was_told_is_in_its_log(workshop: Workshop) -> None:
    told(workshop)
    log = workshop.events(workshop.engine().find("try"))
    (said,) = [event.fields["told"] for event in log if "told" in event.fields]
    assert said == SECOND
    assert f"> {SECOND}" in list(logtext.lines(log))
