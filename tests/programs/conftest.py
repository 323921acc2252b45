"""A shop for each test; one with something in it costs an installation, made once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs.registry import registry
from tests.programs.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    home = tmp_path / "home"
    home.mkdir()
    with registry() as made:
        (home / ".npmrc").write_text(f"registry={made.url}/\nfetch-retries=0\n")
        yield Shop(made, home, tmp_path / "state")


@pytest.fixture(scope="session")
def installed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with claude 1.0.0, to copy."""
    folder = tmp_path_factory.mktemp("once")
    with registry() as made:
        (folder / ".npmrc").write_text(f"registry={made.url}/\n")
        made.publish_claude("1.0.0")
        Shop(made, folder, folder / "state").install()
    return folder / "state"


@pytest.fixture
def stocked(shop: Shop, installed_once: Path) -> Shop:
    """With claude 1.0.0 installed."""
    shutil.copytree(installed_once, shop.state, symlinks=True)
    shop.registry.publish_claude("1.0.0")
    return shop
