from __future__ import annotations

from tests.workspace.scene import scene as scene
