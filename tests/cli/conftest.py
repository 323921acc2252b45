from __future__ import annotations

from tests.cli.callers import person, root, user, workspace

__all__ = ("person", "root", "user", "workspace")
