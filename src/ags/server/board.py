"""All runs and projects as they are now, for everybody who looks at them at once.

It looks only while somebody follows it. Nobody has a queue of their own: a follower has a place in
the ring of changes, and one that is slow finds each run once there, as it is by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import re
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Collection
from pathlib import Path
from typing import Any, NamedTuple

from ags import asking, projects
from ags.errors import AgsError
from ags.events import Watch
from ags.projects import Project
from ags.server.rows import project_row, row
from ags.server.sight import ROUND, Seen, Sight
from ags.server.state import State
from ags.server.stream import as_json, message
from ags.server.tips import Tips
from ags.text import utf8

TICK = 0.3
"""Seconds between looks."""
MOST_ROWS = 500
MOST_CHANGES = 1000
PATIENCE = 6.0
"""Seconds for a run to say what it asks."""


class Change(NamedTuple):
    number: int
    event: str
    data: bytes


class Board:
    def __init__(self, state: State) -> None:
        self.watch = Watch()
        """For all who follow a log in this process."""
        self.tips = Tips()
        self._state = state
        self._sight = Sight(state.ags_home, state.store)
        self._life = secrets.token_hex(4)
        self._number = 0
        self._changes: dict[str, Change] = {}
        """The last of each key, in the order in which they were told."""
        self._forgotten = 0
        """The number of the last that there was no room for any more."""
        self._news = asyncio.Event()
        self._told: dict[str, bytes] = {}
        """The row of each run as it was last sent."""
        self._projects: dict[str, dict[str, Any]] = {}
        self._folders: dict[tuple[Path, str], str] = {}
        self._asks: list[dict[str, Any]] = []
        self._waiting: Counter[str] = Counter()
        self._looks = 0
        self._followers = 0
        self._looking: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._tipping: asyncio.Task[None] | None = None

    def project_changed(self, fields: dict[str, Any]) -> None:
        """`fields` are as the API shows a project."""
        if self._projects.get(fields["id"]) != fields:
            self._projects[fields["id"]] = fields
            self._tell(f"project {fields['id']}", "project", as_json(fields))

    def project_gone(self, id_: str) -> None:
        if self._projects.pop(id_, None) is not None:
            self._tell(f"project {id_}", "project-gone", as_json({"id": id_}))

    def agent_changed(self, fields: dict[str, Any]) -> None:
        """While it is being installed; `fields` are as the settings show an agent."""
        self._tell(f"agent {fields['name']}", "agent", as_json(fields))

    async def follow(self, last: str = "") -> AsyncGenerator[list[bytes], None]:
        """What there is, then what changes; only what came after `last`, where that is known."""
        self._followers += 1
        self._state.metrics.subscribers += 1
        try:
            self._begin()
            place = self._place(last)
            while True:
                news = self._news
                if place < self._forgotten:
                    place = self._number
                    yield [self._snapshot()]
                elif place < self._number:
                    messages, place = self._since(place), self._number
                    yield messages
                else:
                    await news.wait()
        finally:
            self._state.metrics.subscribers -= 1
            self._followers -= 1
            if not self._followers:
                self._rest()

    # What followers are sent

    def _place(self, last: str) -> int:
        """In the ring: where an event's id stands, or before all of it."""
        found = re.fullmatch(r"([0-9a-f]{8})\.([0-9]{1,15})", last, re.ASCII)
        if found is None or found[1] != self._life or int(found[2]) > self._number:
            return -1
        return int(found[2])

    def _snapshot(self) -> bytes:
        newest = heapq.nlargest(MOST_ROWS, self._sight.runs)
        rows = b",".join(self._row(each) for each in newest)
        rest = as_json(
            {
                "total": len(self._sight.runs),
                "projects": list(self._projects.values()),
                "asks": self._asks,
            }
        )
        return message(self._id(self._number), "snapshot", b'{"runs":[%s],%s' % (rows, rest[1:]))

    def _since(self, place: int) -> list[bytes]:
        told = (each for each in self._changes.values() if each.number > place)
        return [message(self._id(each.number), each.event, each.data) for each in told]

    def _id(self, number: int) -> str:
        return f"{self._life}.{number}"

    def _tell(self, key: str, event: str, data: bytes) -> None:
        self._number += 1
        self._changes.pop(key, None)
        self._changes[key] = Change(self._number, event, data)
        if len(self._changes) > MOST_CHANGES:
            self._forgotten = self._changes.pop(next(iter(self._changes))).number
        self._news.set()
        self._news = asyncio.Event()

    # Looking

    def _begin(self) -> None:
        if self._looking is None or self._looking.done():
            self._looks = 0
            self._look()
            self._looking = asyncio.create_task(self._look_on())

    def _rest(self) -> None:
        for task in (self._looking, self._asking, self._tipping):
            if task is not None:
                task.cancel()
        self._looking = self._asking = self._tipping = None

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            try:
                self._look()
            except Exception as error:  # a look that fails must not be the last
                self._state.log.failure(error, "board")

    def _look(self) -> None:
        difference = self._sight.look()
        for id_ in difference.gone:
            self._told.pop(id_, None)
            self._tell(f"run {id_}", "gone", as_json({"id": id_}))
        if self._looks % ROUND == 0:
            self._look_at_projects()
        for id_ in sorted(difference.changed):
            self._show(id_)
        self._look_at_asks()
        self._looks += 1

    def _show(self, id_: str) -> None:
        before = self._told.pop(id_, None)
        if (data := self._row(id_)) != before:
            self._tell(f"run {id_}", "run", data)

    def _row(self, id_: str) -> bytes:
        if (told := self._told.get(id_)) is None:
            told = self._told[id_] = self._described(self._sight.runs[id_])
        return told

    def _described(self, seen: Seen) -> bytes:
        summary = seen.summary
        shown = row(summary, self._folders.get((summary.project, summary.client)))
        activity = {**seen.activity.fields(), "waiting": self._waiting[summary.id]}
        return as_json({**shown, "activity": activity})

    # Projects: those of the command line come and go without a word to us.

    def _look_at_projects(self) -> None:
        there = projects.listed(self._state.ags_home)
        before = self._folders
        self._folders = {(each.folder, each.client): each.id for each in there}
        self._show_those_of(dict(before.items() ^ self._folders.items()).keys())
        runs_of = Counter(
            (each.summary.project, each.summary.client) for each in self._sight.runs.values()
        )
        for id_ in self._projects.keys() - {each.id for each in there}:
            self.project_gone(id_)
        for each in there:
            known = self._projects.get(each.id, {})
            told = {name: known[name] for name in ("progress", "stage") if name in known}
            fields = project_row(each, runs_of[each.folder, each.client], self.tips.told(each.id))
            self.project_changed(fields | told)
        self._look_at_tips(there)

    def _look_at_tips(self, there: tuple[Project, ...]) -> None:
        """In a task of its own: git takes its time."""
        self.tips.keep({each.id for each in there})
        old = [each for each in there if self.tips.is_old(each)]
        if old and (self._tipping is None or self._tipping.done()):
            self._tipping = asyncio.create_task(self._tip(old))

    async def _tip(self, old: list[Project]) -> None:
        for each in old:
            head = await self.tips.of(each)
            if (known := self._projects.get(each.id)) is not None:
                self.project_changed(known | {"head": head})

    def _show_those_of(self, folders: Collection[tuple[Path, str]]) -> None:
        for id_, seen in self._sight.runs.items() if folders else ():
            if id_ in self._told and (seen.summary.project, seen.summary.client) in folders:
                self._show(id_)

    # Asks

    def _look_at_asks(self) -> None:
        """In a task of its own: a run that hangs must not hold the others up."""
        if self._asking is not None and not self._asking.done():
            return
        known = self._sight.runs.items()
        there = sorted((id_, seen.summary.name) for id_, seen in known if seen.summary.asking)
        ask = [name for _, name in there]  # who began first is first
        if (ask and self._looks % ROUND == 0) or (self._asks and not ask):
            self._asking = asyncio.create_task(self._ask(ask))

    async def _ask(self, names: list[str]) -> None:
        answers = await asyncio.gather(*(self._asked(name) for name in names))
        found = [each for answer in answers for each in answer]
        if [_still(each) for each in found] == [_still(each) for each in self._asks]:
            return
        before, self._asks = self._asks, found
        self._waiting = Counter(each["run_id"] for each in found)
        for id_ in {each["run_id"] for each in (*before, *found)} & self._sight.runs.keys():
            self._show(id_)
        self._tell("asks", "asks", as_json(found))

    async def _asked(self, name: str) -> list[dict[str, Any]]:
        with contextlib.suppress(AgsError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                return [_shown(each) for each in await asking.asked(self._state.engine(), name)]
        return []


def _shown(one: asking.Asked) -> dict[str, Any]:
    fields = {
        name: utf8(value) if isinstance(value, str) else value for name, value in one.fields.items()
    }
    return {"run": one.run, "run_id": one.run_dir.name, **fields}


def _still(ask: dict[str, Any]) -> dict[str, Any]:
    """Without what changes from second to second."""
    return {name: value for name, value in ask.items() if name not in ("waited", "left")}
