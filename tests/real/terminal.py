"""The person at a terminal, in their project, with an agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.interactive.screen import Screen, screen
from tests.real.stage import Stage


@contextmanager
def terminal(stage: Stage) -> Iterator[Screen]:
    """`ags` at its prompt is the person's own."""
    stage.hand_over()
    person = replace(stage.person, environment={**stage.person.environment, **stage.keys})
    with screen(person, stage.project.folder, stage.home / "tmux", columns=120, rows=40) as made:
        yield made
