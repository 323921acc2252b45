"""Real agents, each in a network of its own that has only loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ags import runs
from tests import people
from tests.own_network import own_network
from tests.people import Person
from tests.real.installed import AGENTS, installed
from tests.real.stage import Stage, staged


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    with installed() as place:
        yield place


@pytest.fixture(name="own_network")
def _own_network() -> Iterator[None]:
    with own_network():
        yield


@pytest.fixture(scope="session")
def agent_user(world: Path, person_environment: Mapping[str, str]) -> Iterator[Person]:
    """An ordinary user of their own for tests with real agents, whose checkout is set up."""
    if os.geteuid() != 0:
        pytest.skip("a user of its own needs root")
    with people.throw_away_user(world / "agent-user", person_environment) as person:
        yield people.settled(person)


@pytest.fixture
def person(agent_user: Person) -> Iterator[Person]:
    """The same user with an empty home for each test."""
    yield agent_user
    end_runs(agent_user.home / ".ags")
    # Not by Python: there are links to large programs in it.
    subprocess.run(("find", agent_user.home, "-mindepth", "1", "-delete"), check=True)


def end_runs(state: Path) -> None:
    """Those that a failed test left."""
    for run in runs.load_all(state)[0]:
        if run.supervisor and runs.is_alive(runs.directory(state, run.id)):
            os.kill(run.supervisor.pid, 9)


@pytest.fixture(params=AGENTS)
def stage(
    request: pytest.FixtureRequest, programs: Path, person: Person, own_network: None
) -> Iterator[Stage]:
    """Of each agent; or of those that a test is parametrized with."""
    with staged(request.param, programs, person) as made:
        yield made
