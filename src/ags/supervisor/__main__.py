"""`python -m ags.supervisor AGS_HOME RUN`, with the run's lock as descriptor 3."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from ags import runs
from ags.kernel import rlimits
from ags.supervisor.process import LOCK, Supervisor


def main() -> None:
    ags_home, run_id = Path(sys.argv[1]), sys.argv[2]
    # Each connection through the fence takes a few, and they must not run out for who says stop.
    rlimits.raise_open_files()
    held = runs.Held.adopt(runs.directory(ags_home, run_id), LOCK)
    asyncio.run(_supervise(held, ags_home))


async def _supervise(held: runs.Held, ags_home: Path) -> None:
    await Supervisor(held, ags_home, os.environ).run()


if __name__ == "__main__":
    main()
