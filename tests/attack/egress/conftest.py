"""A command behind the fence, the fake internet around it, and what reached whom."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.conftest import ORDINARY
from tests.attack.egress.scene import Scene, Sites
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet

__all__ = ["internet", "the_internet"]


@pytest.fixture(scope="module")
def sites(the_internet: Internet) -> Sites:
    """What every file's attacks are about."""
    return Sites(the_internet)


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, internet: Internet, sites: Sites, shared_bwrap: str
) -> Iterator[Scene]:
    """A workspace of root's; as parameter `user`, of an ordinary user's."""
    with tempfile.TemporaryDirectory(prefix="ags-attack-") as base:
        os.chmod(base, 0o755)
        workspace, home = Path(base, "workspace"), Path(base, "home")
        for folder in (workspace, home):
            folder.mkdir()
            if getattr(request, "param", "root") == "user":
                os.chown(folder, ORDINARY, ORDINARY)
        mutation = request.config.getoption("--mutation")
        yield Scene(internet, sites, workspace, shared_bwrap, mutation)
