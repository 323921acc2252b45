"""A git server over HTTP: git's own backend behind our origin."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.internet.http import Exchange, next_arrival
from tests.internet.site import Guest, Site

BACKEND = ("/usr/bin/git", "http-backend")


def speaker(root: str, credentials: str | None) -> Callable[[Site, Guest], Awaitable[None]]:
    """`credentials` is `user:password`; without them nobody is asked for any."""
    wanted = credentials and "Basic " + base64.b64encode(credentials.encode()).decode()

    async def speak(site: Site, guest: Guest) -> None:
        while arrival := await next_arrival(site, guest):
            site.arrivals.append(arrival)
            exchange = Exchange(site, guest, arrival)
            body = await exchange.whole()
            if wanted and arrival.header("authorization") != wanted:
                asks = [("WWW-Authenticate", 'Basic realm="git"')]
                await exchange.reply(b"who are you?\n", "401 Unauthorized", asks)
            else:
                await _answer(exchange, root, body)

    return speak


async def _answer(exchange: Exchange, root: str, body: bytes) -> None:
    process = await asyncio.create_subprocess_exec(
        *BACKEND,
        env=_environment(exchange, root, len(body)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate(body)
    head, _, content = printed.partition(b"\r\n\r\n")
    pairs = [line.partition(": ") for line in head.decode().split("\r\n")]
    headers = [(name, value) for name, _, value in pairs]
    status = next((value for name, value in headers if name == "Status"), "200 OK")
    await exchange.reply(content, status, [pair for pair in headers if pair[0] != "Status"])


def _environment(exchange: Exchange, root: str, size: int) -> dict[str, str]:
    arrival = exchange.arrival
    path, _, query = arrival.target.partition("?")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": root,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PROJECT_ROOT": root,
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": arrival.method,
        "PATH_INFO": path,
        "PATH_TRANSLATED": str(Path(root, path.lstrip("/"))),
        "QUERY_STRING": query,
        "CONTENT_TYPE": arrival.header("content-type") or "",
        "CONTENT_LENGTH": str(size),
        "HTTP_CONTENT_ENCODING": arrival.header("content-encoding") or "",
        "GIT_PROTOCOL": arrival.header("git-protocol") or "",
        "REMOTE_USER": "somebody",
        "REMOTE_ADDR": exchange.guest.peer,
    }
