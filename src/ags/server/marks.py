"""Reading on in a run's log of decisions: a line goes by its number, and a log may have many."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from pathlib import Path

from ags.egress import trail
from ags.egress.trail import Record

EVERY = 200
"""Lines from mark to mark, and between two turns of others."""
KEPT = 64
"""Logs of which marks are kept."""


class Marks:
    """Where every so many-th line of a log ends. Logs only grow, so a mark stays true."""

    def __init__(self) -> None:
        self._ends: OrderedDict[Path, list[int]] = OrderedDict()

    async def lines(self, log: Path, after: int) -> AsyncGenerator[tuple[int, Record], None]:
        """All behind that many, each with its number."""
        ends = self._of(log)
        mark = min(after // EVERY, len(ends) - 1)
        number = mark * EVERY
        for end, line in trail.read_from(log, ends[mark]):
            number += 1
            if number == len(ends) * EVERY:
                ends.append(end)
            if number % EVERY == 0:
                await asyncio.sleep(0)
            if number > after:
                yield number, line

    def _of(self, log: Path) -> list[int]:
        ends = self._ends.pop(log, [0])
        if ends[-1] > _size(log):  # somebody has cut it
            ends = [0]
        self._ends[log] = ends
        if len(self._ends) > KEPT:
            self._ends.popitem(last=False)
        return ends


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0
