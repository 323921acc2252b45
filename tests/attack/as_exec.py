"""Runs a command the way `ags exec` does: through settings, protection and plan."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ags.config.schema import MountConfig, Settings
from ags.prepare import Preparer, Request
from tests.box import Box, Outcome, run_plan


def preparer(box: Box, home: Path | None = None, settings: Settings | None = None) -> Preparer:
    return Preparer(
        environ={"PATH": "/usr/bin:/bin", "TERM": "dumb"},
        home=home or box.home,
        ags_home=box.workspace.parent / "state",
        settings=settings or Settings(),
        folder=(home or box.home) / ".config" / "ags",
    )


def request(
    box: Box, script: str, cwd: Path | None = None, mounts: tuple[MountConfig, ...] = ()
) -> Request:
    return Request(
        run="test",
        command=("/bin/sh", "-c", script),
        cwd=cwd or box.workspace,
        mounts=tuple(("--mount", mount) for mount in mounts),
    )


def run(
    box: Box,
    script: str,
    *,
    cwd: Path | None = None,
    home: Path | None = None,
    settings: Settings | None = None,
    mounts: tuple[MountConfig, ...] = (),
) -> Outcome:
    async def scene() -> Outcome:
        wanted = request(box, script, cwd, mounts)
        with await preparer(box, home, settings).prepare(wanted) as prepared:
            return await run_plan(box.backend, prepared.plan)

    return asyncio.run(scene())
