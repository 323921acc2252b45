from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.egress.clients.desk import Desk, Sites
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet

__all__ = ["internet", "the_internet"]


@pytest.fixture(scope="module")
def sites(the_internet: Internet) -> Sites:
    return Sites(the_internet)


@pytest.fixture
def desk(internet: Internet, sites: Sites) -> Iterator[Desk]:
    """A workspace, and the fence and the world around it."""
    with tempfile.TemporaryDirectory(prefix="ags-clients-") as base:
        os.chmod(base, 0o755)
        workspace, home = Path(base, "workspace"), Path(base, "home")
        workspace.mkdir()
        home.mkdir()
        yield Desk(internet, sites, workspace)
