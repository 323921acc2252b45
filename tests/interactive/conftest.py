from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.callers import new_folder, person, root, user, workspace
from tests.interactive.screen import Screen
from tests.interactive.screen import screen as open_screen
from tests.people import Person

__all__ = ("person", "root", "user", "workspace")


@pytest.fixture
def screen(person: Person, workspace: Path, world: Path) -> Iterator[Screen]:
    with open_screen(person, workspace, new_folder(world, person) / "tmux") as made:
        yield made
