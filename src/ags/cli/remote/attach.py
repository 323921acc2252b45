"""`ags --server URL attach`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ags.cli import attach as local
from ags.cli import view
from ags.cli.remote import following
from ags.cli.remote.verb import There, like
from ags.cli.view import Detached
from ags.client.websocket import Terminal
from ags.control.wire import Ended, Size


@like(local.command)
def command(there: There, name: str) -> int:
    if isinstance(look(there, name), Detached):
        return 0
    return following.told(following.ended(there.client, name))


def look(there: There, name: str, *, beside: bool = False) -> Detached | Ended:
    view.check_terminal(name)
    opened = _opened(there, name, beside=beside)
    return asyncio.run(view.visit(opened, name=name, lasting=not beside))


@contextlib.asynccontextmanager
async def _opened(there: There, name: str, *, beside: bool) -> AsyncIterator[Seen]:
    size, term = view.size(), there.invocation.environ.get("TERM")
    async with there.client.attach(
        name, rows=size.rows, columns=size.columns, shell=beside, term=term
    ) as terminal:
        yield Seen(terminal)


class Seen:
    """A server's terminal, as one of this machine is seen."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    async def read(self) -> bytes | Ended:
        found = await self._terminal.read()
        return found if isinstance(found, bytes) else Ended(found.code, found.reason)

    async def type(self, data: bytes) -> None:
        await self._terminal.type(data)

    def resize(self, size: Size) -> None:
        self._terminal.resize(size.rows, size.columns)
