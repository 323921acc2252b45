"""For a conftest of tests that need the fake internet: `from tests.internet.fixtures import *`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.internet import Internet

__all__ = ["internet", "the_internet"]


@pytest.fixture(scope="module")
def the_internet() -> Iterator[Internet]:
    """One for all tests of a file. What they open stays open, so origins need different names."""
    if os.geteuid() != 0:
        pytest.skip("the fake internet needs network namespaces, and so root")
    with Internet() as world:
        yield world


@pytest.fixture
def internet(the_internet: Internet) -> Internet:
    """As it is, with nothing seen yet."""
    the_internet.clear()
    return the_internet
