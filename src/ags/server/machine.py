"""The agents' programs and the state of this machine, by verbs of the command line.

They wait for disks and start threads, which this process must not. So they are processes of their
own, and what they print is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any

from starlette.requests import HTTPConnection

from ags import proc, programs
from ags.agents import AGENTS, agent
from ags.config.load import load as load_settings
from ags.errors import AgsError, Missing
from ags.frozen import frozen
from ags.programs import listing
from ags.programs.listing import Row
from ags.server.schema import clean
from ags.server.state import State, state_of
from ags.text import one_line

VERB = (sys.executable, "-I", "-m", "ags.cli.main")
LOOKING, INSTALLING = 120.0, 3600.0
"""Seconds that a verb may take."""
FRESH = 5.0
"""Seconds in which a second look would see the same."""
ELSEWHERE = ("AGS_SERVER", "AGS_TOKEN")
"""They would send the verb to a server again."""


@frozen
class Failure:
    cause: str
    hint: str


class Machine:
    """What is under way in this process. What is done is in AGS_HOME."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._stages: dict[str, str] = {}
        self._failed: dict[str, Failure] = {}
        self._turn = asyncio.Lock()
        self._found: dict[str, Any] = {}
        self._until = 0.0

    def choices(self) -> list[dict[str, Any]]:
        """For who starts a run."""
        return [self._choice(name) for name in AGENTS]

    def _choice(self, name: str) -> dict[str, Any]:
        if agent(name).program is None:
            return {"name": name, "installed": None, "ready": True}
        try:
            found = programs.current(self._state.ags_home, name)
        except AgsError:  # damaged: the settings tell why
            found = None
        version = found.version if found else None
        return {"name": name, "installed": version, "ready": found is not None}

    async def agents(self, *, check: bool = False) -> list[dict[str, Any]]:
        """With `check`, the person's registry is asked for the newest."""
        newest = await self._newest() if check else {}
        rows = self._rows(*programs.names())
        return [self._shown(row, newest.get(row.name)) for row in rows]

    def one(self, name: str) -> dict[str, Any]:
        (row,) = self._rows(name)
        return self._shown(row, None)

    def _rows(self, *names: str) -> list[Row]:
        settings = load_settings(None, self._state.environ, self._state.home)
        given = (self._state.environ, self._state.home, self._state.ags_home, settings)
        return [listing.row(name, *given) for name in names]

    def _shown(self, row: Row, newest: str | None) -> dict[str, Any]:
        failed = self._failed.get(row.name)
        return {
            "name": row.name,
            "installed": row.installed.version if row.installed else None,
            "newest": newest,
            "problem": row.problem,
            "login": row.subscription,
            "keys": [{"name": name, "where": where} for name, where in row.login.keys],
            "size": row.installed.size if row.installed else None,
            "installing": self._stages.get(row.name),
            "failed": {"cause": failed.cause, "hint": failed.hint} if failed else None,
        }

    async def _newest(self) -> dict[str, str | None]:
        said = await self._said("agents", "--check", "--json")
        return {each["agent"]: each["newest"] for each in json.loads(said.stdout)}

    # Installing

    def install(self, name: str, version: str | None) -> None:
        """Goes on by itself; `agents` tells how, and so does the board."""
        if name not in AGENTS:
            cause, hint = "there is none by that name", f"one of: {', '.join(programs.names())}"
            raise Missing("install the agent", subject=ascii(name)[:60], cause=cause, hint=hint)
        programs.program(name)
        if name in self._stages:
            cause = "it is being installed right now"
            hint = "wait until that is done"
            raise AgsError("install the agent", subject=name, cause=cause, hint=hint)
        self._stages[name] = "starting"
        self._failed.pop(name, None)
        self.tell(name)
        task = asyncio.create_task(self._installed(name, version))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    async def _installed(self, name: str, version: str | None) -> None:
        log = self._state.log
        words = ("update-agents", name, *(() if version is None else (f"--version={version}",)))
        try:
            await self._said(*words, timeout=INSTALLING, heard=self._heard(name))
            log.event("install", agent=name)
        except AgsError as error:
            self._failed[name] = Failure(error.cause, error.hint)
            log.event("install failed", "warning", agent=name, cause=error.cause)
        except Exception as error:  # nobody waits for it: the log is all that can be told
            self._failed[name] = Failure("something went wrong in the server", "see its log")
            log.failure(error, f"install {name}")
        finally:
            self._stages.pop(name, None)
            self.tell(name)

    def _heard(self, name: str) -> Callable[[bytes], None]:
        def heard(part: bytes) -> None:
            lines = re.findall(rf"^ags: {name}: (.+)$", part.decode(errors="replace"), re.MULTILINE)
            if lines and name in self._stages:
                self._stages[name] = one_line(lines[-1])[:200]
                self.tell(name)

        return heard

    def tell(self, name: str) -> None:
        """The board, of what is known of it now."""
        with contextlib.suppress(AgsError):  # settings that cannot be read: whoever asks is told
            self._state.board.agent_changed(clean(self.one(name)))

    # The doctor

    async def examined(self) -> dict[str, Any]:
        """One look at a time, whoever asks: it makes sandboxes."""
        async with self._turn:
            if time.monotonic() >= self._until:
                said = await self._said("doctor", "--json", healthy=(0, 1))
                self._found = _findings(json.loads(said.stdout))
                self._until = time.monotonic() + FRESH
            return self._found

    async def _said(
        self,
        *words: str,
        timeout: float = LOOKING,
        healthy: tuple[int, ...] = (0,),
        heard: Callable[[bytes], None] | None = None,
    ) -> proc.Result:
        argv, environ = verb_of(self._state, *words)
        said = await proc.run(argv, env=environ, timeout=timeout, check=False, heard=heard)
        if said.code not in healthy or (healthy != (0,) and not said.stdout):
            raise _refusal(words[0], said)
        return said


def verb_of(state: State, *words: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """A call of the command line by the server's person: its words, and its environment."""
    environ = {k: v for k, v in state.environ.items() if k not in ELSEWHERE}
    return (*VERB, *words), environ


def _findings(told: dict[str, Any]) -> dict[str, Any]:
    items = [
        {
            "section": each["section"],
            "name": each["name"],
            "level": each["status"],
            "text": each["text"],
            "hint": each["repair"],
        }
        for each in told["findings"]
    ]
    return {"ok": told["ok"], "items": items}


def _refusal(verb: str, said: proc.Result) -> AgsError:
    """The error that the verb told its person, taken apart again."""
    text = said.stderr[-proc.TAIL :].decode(errors="replace")
    found = re.search(
        r"^ags: cannot (.+)(?:\n  why: ((?:.*)(?:\n {7}.*)*))?(?:\n  try: ((?:.|\n)*))?", text, re.M
    )
    if found is None:
        cause = text.strip() or f"exit code {said.code}"
        return AgsError(f"use `ags {verb}`", cause=cause, hint=f"try `ags {verb}` in a terminal")
    what, cause, hint = (each or "" for each in found.groups())
    return AgsError(what, cause=cause.replace("\n       ", "\n") or what, hint=hint.strip())


async def machine_of(connection: HTTPConnection) -> Machine:
    """For `Depends`: the one of this process."""
    held = connection.app.state
    if not hasattr(held, "machine"):
        held.machine = Machine(await state_of(connection))
    found = held.machine
    assert isinstance(found, Machine)
    return found
