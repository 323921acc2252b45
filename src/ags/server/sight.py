"""Runs looked at again and again, at little cost: what changed since the last look?"""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path
from typing import TypeAlias

from ags import runs
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import MIB
from ags.server.activity import Activity
from ags.server.rows import summary_of
from ags.store import Store, Summary

ROUND = 4
"""Looks after which the log of each run at work was read on."""
MOST_ENDED = 500
"""Records of runs that have ended, looked at in one look: few change, and there may be many."""
MOST_READ = 1 * MIB
"""Bytes of logs read in one look, so that it takes a few milliseconds."""
RACY = 0.1
"""A record this young could change once more without looking different."""

Stamp: TypeAlias = tuple[int, int, int]
UNSURE: Stamp = (0, 0, 0)


class Seen:
    """A run as it was when it was last looked at."""

    def __init__(self, stamp: Stamp, summary: Summary, log: Path) -> None:
        self.stamp = stamp
        self.summary = summary
        self.activity = Activity(log)

    @property
    def is_final(self) -> bool:
        return self.summary.state in runs.FINAL


@frozen
class Difference:
    """Ids of runs that are new or other than before, and of those that are not there any more."""

    changed: frozenset[str]
    gone: frozenset[str]


class Sight:
    def __init__(self, ags_home: Path, store: Store) -> None:
        self.runs: dict[str, Seen] = {}
        self._ags_home = ags_home
        self._store = store
        self._looks = 0
        self._filled = False
        self._folder_time = -1
        self._turn = 0
        self._unread: deque[str] = deque()
        """Runs that have ended, with more in their logs than was read."""

    def look(self) -> Difference:
        if not self._filled:
            self._fill()
        is_round = self._looks % ROUND == 0
        new, gone = self._come_and_gone(is_round)
        at_work, ended = self._by_state()
        looked_at = (*new, *at_work, *self._some_of(ended))
        changed = {id_ for id_ in looked_at if self._read_record(id_)}
        if is_round:
            changed |= self._sweep(at_work)
        changed |= self._read_logs(at_work)
        self._looks += 1
        return Difference(frozenset(changed), frozenset(gone))

    def _fill(self) -> None:
        """From the index, which has read all records already."""
        stamps = {id_: self._stamp(id_) for id_ in runs.ids(self._ags_home)}
        for summary in self._store.listing().runs:
            self._add(stamps.get(summary.id, UNSURE), summary)
        self._folder_time = _changed_at(self._ags_home / "runs")
        self._unread.extend(sorted(self._by_state()[1], reverse=True)[:MOST_ENDED])
        self._filled = True

    def _come_and_gone(self, is_round: bool) -> tuple[set[str], set[str]]:
        folder_time = _changed_at(self._ags_home / "runs")
        # Of two runs made at the same tick of the clock, the second changes nothing here.
        if not is_round and folder_time == self._folder_time:
            return set(), set()
        self._folder_time = folder_time
        there = set(runs.ids(self._ags_home))
        gone = self.runs.keys() - there
        for id_ in gone:
            del self.runs[id_]
        return there - self.runs.keys(), gone

    def _by_state(self) -> tuple[list[str], list[str]]:
        """Those at work, and those that have ended."""
        at_work: list[str] = []
        ended: list[str] = []
        for id_, seen in self.runs.items():
            (ended if seen.is_final else at_work).append(id_)
        return at_work, ended

    def _some_of(self, ended: list[str]) -> list[str]:
        """Others in each look, until it is the turn of the first again."""
        start = self._turn if self._turn < len(ended) else 0
        self._turn = start + MOST_ENDED
        return ended[start : self._turn]

    def _read_record(self, id_: str) -> bool:
        """Whether it is another than before."""
        stamp, seen = self._stamp(id_), self.runs.get(id_)
        if seen is not None and stamp == seen.stamp != UNSURE:
            return False
        try:
            summary = summary_of(runs.load(runs.directory(self._ags_home, id_)))
        except AgsError:  # damaged, which a list tells; or removed, which the next look sees
            return False
        if seen is None:
            self._add(stamp, summary)
            return True
        changed, was_final = seen.summary != summary, seen.is_final
        seen.stamp, seen.summary = stamp, summary
        if seen.is_final and not was_final:
            self._unread.appendleft(id_)
        return changed

    def _add(self, stamp: Stamp, summary: Summary) -> None:
        log = runs.directory(self._ags_home, summary.id) / "events.jsonl"
        self.runs[summary.id] = Seen(stamp, summary, log)

    def _stamp(self, id_: str) -> Stamp:
        try:
            facts = os.lstat(f"{self._ags_home}/runs/{id_}/run.json")
        except OSError:
            return UNSURE
        if time.time() - facts.st_mtime < RACY:
            return UNSURE
        return facts.st_mtime_ns, facts.st_ino, facts.st_size

    def _sweep(self, at_work: list[str]) -> set[str]:
        """Runs that died with nobody there to say so."""
        home = self._ags_home
        # Asked of the locks first: a sweep reads the record of each run that it is given.
        dead = [id_ for id_ in at_work if not runs.is_alive(runs.directory(home, id_))]
        swept = runs.sweep(home, dead) if dead else []
        return {run.id for run in swept if self._read_record(run.id)}

    def _read_logs(self, at_work: list[str]) -> set[str]:
        """A part of them each time: of runs at work first, and never the same one first."""
        changed: set[str] = set()
        left = MOST_READ
        mine = at_work[self._looks % ROUND :: ROUND]
        turn = self._looks // ROUND % max(1, len(mine))
        for id_ in mine[turn:] + mine[:turn]:
            if left > 0:
                left -= self._read_log(id_, changed)
        while self._unread and left > 0:
            id_ = self._unread.popleft()
            if got := self._read_log(id_, changed):
                self._unread.appendleft(id_)
                left -= got
        return changed

    def _read_log(self, id_: str, changed: set[str]) -> int:
        if (seen := self.runs.get(id_)) is None:
            return 0
        before = seen.activity.fields()
        got = seen.activity.more()
        if got and seen.activity.fields() != before:
            changed.add(id_)
        return got


def _changed_at(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0
