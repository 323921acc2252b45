"""One browser for all, one server for each file, and for each test a window of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, StorageState

from tests.server.shop import Shop, opened
from tests.web.past import furnish
from tests.web.visiting import PROGRAM, Visitor, chromium, logged_in, visiting


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not for the session: while there is one, nobody else in this process can have a loop."""
    if not Path(PROGRAM).exists():
        pytest.skip("the distribution's Chromium is not installed")
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as made:
        yield made


@pytest.fixture(scope="module")
def session(browser: Browser, shop: Shop) -> StorageState:
    """What a browser keeps that was logged in by a link."""
    return logged_in(browser, shop.server)


@pytest.fixture
def visitor(browser: Browser, shop: Shop, session: StorageState) -> Iterator[Visitor]:
    with visiting(browser, shop.server, session) as made:
        yield made


@pytest.fixture(scope="module")
def furnished(shop: Shop) -> Shop:
    """With something for every view to show."""
    furnish(shop)
    return shop
