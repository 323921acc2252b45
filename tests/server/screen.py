"""Terminals of a server as a browser has them: by WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.server.conftest import Server

SOON = 120.0


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scene, 2 * SOON))


class Screen:
    """A terminal in a browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.seen = b""
        self.ended: Any = None

    async def shows(self, pattern: bytes) -> re.Match[bytes]:
        """Reads until it does; what comes later is searched next time."""
        wanted, at = re.compile(pattern), 0
        async with asyncio.timeout(SOON):
            while not (found := wanted.search(self.seen, at)):
                at = max(0, len(self.seen) - 1000)  # not all of much, over and over
                came = await self.socket.recv()
                assert isinstance(came, bytes), f"{came!r} came before {pattern!r}"
                self.seen += came
        self.seen = self.seen[found.end() :]
        return found

    async def types(self, text: str) -> None:
        await self.socket.send(text.encode())

    async def resizes(self, rows: int, columns: int) -> None:
        await self.socket.send(json.dumps({"rows": rows, "columns": columns}))

    async def last_words(self) -> Any:
        """Of the server, before it closes."""
        async with asyncio.timeout(SOON):
            while isinstance(came := await self.socket.recv(), bytes):
                pass
        return json.loads(came)

    async def closing(self) -> tuple[int, str]:
        async with asyncio.timeout(SOON):
            with contextlib.suppress(ConnectionClosed):
                while True:
                    await self.socket.recv()
        return self.socket.close_code or 0, self.socket.close_reason or ""


@contextlib.asynccontextmanager
async def terminal(
    server: Server,
    path: str,
    *,
    token: str = "",
    called: str = "127.0.0.1",
    **given: Any,
) -> AsyncIterator[Screen]:
    """`path` is below /api/v1."""
    address = f"ws://{called}:{server.port}/api/v1{path}"
    protocols = ["ags.v1", f"bearer.{token or server.token}"]
    given = {
        "subprotocols": protocols,
        "max_size": 2**20,
        "proxy": None,
        "host": "127.0.0.1",
        "open_timeout": SOON,
        "ping_interval": None,  # one who does not read hears no answer either
        **given,
    }
    async with connect(address, **given) as socket:
        yield Screen(socket)
