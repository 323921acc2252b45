"""Real agents, each in a network of its own that has only loopback."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags import runs
from tests.own_network import own_network
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


@pytest.fixture
def place() -> Iterator[Path]:
    """Not pytest's own, which it keeps: there are links to large programs in it."""
    folder = Path(tempfile.mkdtemp(prefix="ags-stage-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    _end_runs(folder / "state")
    shutil.rmtree(folder)


def _end_runs(state: Path) -> None:
    """Those that a failed test left."""
    for run in runs.load_all(state)[0]:
        if run.supervisor and runs.is_alive(runs.directory(state, run.id)):
            os.kill(run.supervisor.pid, 9)


@pytest.fixture(params=AGENTS)
def stage(
    request: pytest.FixtureRequest, programs: Path, place: Path, own_network: None
) -> Iterator[Stage]:
    """Of each agent; or of those that a test is parametrized with."""
    with staged(request.param, programs, place) as made:
        yield made
