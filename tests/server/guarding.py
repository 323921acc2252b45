"""The gate in this process, on a real socket, and a victim behind it."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from ags.server import gate
from ags.server.app import Watched
from ags.server.log import Log
from ags.server.serve import Server as Uvicorn
from ags.server.serve import Serving, address, bind, ours
from ags.server.state import State


class Victim:
    """Takes whatever comes through, and counts."""

    def __init__(self) -> None:
        self.reached = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += 1
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept", "subprotocol": "ags.v1"})
            await send({"type": "websocket.close", "code": 1000})
        else:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})


PLAIN = Serving(ports={"web": 0})
Talk = Callable[[int, str], Awaitable[None]]


async def guarded(folder: Path, victim: ASGIApp, talk: Talk, serving: Serving = PLAIN) -> None:
    """The victim behind a gate on a real socket."""
    log = Log("json", os.open(os.devnull, os.O_WRONLY))
    state = State({}, folder, folder / "ags", log)
    sock = bind(address("127.0.0.1"), 0)
    gated = gate.Gate(
        victim, ours(serving, [sock.getsockname()[1]]), state.keys, lambda path: False
    )
    server = Uvicorn(Watched(gated, state), serving, state)
    task = asyncio.create_task(server.serve([sock]))
    try:
        await talk(sock.getsockname()[1], state.keys.master())
    finally:
        server.end()
        await task


async def status_of(port: int, request: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def whole_of(port: int, request: str) -> bytes:
    """All that is answered until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    answer = await asyncio.wait_for(reader.read(), 90)
    writer.close()
    return answer


def upgrade(port: int, token: str, **headers: str) -> str:
    key = base64.b64encode(os.urandom(16)).decode()
    given = {
        "Host": f"127.0.0.1:{port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Protocol": f"ags.v1, bearer.{token}",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return f"GET /api/v1/runs/x/terminal HTTP/1.1\r\n{lines}\r\n"
