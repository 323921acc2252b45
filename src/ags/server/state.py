"""What one server process holds. All that lasts is in AGS_HOME, so it may die at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from starlette.requests import HTTPConnection

from ags.engine import Engine
from ags.server.auth import Keys
from ags.server.checkup import Checkup
from ags.server.log import Log
from ags.server.marks import Marks
from ags.server.metrics import Metrics
from ags.store import Store

if TYPE_CHECKING:
    from ags.server.board import Board

MOST_ASIDE = 2
MOST_NOTES = 1000
"""Remembered as told. Beyond, they are told again."""


class State:
    """One per process, on `app.state.ags`."""

    board: Board

    def __init__(self, environ: Mapping[str, str], home: Path, ags_home: Path, log: Log) -> None:
        self.environ = environ
        self.home = home
        self.ags_home = ags_home
        self.log = log
        self.stopping = asyncio.Event()
        """Set when the server is told to end: streams end themselves."""
        self.store = Store.in_memory(ags_home)
        self.metrics = Metrics()
        self.marks = Marks()
        self.keys = Keys(ags_home)
        self.checkup = Checkup(environ, home, ags_home, self.store)
        self.aside = asyncio.Semaphore(MOST_ASIDE)
        """For work that a copy of this process does."""
        self.tasks: set[asyncio.Task[Any]] = set()
        """What goes on without a request. It is cancelled when the server ends."""
        self._told: set[str] = set()

    def engine(self) -> Engine:
        """For one request: what it notes on the way goes to the log."""
        engine = Engine(self.environ, self.home, self.ags_home, store=self.store)
        engine.notes = Notes(self._note)
        return engine

    def _note(self, note: str) -> None:
        if note in self._told:
            return
        if len(self._told) >= MOST_NOTES:
            self._told.clear()
        self._told.add(note)
        self.log.event("note", text=note)


class Notes(list[str]):
    """A list that tells what is put on it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, note: str, /) -> None:
        self._tell(note)
        super().append(note)

    def extend(self, notes: Iterable[str], /) -> None:
        for note in notes:
            self.append(note)

    def __iadd__(self, notes: Iterable[str], /) -> Notes:  # type: ignore[override,misc]
        self.extend(notes)
        return self

    def insert(self, at: SupportsIndex, note: str, /) -> None:
        self._tell(note)
        super().insert(at, note)


async def state_of(connection: HTTPConnection) -> State:
    """For `Depends`. A coroutine: anything else FastAPI would call in a thread."""
    state = connection.app.state.ags
    assert isinstance(state, State)
    return state
