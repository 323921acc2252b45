"""Reading a run's log of decisions, finished or growing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ags.egress.audit import MAX_LINE

LOG = "egress.jsonl"
PAUSE = 0.2

Record = Mapping[str, object]


def read(path: Path, alive: Callable[[], bool] = lambda: False) -> Iterator[Record]:
    """What the log holds; while its run lives, also what comes. What is no line is left out."""
    held, at = b"", 0
    while True:
        going = alive()  # asked before the look: what was written last is still seen
        for piece in _pieces(path, at):
            at += len(piece)
            *lines, held = (held + piece).split(b"\n")
            held = held[: 2 * MAX_LINE]
            yield from (found for line in lines if (found := _record(line)) is not None)
        if not going:
            return
        time.sleep(PAUSE)


def _pieces(path: Path, at: int) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            stream.seek(at)
            while piece := stream.read(1 << 16):
                yield piece
    except FileNotFoundError:
        return


def _record(line: bytes) -> Record | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
