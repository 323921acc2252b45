"""A company's proxy on the way out: what may go is dialled through it, by CONNECT.

It is the company's proxy that looks names up, so here only the name can be judged and not where it
leads. Runs carry that as a weakening.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from ags import proc, secrets
from ags.config.schema import Network
from ags.egress import resolve
from ags.egress.hosts import Address, BadHost, address_of, canonical_host
from ags.egress.resolve import Dialled, Unreachable
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import KIB, Weakening
from ags.secrets import FromStore, Secret, Store

PORT = 3128
LONGEST_ANSWER = 16 * KIB
ANSWER_TIMEOUT = 30.0
_END = b"\r\n\r\n"


@frozen
class CompanyProxy:
    """Where it is, and what it is told of who we are."""

    host: str
    port: int
    authorization: Secret | None = None
    """The value of Proxy-Authorization."""

    @property
    def weakening(self) -> Weakening:
        told = f"{self.host}:{self.port} looks names up, so that where they lead is not judged"
        return Weakening("company proxy", told)


def parse(written: str, login: str = "") -> CompanyProxy:
    """`http://[user:password@]host[:port]`; `login` is `user:password` from elsewhere."""
    try:
        parts = urlsplit(written)
        port = parts.port or PORT
        host = canonical_host(parts.hostname or "")
    except (ValueError, BadHost) as error:
        raise _bad("is not http://host:port") from error
    if parts.scheme != "http" or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise _bad("is not http://host:port")
    if not login and parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    if not (written + login).isprintable():  # urlsplit drops some of what is not
        raise _bad("has a control byte in it")
    if login and ":" not in login:
        raise _bad("has a login that is not user:password")
    encoded = base64.b64encode(login.encode()).decode()
    return CompanyProxy(host, port, Secret(f"Basic {encoded}") if login else None)


async def configured(
    network: Network, kept: Store, environ: Mapping[str, str]
) -> CompanyProxy | None:
    """As the settings have it; its login is one of the secrets that are kept."""
    if not network.proxy:
        return None
    login = ""
    if network.proxy_login:
        login = (await secrets.get(FromStore(network.proxy_login), environ, kept)).reveal()
    return parse(network.proxy, login)


def _bad(cause: str) -> AgsError:
    hint = 'as in proxy = "http://proxy.example:3128"'
    return AgsError("use the company's proxy", cause=cause, hint=hint)


async def dial(
    proxy: CompanyProxy, host: str, port: int, lookup: resolve.Lookup
) -> tuple[socket.socket, Address]:
    """A connection to the host by way of the proxy, and the proxy's address."""
    addresses = await _addresses(proxy, lookup)
    dialled: Dialled = await resolve.dial(addresses, proxy.port)
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT):
            await asyncio.get_running_loop().sock_sendall(
                dialled.socket, request(proxy, host, port)
            )
            answer = await _answer(dialled.socket)
        if cause := refusal(answer):
            raise Unreachable(host, "company-proxy", f"the company's proxy says: {cause}")
    except TimeoutError as error:
        dialled.socket.close()
        raise Unreachable(host, "company-proxy", "the company's proxy does not answer") from error
    except BaseException:
        dialled.socket.close()
        raise
    return dialled.socket, dialled.address


async def _addresses(proxy: CompanyProxy, lookup: resolve.Lookup) -> tuple[Address, ...]:
    """Wherever it is: the person said so."""
    if literal := address_of(proxy.host):
        return (literal,)
    found = [address for text in await lookup(proxy.host) if (address := address_of(text))]
    if not found:
        raise Unreachable(proxy.host, "company-proxy", "the company's proxy has no address")
    return tuple(found)


def request(proxy: CompanyProxy, host: str, port: int) -> bytes:
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization.reveal()}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


async def _answer(made: socket.socket) -> bytes:
    """Its head and not a byte more: what follows is the host's, and is read by another."""
    head = bytearray()
    while not head.endswith(_END) and len(head) < LONGEST_ANSWER:
        try:
            data = made.recv(1)
        except BlockingIOError:
            await proc.readable(made.fileno())
            continue
        if not data:
            break
        head += data
    return bytes(head)


def refusal(answer: bytes) -> str:
    """Why there is no tunnel; nothing if there is one."""
    line = answer.partition(b"\r\n")[0].decode("ascii", errors="replace")
    version, _, status = line.partition(" ")
    if not (answer.endswith(_END) and version.startswith("HTTP/1.") and status[:3].isdigit()):
        return "something that is not HTTP"
    shown = "".join(letter if letter.isprintable() else "?" for letter in status)[:100]
    return "" if status[0] == "2" else shown
