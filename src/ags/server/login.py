"""An agent is logged in from the page: `ags auth` at a terminal that lasts while somebody looks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from starlette.requests import HTTPConnection

from ags import clients, proc, programs
from ags.agents import AGENTS, agent
from ags.control import hub, wire
from ags.control.wire import Ended, Size
from ags.errors import AgsError, Missing
from ags.logins import room
from ags.server import terminal
from ags.server.machine import Machine, machine_of, verb_of
from ags.server.state import State, state_of

ORDER = 10.0
"""Seconds to end in order: it gives an agent that is deaf five of them."""
SWEEPING = 60.0
SCREEN = {"TERM": terminal.SCREEN, "COLORTERM": "truecolor"}
"""What shows it, whatever the server itself was started at."""


class LogIn:
    """One that is under way: to who looks, a terminal like a run's."""

    def __init__(self, state: State, words: tuple[str, ...], size: Size) -> None:
        self._loop = asyncio.get_running_loop()
        self._typed = bytearray()
        self._master, slave = hub.pair()
        try:
            self.resize(size)
            argv, environ = verb_of(state, *words)
            descriptors = {0: slave, 1: slave, 2: slave}
            self._child = proc.spawn(
                argv, env={**environ, **SCREEN}, descriptors=descriptors, terminal=0
            )
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(slave)

    async def read(self) -> bytes | Ended:
        await proc.readable(self._master)
        try:
            data = os.read(self._master, hub.CHUNK)
        except BlockingIOError:
            return await self.read()
        except OSError:  # nobody has the other side open any more
            data = b""
        return data or Ended(await self.code())

    async def type(self, data: bytes) -> None:
        """What a program leaves unread is let go, as a terminal does: who types never waits."""
        self._typed += data[: hub.MOST_TYPED - len(self._typed)]
        self._write()

    def _write(self) -> None:
        self._loop.remove_writer(self._master)
        try:
            while self._typed:
                del self._typed[: os.write(self._master, self._typed[:1024])]
        except BlockingIOError:
            self._loop.add_writer(self._master, self._write)
        except OSError:
            self._typed.clear()  # it has ended, as reading will tell

    def resize(self, size: Size) -> None:
        hub.set_size(self._master, wire.fitting(size))

    def hang_up(self) -> None:
        """Its terminal is gone, by which it knows that it is to end."""
        self._loop.remove_writer(self._master)
        os.close(self._master)

    async def code(self) -> int:
        """When it has ended; as a shell tells it."""
        code = await self._child.wait()
        return code if code >= 0 else 128 - code

    async def end(self) -> int:
        try:
            async with asyncio.timeout(ORDER):
                return await self.code()
        except TimeoutError:
            self._child.kill_group()
            return await self.code()


class LogIns:
    """Those of this process: one at a time for each agent and client."""

    def __init__(self, state: State, machine: Machine) -> None:
        self._state = state
        self._machine = machine
        self._going: dict[tuple[str, str], asyncio.Task[None] | None] = {}
        """With what puts it away, once nobody looks any more."""

    @contextlib.asynccontextmanager
    async def open(self, name: str, client: str, size: Size) -> AsyncIterator[LogIn]:
        """For as long as the context lasts. It is put away afterwards, however long that takes."""
        whose = clients.checked_name(client)
        await self._free(name, whose)
        self._check(name)
        words = ("auth", name, *((f"--client={whose}",) if whose else ()))
        made = LogIn(self._state, words, size)
        self._going[name, whose] = None
        try:
            yield made
        finally:
            made.hang_up()
            task = asyncio.create_task(self._put_away(name, whose, made))
            self._going[name, whose] = task
            self._state.tasks.add(task)
            task.add_done_callback(self._state.tasks.discard)

    def _check(self, name: str) -> None:
        """What it would ask at the terminal is refused here: to install it is another button."""
        if name not in AGENTS:
            hint = f"one of: {', '.join(programs.names())}"
            cause = "there is no agent by that name"
            raise Missing("log in", subject=ascii(name)[:60], cause=cause, hint=hint)
        if agent(name).program is None:
            raise AgsError("log in", subject=name, cause="it needs no log-in")
        if programs.current(self._state.ags_home, name) is None:
            cause = f"{name} is not installed yet: install it first"
            raise AgsError("log in", subject=name, cause=cause)

    async def _free(self, name: str, client: str) -> None:
        while (name, client) in self._going:
            if (ending := self._going[name, client]) is None:
                cause = f"{name} is being logged in already, in another window"
                raise AgsError("log in", subject=name, cause=cause)
            await asyncio.wait({ending})

    async def _put_away(self, name: str, client: str, made: LogIn) -> None:
        log = self._state.log
        try:
            code = await self._ended(made)
            log.event("log-in ended", agent=name, client=client or None, code=code)
        except Exception as error:  # nobody waits for it: the log is all that can be told
            log.failure(error, f"log in {name}")
        finally:
            del self._going[name, client]
            self._machine.tell(name)

    async def _ended(self, made: LogIn) -> int:
        try:
            return await self._cleared(made)
        except asyncio.CancelledError:  # the server stops, but what is left half way would stay
            return await self._cleared(made)

    async def _cleared(self, made: LogIn) -> int:
        code = await made.end()
        if room.left(self._state.ags_home):  # by one that was killed
            await proc.aside(self._sweep, timeout=SWEEPING)
        return code

    def _sweep(self) -> None:
        room.sweep(self._state.ags_home)


async def logins_of(connection: HTTPConnection) -> LogIns:
    """For `Depends`: those of this process."""
    held = connection.app.state
    if not hasattr(held, "logins"):
        held.logins = LogIns(await state_of(connection), await machine_of(connection))
    found = held.logins
    assert isinstance(found, LogIns)
    return found
