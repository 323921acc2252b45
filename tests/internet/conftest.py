from __future__ import annotations

from tests.internet.fixtures import internet, the_internet

__all__ = ["internet", "the_internet"]
