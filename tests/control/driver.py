"""Both sides as programs: `serve RUN_DIR COMMAND...` and `view RUN_DIR [KEYS]`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from ags.cli.view import DETACH, view
from tests.control.scene import stage


async def serve(run_dir: Path, *command: str) -> None:
    async with stage(run_dir, command) as on:
        print("ready", flush=True)
        await on.end()


async def look(run_dir: Path, keys: str = "") -> None:
    detach = bytes.fromhex(keys) or DETACH
    print(await view(run_dir, {"do": "attach"}, name="fox", detach=detach))


if __name__ == "__main__":
    does = serve if sys.argv[1] == "serve" else look
    asyncio.run(does(Path(sys.argv[2]), *sys.argv[3:]))
