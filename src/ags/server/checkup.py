"""What is degraded on this machine: quick facts, looked at once a minute at most."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ags.backends.bubblewrap import Bubblewrap
from ags.config.load import load as load_settings
from ags.egress import layers
from ags.egress import load as policies
from ags.errors import AgsError
from ags.frozen import frozen
from ags.kernel import probe
from ags.kernel.watch import human_size
from ags.model import Limits
from ags.store import Store

FRESH = 60.0
MOST_DAMAGED = 5
"""Told one by one; the rest is a number."""


@frozen
class Trouble:
    """As an error says it, of what is not asked for just now."""

    what: str
    cause: str
    hint: str


class Checkup:
    """One at a time, whoever asks: a look costs a sandbox."""

    def __init__(
        self, environ: Mapping[str, str], home: Path, ags_home: Path, store: Store
    ) -> None:
        self._environ = environ
        self._home = home
        self._ags_home = ags_home
        self._store = store
        self._found: tuple[Trouble, ...] = ()
        self._until = 0.0
        self._turn = asyncio.Lock()

    async def troubles(self) -> tuple[Trouble, ...]:
        async with self._turn:
            if time.monotonic() >= self._until:
                self._found = (*self._at_rest(), *await _sandbox())
                self._until = time.monotonic() + FRESH
            return self._found

    def _at_rest(self) -> Iterator[Trouble]:
        floor = Limits().disk_free
        try:
            floor = load_settings(None, self._environ, self._home).limits.disk_free
        except AgsError as error:
            yield _told(error)
        yield from _room(self._ags_home, floor)
        file = layers.policy_file(self._environ, self._home)
        try:
            if file.exists():
                policies.load(file, "user", self._home)
        except AgsError as error:
            yield _told(error)
        if (self._ags_home / "runs").is_dir():
            yield from _damaged(self._store)


def _room(folder: Path, floor: int | None) -> Iterator[Trouble]:
    free = probe.free_room(folder)
    if free is not None and floor is not None and free < floor:
        cause = f"{human_size(free)} are left for {folder}, and the floor is {human_size(floor)}"
        hint = "make room there, or lower `disk_free` under [limits] in the settings"
        yield Trouble("Cannot start runs", cause, hint)


def _damaged(store: Store) -> Iterator[Trouble]:
    try:
        damaged = store.listing(limit=1).damaged
    except AgsError as error:
        yield _told(error)
        return
    for each in damaged[:MOST_DAMAGED]:
        yield Trouble(f"Cannot read the run {each.id}", each.cause, f"`ags rm --force {each.id}`")
    if (more := len(damaged) - MOST_DAMAGED) > 0:
        cause, hint = f"there are {more} more like these", "remove these first"
        yield Trouble("Cannot read more runs", cause, hint)


async def _sandbox() -> tuple[Trouble, ...]:
    found = await Bubblewrap().probe()
    if found.ok:
        return ()
    return (Trouble("Cannot make a sandbox", found.cause, found.hint or "`ags doctor` tells more"),)


def _told(error: AgsError) -> Trouble:
    place = f"{error.subject}: " if error.subject else ""
    hint = error.hint or ("correct it there" if place else "`ags doctor` tells more")
    return Trouble(f"Cannot {error.what}", place + error.cause, hint)
