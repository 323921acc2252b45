"""What a run is at, beyond its record: read off its log as that grows, in bounded pieces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from ags.events import LINE, Event
from ags.events.event import parse
from ags.text import one_line

PIECE = 4 * LINE
MOST_USAGES = 500
"""Read of one piece: an agent can print as many as it likes."""
MOST_USED = 1e15
MOST_LAST = 200
"""Characters of the last words."""

_START = rb'\{"seq":\d+,"ts":[-+.0-9e]+,"kind":"%s"'


class Sum:
    """A number that is told in parts, or anew from the beginning of a conversation."""

    def __init__(self) -> None:
        self._before = 0.0
        self._whole = 0.0
        self.told = False

    def add(self, amount: float, *, whole: bool) -> None:
        self.told = True
        if not whole:
            self._before += amount
            return
        if amount < self._whole:  # another conversation
            self._before += self._whole
        self._whole = amount

    @property
    def total(self) -> float:
        return self._before + self._whole


class Activity:
    """What it cost so far, and its last words. `more` reads on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at = 0
        self._sums = {name: Sum() for name in ("cost_usd", "input", "output")}
        self._last = ""
        self._speaks = False

    def fields(self) -> dict[str, object]:
        cost = self._sums["cost_usd"]
        tokens = [each for name in ("input", "output") if (each := self._sums[name]).told]
        return {
            "cost": round(cost.total, 6) if cost.told else None,
            "tokens": int(sum(each.total for each in tokens)) if tokens else None,
            "last": self._last,
        }

    def more(self) -> int:
        """Read another piece, if there is one; returns how many bytes it had."""
        try:
            if os.stat(self._log, follow_symlinks=False).st_size <= self._at:
                return 0
            descriptor = os.open(self._log, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            piece = os.pread(descriptor, PIECE, self._at)
        finally:
            os.close(descriptor)
        end = piece.rfind(b"\n") + 1
        if not end and len(piece) == PIECE:  # no line of ours is that long
            end = PIECE
        end = self._usages(piece, end)
        self._words(piece, end)
        self._at += end
        return end

    def _usages(self, piece: bytes, end: int) -> int:
        """Returns how far it came."""
        for read, (event, behind) in enumerate(_forward(piece, end, b"usage"), 1):
            self._used(event.fields)
            if read == MOST_USAGES:
                return behind
        return end

    def _used(self, fields: Mapping[str, Any]) -> None:
        anew = fields.get("of_conversation")
        whole = anew if isinstance(anew, list) else []
        for name, total in self._sums.items():
            amount = fields.get(name)
            if _is_number(amount) and 0 <= amount < MOST_USED:
                total.add(amount, whole=name in whole)

    def _words(self, piece: bytes, end: int) -> None:
        """Of an agent that says nothing, what it prints is all there is."""
        said = _last(piece, end, b"message")
        self._speaks = self._speaks or said is not None
        if said is None and not self._speaks:
            said = _last(piece, end, b"output")
        text = said.fields.get("text") if said else None
        if isinstance(text, str) and (words := " ".join(text[: 20 * MOST_LAST].split())):
            short = words if len(words) <= MOST_LAST else f"{words[: MOST_LAST - 1]}…"
            self._last = one_line(short)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Bytes are searched a hundred times quicker than lines are read. What looks like a kind may stand
# within a line, as an agent's own words: only a line that begins as ours do is one of that kind.


def _forward(piece: bytes, end: int, kind: bytes) -> Iterator[tuple[Event, int]]:
    """Each event of the kind, and where its line ends."""
    mark, start = b'"kind":"%s"' % kind, re.compile(_START % kind)
    at = piece.find(mark, 0, end)
    while at >= 0:
        behind = piece.find(b"\n", at, end) + 1 or end
        begin = piece.rfind(b"\n", 0, at) + 1
        if start.match(piece, begin) and (event := parse(piece[begin:behind])):
            yield event, behind
        at = piece.find(mark, behind, end)


def _last(piece: bytes, end: int, kind: bytes) -> Event | None:
    mark, start = b'"kind":"%s"' % kind, re.compile(_START % kind)
    while (at := piece.rfind(mark, 0, end)) >= 0:
        begin = piece.rfind(b"\n", 0, at) + 1
        behind = piece.find(b"\n", at) + 1 or len(piece)
        if start.match(piece, begin) and (event := parse(piece[begin:behind])):
            return event
        end = begin
    return None
