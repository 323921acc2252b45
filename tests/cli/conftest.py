from __future__ import annotations

from tests.cli.callers import person, root, user, workspace
from tests.cli.desk import desk

__all__ = ("desk", "person", "root", "user", "workspace")
