"""The person at a terminal, in their project, with an agent."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.interactive.screen import Screen, screen
from tests.people import Person
from tests.real.stage import Stage


@contextmanager
def terminal(stage: Stage) -> Iterator[Screen]:
    """`ags` at its prompt is this checkout's."""
    program = stage.place / "bin" / "ags"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ags.cli.main "$@"\n')
    program.chmod(0o755)
    user = pwd.getpwuid(os.geteuid())
    person = Person(
        user.pw_name, user.pw_uid, user.pw_gid, stage.place / "home", stage.place, stage.environ
    )
    with screen(person, stage.project.folder, stage.place / "tmux", columns=120, rows=40) as made:
        yield made
