"""A company's proxy between the fence and the world; here on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from ags.egress import company
from ags.egress.company import CompanyProxy
from ags.egress.resolve import Unreachable
from ags.errors import AgsError

OPEN = b"HTTP/1.1 200 Connection established\r\nVia: somebody\r\n\r\n"


class Stand:
    """A proxy that says what it is told to, and keeps what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heads: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        for at in range(0, len(self.answer), 7):  # in crumbs, as networks do
            writer.write(self.answer[at : at + 7])
            await writer.drain()
            await asyncio.sleep(0)
        with contextlib.suppress(ConnectionError):
            if b"\r\n\r\n" not in self.answer:
                writer.close()
                return
            writer.write(b"echo " + await reader.read(100))
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def standing(stand: Stand, login: str = "") -> AsyncIterator[CompanyProxy]:
    server = await asyncio.start_server(stand, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield company.parse(f"http://127.0.0.1:{port}", login)


async def nobody(name: str) -> Sequence[str]:
    raise AssertionError(f"{name} was looked up here")


async def said_through(stand: Stand, host: str = "model.example", login: str = "") -> bytes:
    async with standing(stand, login) as proxy:
        made, address = await company.dial(proxy, host, 443, nobody)
        with made:
            assert str(address) == "127.0.0.1"
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(made, b"hello")
            heard = b""
            while data := await loop.sock_recv(made, 100):
                heard += data
            return heard


def test_what_is_dialled_goes_through_it_and_its_name_is_not_looked_up_here() -> None:
    stand = Stand(OPEN)
    assert asyncio.run(said_through(stand)) == b"echo hello"
    assert stand.heads == [b"CONNECT model.example:443 HTTP/1.1\r\nHost: model.example:443\r\n\r\n"]


def test_what_follows_its_answer_at_once_is_the_hosts_and_is_not_lost() -> None:
    stand = Stand(OPEN + b"SSH-2.0-banner\r\n\r\n")
    assert asyncio.run(said_through(stand)) == b"SSH-2.0-banner\r\n\r\necho hello"


def test_an_address_of_the_newer_kind_is_written_in_brackets() -> None:
    stand = Stand(OPEN)
    asyncio.run(said_through(stand, "2c0f::7"))
    assert stand.heads[0].startswith(b"CONNECT [2c0f::7]:443 HTTP/1.1\r\n")


def test_it_is_told_who_we_are_if_it_wants_to_know() -> None:
    stand = Stand(OPEN)
    asyncio.run(said_through(stand, login="ada:s3:cret"))
    wanted = base64.b64encode(b"ada:s3:cret")
    assert b"Proxy-Authorization: Basic " + wanted + b"\r\n" in stand.heads[0]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 407 Who are you\x1b[2J\r\n\r\n", "407 Who are you?[2J"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "403 Forbidden"),
        (b"", "not HTTP"),
        (b"SSH-2.0-whatever\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 20_000, "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n", "not HTTP"),
    ],
)
def test_without_a_tunnel_the_request_fails_and_tells_why(answer: bytes, told: str) -> None:
    with pytest.raises(Unreachable) as caught:
        asyncio.run(said_through(Stand(answer)))
    assert caught.value.reason == "company-proxy"
    assert told in (caught.value.cause or "")


def test_a_login_in_its_address_is_understood_and_shown_nowhere() -> None:
    proxy = company.parse("http://ada:p%40ss@proxy.example:8080/")
    assert (proxy.host, proxy.port) == ("proxy.example", 8080)
    assert proxy.authorization is not None
    encoded = base64.b64encode(b"ada:p@ss").decode()
    assert proxy.authorization.reveal() == f"Basic {encoded}"
    assert encoded not in repr(proxy) and encoded not in proxy.weakening.detail


def test_without_a_port_it_is_the_usual_one() -> None:
    assert company.parse("http://proxy.example").port == company.PORT


@pytest.mark.parametrize(
    "written",
    ["", "proxy.example:3128", "socks5://proxy.example:1", "https://proxy.example:1", "http://:80",
     "http://proxy.example/path", "http://proxy.example?x", "http://proxy.example:99999",
     "http://a\nb:1", "http://a%0d%0a:b@proxy.example", "http://user@"],
)  # fmt: skip
def test_what_is_no_address_of_a_proxy_is_refused(written: str) -> None:
    with pytest.raises(AgsError, match="use the company's proxy"):
        company.parse(written)
