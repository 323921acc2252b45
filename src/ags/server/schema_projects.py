"""What answers about projects hold besides what `schema` has."""

from __future__ import annotations

from pydantic import BaseModel


class Apart(BaseModel):
    """Branches that the last pull left as they were, though the remote's are others."""

    diverged: list[str]
    """They have commits of their own."""
    gone: list[str]
    """The remote has them no more."""
    more: int
    """So many are not named here."""
