"""What a connection costs before anybody has said who it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ags.server import heads
from ags.server.serve import Serving

from .guarding import Victim, guarded


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
