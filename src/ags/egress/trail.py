"""Reading a run's log of decisions, finished or growing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ags.egress.audit import MAX_LINE

LOG = "egress.jsonl"
PAUSE = 0.2
LONGEST = 2 * MAX_LINE

Record = Mapping[str, object]


def read(path: Path, alive: Callable[[], bool] = lambda: False) -> Iterator[Record]:
    """What the log holds; while its run lives, also what comes. What is no line is left out."""
    at = 0
    while True:
        going = alive()  # asked before the look: what was written last is still seen
        for end, found in read_from(path, at):
            at = end
            yield found
        if not going:
            return
        time.sleep(PAUSE)


def read_from(path: Path, at: int) -> Iterator[tuple[int, Record]]:
    """What it holds from this byte on, each with the byte behind it, where one can go on."""
    try:
        with path.open("rb") as stream:
            stream.seek(at)
            is_whole = True
            while line := stream.readline(LONGEST):
                at += len(line)
                is_end = line.endswith(b"\n")
                if not is_end and len(line) < LONGEST:
                    return  # it is just being written
                if is_whole and is_end and (found := _record(line)) is not None:
                    yield at, found
                is_whole = is_end
    except FileNotFoundError:
        return


def _record(line: bytes) -> Record | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
