"""What a connection costs before anybody has said who it is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from ags.server import heads, serve
from ags.server.serve import Serving

from .guarding import Victim, guarded, status_of, upgrade, whole_of


def test_where_there_is_no_room_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk(port: int, token: str) -> None:
        ask = f"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        ask += f"Authorization: Bearer {token}\r\n\r\n"
        assert await status_of(port, ask) == 204
        monkeypatch.setattr(serve, "MOST_CONNECTIONS", 2)
        _, other = await asyncio.open_connection("127.0.0.1", port)
        head, _, body = (await whole_of(port, ask)).partition(b"\r\n\r\n")
        other.close()
        assert head.startswith(b"HTTP/1.1 503 ") and b"retry-after" in head.lower()
        assert json.loads(body)["status"] == 503 and json.loads(body)["hint"]

    asyncio.run(guarded(tmp_path, Victim(), talk))


def test_a_handshake_that_nobody_goes_on_with_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: tuple[Path, Path]
) -> None:
    monkeypatch.setattr("asyncio.constants.SSL_HANDSHAKE_TIMEOUT", 3600.0)
    monkeypatch.setattr(heads, "PATIENCE", 0.2)
    cert, key = certificate

    async def talk(port: int, token: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), 90) == b""
        writer.close()

    serving = Serving(ports={"web": 0}, tls_cert=cert, tls_key=key)
    asyncio.run(guarded(tmp_path, Victim(), talk, serving))


def test_a_websocket_says_itself_why_it_ends_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = asyncio.Event()
    shutdown = heads.Socket.shutdown

    def first(self: heads.Socket) -> None:
        shutdown(self)
        ending.set()

    async def victim(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept", "subprotocol": "ags.v1"})
        await ending.wait()
        await send({"type": "websocket.close", "code": 1012, "reason": "it stops"})

    async def talk(port: int, token: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(upgrade(port, token).encode())
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        made.append((reader, writer))

    async def scene() -> None:
        await guarded(tmp_path, victim, talk)
        reader, writer = made.pop()
        assert b"it stops" in await reader.read()
        writer.close()

    made: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    monkeypatch.setattr(heads.Socket, "shutdown", first)
    asyncio.run(scene())
