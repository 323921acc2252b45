"""Whoever collects, restarts or removes a run may be killed at any step, and is asked again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ags import review
from ags.errors import AgsError
from ags.runs import Run
from ags.workspace.apply import How
from tests.faults.supervisor import watch_steps
from tests.faults.workshop import CHANGED, Workshop
from tests.workspace.scene import forked

Verb = Callable[[Workshop, str], object]


def gather(workshop: Workshop, name: str) -> object:
    return workshop.does(workshop.engine().gather(name))


def restart(workshop: Workshop, name: str) -> object:
    return workshop.does(workshop.engine().restart(name))


def remove(workshop: Workshop, name: str) -> object:
    return workshop.does(workshop.engine().remove(name))


@pytest.mark.parametrize("verb", [gather, restart, remove])
def test_a_verb_killed_after_any_step_can_be_said_again(workshop: Workshop, verb: Verb) -> None:
    own = workshop.own()
    (counted,) = interrupted(workshop, ["counted"])
    steps = steps_of(workshop, verb, counted)
    assert len(steps) > 3
    chosen = range(1, len(steps) + 1)
    for n, run in zip(chosen, interrupted(workshop, [f"at-{n}" for n in chosen]), strict=True):
        assert killed(workshop, verb, run, n) == signal.SIGKILL
        check_whole(workshop, verb, run)
    assert workshop.own() == own
    workshop.check_sound()


def interrupted(workshop: Workshop, names: list[str]) -> list[Run]:
    """Runs with work that nobody has collected."""
    begun = [workshop.start(name, at="collecting", action="kill") for name in names]
    for run in begun:
        workshop.untended(run)
    workshop.engine().sweep()
    return begun


def steps_of(workshop: Workshop, verb: Verb, run: Run) -> list[str]:
    told = workshop.place / "steps"

    def body() -> None:
        steps: list[str] = []
        watch_steps(steps.append)
        verb(workshop, run.name)
        told.write_text("\0".join(steps))

    assert forked(body) == 0
    return told.read_text().split("\0")


def killed(workshop: Workshop, verb: Verb, run: Run, at: int) -> int:
    def body() -> None:
        seen: list[str] = []

        def step(what: str) -> None:
            seen.append(what)
            if len(seen) == at:
                os.kill(os.getpid(), signal.SIGKILL)

        watch_steps(step)
        verb(workshop, run.name)

    return forked(body)


def check_whole(workshop: Workshop, verb: Verb, run: Run) -> None:
    """Its work is there or can be had, and then it can go."""
    workshop.engine().sweep()
    link = workshop.ags_home / "names" / run.name
    if Path(link).exists():
        if verb is restart and not workshop.load(run).is_final:
            workshop.ended(run)
        verb(workshop, run.name)
        if verb is restart:
            assert workshop.ended(run).state == "done"
        if verb is not remove:
            remove(workshop, run.name)
    workshop.nothing_runs(run)
    assert workshop.files(run) == CHANGED
    assert workshop.traces(run) == []


def apply(workshop: Workshop, name: str, how: How = "merge") -> object:
    return workshop.does(review.apply(workshop.engine(), name, how=how))


def undo(workshop: Workshop, name: str) -> object:
    return workshop.does(review.undo(workshop.engine(), name))


def person_commits(workshop: Workshop) -> None:
    """So that a merge has something to do."""
    settings = "[user]\nname = Ann\nemail = ann@example.org\n"
    (workshop.place / "home/.gitconfig").write_text(settings)
    workshop.project.write("own", "committed\n")
    workshop.project.commit("mine")


@pytest.mark.parametrize("how", ["merge", "squash", "patch"])
def test_apply_killed_after_any_step_is_done_or_not_done(workshop: Workshop, how: How) -> None:
    run = workshop.ended(workshop.start())
    person_commits(workshop)
    before = workshop.project.state()
    verb = partial(apply, how=how)
    steps = len(steps_of(workshop, verb, run))
    done = workshop.project.state()[2]
    undo(workshop, run.name)
    assert workshop.project.state() == before
    for at in range(1, steps + 1):
        assert killed(workshop, verb, run, at) == signal.SIGKILL
        try:
            verb(workshop, run.name)
        except AgsError as error:
            assert "applied to main already" in error.cause, at
        assert workshop.project.state()[2] == done, at
        undo(workshop, run.name)
        assert workshop.project.state() == before, at


@pytest.mark.parametrize("how", ["merge", "patch"])
def test_undo_killed_after_any_step_is_done_or_not_done(workshop: Workshop, how: How) -> None:
    run = workshop.ended(workshop.start())
    person_commits(workshop)
    before = workshop.project.state()
    apply(workshop, run.name, how)
    for at in range(1, len(steps_of(workshop, undo, run)) + 1):
        apply(workshop, run.name, how)
        assert killed(workshop, undo, run, at) == signal.SIGKILL
        try:
            undo(workshop, run.name)
        except AgsError as error:
            assert "not applied" in error.cause, at
        assert workshop.project.state() == before, at
