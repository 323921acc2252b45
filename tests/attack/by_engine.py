"""Runs a command the way `ags exec` does: through settings, protection and plan."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ags.config.schema import MountConfig, Settings
from ags.engine import Engine, Request
from tests.box import Box, Outcome, run_plan


def run(
    box: Box,
    script: str,
    *,
    cwd: Path | None = None,
    home: Path | None = None,
    settings: Settings | None = None,
    mounts: tuple[MountConfig, ...] = (),
) -> Outcome:
    state = box.workspace.parent / "state"
    engine = Engine(
        environ={"PATH": "/usr/bin:/bin", "TERM": "dumb"},
        home=home or box.home,
        ags_home=state,
        settings=settings or Settings(),
        folder=(home or box.home) / ".config" / "ags",
    )
    request = Request(
        run="test",
        command=("/bin/sh", "-c", script),
        cwd=cwd or box.workspace,
        mounts=tuple(("--mount", mount) for mount in mounts),
    )

    async def scene() -> Outcome:
        with await engine.prepare(request) as prepared:
            return await run_plan(box.backend, prepared.plan)

    return asyncio.run(scene())
