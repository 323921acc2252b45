"""Over https a server is who it says, or gets nothing."""

from __future__ import annotations

import asyncio
import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from ags.client import Client
from ags.errors import AgsError
from tests.client.answers import HEALTH
from tests.client.scripted import TOKEN, reply, scripted
from tests.internet.certificates import Authority


class Identity:
    """A server's certificate, and the authority that signed it."""

    def __init__(self, folder: Path, name: str, lasts: timedelta = timedelta(days=1)) -> None:
        authority = Authority()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(authority.certificate)
        own = folder / "own.pem"
        own.write_bytes(authority.issue(name, lasts))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(own)


def refused(identity: Identity, ca: Path | None) -> str:
    """Why; and that nothing was sent."""
    with scripted(reply(HEALTH), tls=identity.context) as server:
        client = Client(server.url.replace("http:", "https:"), TOKEN, ca=ca)
        with pytest.raises(AgsError) as found:
            client.health()
        with pytest.raises(AgsError):
            asyncio.run(_attach(client))
    assert server.asked == []
    return found.value.cause


async def _attach(client: Client) -> None:
    async with client.attach("a", rows=1, columns=1):
        pass


def test_a_server_with_a_certificate_of_a_known_authority_is_used(tmp_path: Path) -> None:
    identity = Identity(tmp_path, "127.0.0.1")
    with scripted(reply(HEALTH), tls=identity.context) as server:
        url = server.url.replace("http:", "https:")
        assert Client(url, TOKEN, ca=identity.ca).health()["status"] == "ok"
    assert server.asked[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_an_authority_of_ones_own_can_be_named_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = Identity(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(identity.ca))
    with scripted(reply(HEALTH), tls=identity.context) as server:
        url = server.url.replace("http:", "https:")
        assert Client(url, TOKEN).health()["status"] == "ok"


def test_one_that_nobody_known_has_signed_is_refused(tmp_path: Path) -> None:
    assert "its certificate is not good" in refused(Identity(tmp_path, "127.0.0.1"), None)


def test_one_of_another_name_is_refused(tmp_path: Path) -> None:
    identity = Identity(tmp_path, "ags.example.org")
    assert "its certificate is not good" in refused(identity, identity.ca)


def test_one_that_is_over_is_refused(tmp_path: Path) -> None:
    identity = Identity(tmp_path, "127.0.0.1", timedelta(days=-1))
    assert "expired" in refused(identity, identity.ca)


def test_an_authority_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    client = Client("https://127.0.0.1:9", TOKEN, ca=tmp_path / "none.pem")
    with pytest.raises(AgsError, match=r"read the authority .*none.pem"):
        client.health()
