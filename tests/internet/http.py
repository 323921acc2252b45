"""An origin that speaks HTTP/1.1 and swallows whatever a careless one would."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from urllib.parse import parse_qsl, urlsplit

from tests.internet import websocket
from tests.internet.seen import PATTERN
from tests.internet.site import Arrival, Guest, Site

MOST_ECHO = 16 << 20
Headers = Sequence[tuple[str, str]]


class Exchange:
    """One request and what is answered to it."""

    def __init__(self, site: Site, guest: Guest, arrival: Arrival) -> None:
        self.site, self.guest, self.arrival = site, guest, arrival
        self.path = urlsplit(arrival.target).path or "/"
        self.query = dict(parse_qsl(urlsplit(arrival.target).query))
        self.keep = (arrival.header("connection") or "").lower() != "close"

    def number(self, name: str, default: float) -> float:
        return float(self.query.get(name, default))

    async def body(self) -> AsyncIterator[bytes]:
        if (self.arrival.header("expect") or "").lower() == "100-continue":
            await self.guest.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        async for piece in self._framed():
            self.arrival.add(piece)
            yield piece

    async def _framed(self) -> AsyncIterator[bytes]:
        if "chunked" in (self.arrival.header("transfer-encoding") or "").lower():
            while size := int((await self.guest.through(b"\n")).partition(b";")[0], 16):
                async for piece in self.guest.pieces(size):
                    yield piece
                await self.guest.through(b"\n")
            await self.guest.through(b"\n")
        else:
            async for piece in self.guest.pieces(int(self.arrival.header("content-length") or 0)):
                yield piece

    async def whole(self) -> bytes:
        """The body, to its end; of a large one only the beginning."""
        kept = bytearray()
        async for piece in self.body():
            kept += piece[: max(0, MOST_ECHO - len(kept))]
        return bytes(kept)

    async def head(self, status: str, headers: Headers = ()) -> None:
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers), "", ""]
        await self.guest.send("\r\n".join(lines).encode())

    async def reply(self, body: bytes, status: str = "200 OK", headers: Headers = ()) -> None:
        size = ("Content-Length", str(len(body)))
        await self.head(status, [*(headers or [("Content-Type", "text/plain")]), size])
        if self.arrival.method != "HEAD":
            await self.guest.send(body)

    async def chunk(self, data: bytes) -> None:
        await self.guest.send(b"%x\r\n%s\r\n" % (len(data), data))


async def speak(site: Site, guest: Guest) -> None:
    while arrival := await next_arrival(site, guest):
        site.arrivals.append(arrival)
        exchange = Exchange(site, guest, arrival)
        moved = _moved if exchange.path.startswith("/moved/") else _greeting
        await PATHS.get(exchange.path, moved)(exchange)
        if not exchange.keep:
            return


async def next_arrival(site: Site, guest: Guest) -> Arrival | None:
    head = await guest.through(b"\r\n\r\n", b"\n\n")
    if not head:
        return None
    first, *lines = re.split(rb"\r?\n", head.strip(b"\r\n"))
    method, _, rest = first.decode("latin-1").partition(" ")
    target = rest.rpartition(" ")[0] or rest
    pairs = (line.decode("latin-1").partition(":") for line in lines)
    headers = [(name.strip(), value.strip()) for name, _, value in pairs]
    return Arrival(head, method, target, headers, guest.number, guest.sni)


async def _greeting(exchange: Exchange) -> None:
    await exchange.whole()
    await exchange.reply(f"hello from {exchange.site.name}\n".encode())


async def _echo(exchange: Exchange) -> None:
    kind = exchange.arrival.header("content-type") or "application/octet-stream"
    await exchange.reply(await exchange.whole(), headers=[("Content-Type", kind)])


async def _headers(exchange: Exchange) -> None:
    await exchange.whole()
    await exchange.reply(json.dumps(exchange.arrival.headers).encode())


async def _redirect(exchange: Exchange) -> None:
    await exchange.whole()
    await exchange.reply(b"", "302 Found", [("Location", exchange.query["to"])])


async def _moved(exchange: Exchange) -> None:
    """Wherever it was asked for, since not every client says where it would like to be sent."""
    await exchange.whole()
    await exchange.reply(b"", "302 Found", [("Location", "https://elsewhere.example/")])


async def _status(exchange: Exchange) -> None:
    await exchange.whole()
    await exchange.reply(b"as asked\n", f"{exchange.query['code']} Asked For")


async def _events(exchange: Exchange) -> None:
    """Server-sent events, each as soon as it is due. The end of the connection ends them."""
    await exchange.head("200 OK", [("Content-Type", "text/event-stream"), ("Connection", "close")])
    for number in range(int(exchange.number("count", 3))):
        await exchange.guest.send(b"data: %d\n\n" % number)
        await asyncio.sleep(exchange.number("every", 0.1))
    exchange.keep = False


async def _chunked(exchange: Exchange) -> None:
    await exchange.whole()
    await exchange.head("200 OK", [("Transfer-Encoding", "chunked")])
    for number in range(int(exchange.number("count", 3))):
        await exchange.chunk(b"chunk %d\n" % number)
        await asyncio.sleep(exchange.number("every", 0))
    await exchange.guest.send(b"0\r\n\r\n")


async def _slow(exchange: Exchange) -> None:
    await exchange.whole()
    await asyncio.sleep(exchange.number("seconds", 1))
    await exchange.reply(b"at last\n")


async def _drip(exchange: Exchange) -> None:
    """One byte at a time."""
    count = int(exchange.number("count", 10))
    await exchange.head("200 OK", [("Content-Length", str(count))])
    for _ in range(count):
        await exchange.guest.send(b".")
        await asyncio.sleep(exchange.number("every", 0.05))


async def _down(exchange: Exchange) -> None:
    left = int(exchange.query["size"])
    await exchange.head("200 OK", [("Content-Length", str(left))])
    while left:
        piece = PATTERN if left >= len(PATTERN) else PATTERN[:left]
        await exchange.guest.send(piece)
        left -= len(piece)


async def _up(exchange: Exchange) -> None:
    async for _ in exchange.body():
        pass
    told = {"size": exchange.arrival.size, "sha256": exchange.arrival.digest.hexdigest()}
    await exchange.reply(json.dumps(told).encode())


async def _close(exchange: Exchange) -> None:
    exchange.keep = False


async def _half(exchange: Exchange) -> None:
    """Promises more than it sends."""
    await exchange.head("200 OK", [("Content-Length", "1000")])
    await exchange.guest.send(b"only this")
    exchange.keep = False


async def _websocket(exchange: Exchange) -> None:
    exchange.keep = False
    if key := exchange.arrival.header("sec-websocket-key"):
        await websocket.echo(exchange.guest, key)
    else:
        await exchange.reply(b"", "426 Upgrade Required", [("Upgrade", "websocket")])


PATHS: dict[str, Callable[[Exchange], Awaitable[None]]] = {
    "/echo": _echo,
    "/headers": _headers,
    "/redirect": _redirect,
    "/status": _status,
    "/sse": _events,
    "/chunked": _chunked,
    "/slow": _slow,
    "/drip": _drip,
    "/down": _down,
    "/up": _up,
    "/close": _close,
    "/half": _half,
    "/ws": _websocket,
}
