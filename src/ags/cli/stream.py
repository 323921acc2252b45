"""Printing a run's events while they come."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TextIO

from ags import events, runs
from ags.logtext import Stream
from ags.paint import columns, paint_for

LOG = "events.jsonl"


async def follow(run_dir: Path, out: TextIO, after: int = 0) -> None:
    """Print events, from the one after `after` on, until nobody tends the run any more."""
    stream = Stream(paint_for(out, os.environ), columns(out, os.environ))
    coming = events.follow(run_dir / LOG, after, lambda: not runs.is_alive(run_dir))
    async with contextlib.aclosing(coming) as found:
        async for event in found:
            write(out, stream.render(event))
    write(out, stream.finish())


def write(out: TextIO, lines: list[str]) -> None:
    if lines:
        out.write("".join(f"{line}\n" for line in lines))
        out.flush()
