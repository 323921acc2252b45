"""Real agents started by root, in root's own home and on root's own repository."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.callers import root  # noqa: F401
from tests.models import Say
from tests.people import Person
from tests.real.conftest import end_runs
from tests.real.stage import Stage


@pytest.fixture
def person(request: pytest.FixtureRequest) -> Iterator[Person]:
    caller: Person = request.getfixturevalue("root")
    with tempfile.TemporaryDirectory(prefix="ags-root-", dir="/tmp") as home:
        environment = {**caller.environment, "HOME": home}
        yield replace(caller, home=Path(home), environment=environment)
        end_runs(Path(home) / ".ags")


@pytest.mark.parametrize("stage", ["claude", "pi"], indirect=True)
def test_an_agent_of_roots_works_on_a_repository_of_roots(stage: Stage) -> None:
    stage.script.extend(
        [stage.write("new.txt", "hello\n"), stage.run("id -u > ran.txt"), Say("All done.")]
    )
    done = stage.start("try", "write a file")
    assert done.returncode == 0, done.stdout + done.stderr + stage.told()
    assert stage.on_branch("new.txt") == "hello\n"
    assert stage.on_branch("ran.txt").strip() != "0", "inside nobody is root"
    stage.check_key_stayed_outside()
