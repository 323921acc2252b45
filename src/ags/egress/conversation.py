"""HTTP/1.1 between a client inside and one host: each request is judged before it goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Protocol

from ags.egress import http, paths, pump
from ags.egress.exchange import Exchange, Moved
from ags.egress.fence import HINT, Fence, Note
from ags.egress.http import HeadReader, RequestHead
from ags.egress.inject import Misused, Redactor, Swapped
from ags.egress.link import Link, Plain
from ags.egress.model import Decision, Request
from ags.egress.pump import Pump
from ags.egress.resolve import Unreachable
from ags.egress.tls import Session, Stream, TlsError
from ags.egress.wire import NeedMore, Refused

BETWEEN = 300.0
"""Seconds a client may be silent between requests, or take for a head."""
SILENT = 3600.0
"""Seconds without a byte from either side: a model may think that long."""


class Talk(Protocol):
    """A connection in the clear, whatever it is on the wire."""

    async def read(self) -> bytes: ...
    async def write(self, data: bytes, /) -> None: ...
    async def close(self) -> None: ...


class Conversation:
    """Request by request, until either side has had enough."""

    def __init__(self, fence: Fence, inner: Talk, wanted: Request) -> None:
        """`wanted` has the host, the port and the scheme that all requests must be for."""
        self._fence = fence
        self._inner = inner
        self._wanted = wanted
        self._outer: tuple[Link, Talk, str] | None = None

    async def carry(self, first: bytes = b"", head: RequestHead | None = None) -> None:
        """`first` has been read already; `head` as well, if a proxy's client sent it."""
        try:
            held: bytes | None = first
            while held is not None:
                found: RequestHead | Refused | None = head
                if head is None:
                    found, held = await self._next_head(held)
                if found is None:
                    return
                held = await self._one(found, held)
                head = None
        finally:
            if self._outer is not None:
                self._outer[0].close()

    async def _next_head(self, held: bytes) -> tuple[RequestHead | Refused | None, bytes]:
        reader = HeadReader()
        found = reader.feed(held)
        async with asyncio.timeout(BETWEEN):
            while isinstance(found, NeedMore):
                data = await self._inner.read()
                if not data:
                    return None, b""
                found = reader.feed(data)
        return found, reader.rest

    async def _one(self, head: RequestHead | Refused, rest: bytes) -> bytes | None:
        """What the client sent beyond this request; None if there will be no other."""
        wanted = self._wanted
        if isinstance(head, Refused):
            await self._turned(wanted, head)
            return None
        if wrong := http.misdirected(head, wanted.host, wanted.port, wanted.scheme):
            await self._turned(http.request_of(head, wanted.port, wanted.scheme), wrong)
            return None
        request = http.request_of(head, wanted.port, wanted.scheme)
        if self._fence.policy.looks_inside(request.host) and (
            name := paths.override(name.decode("ascii") for name, _ in head.headers)
        ):
            detail = f"the header {name} may make another method or path of it"
            await self._turned(request, Refused("override", detail))
            return None
        decision = await self._fence.judge(request)
        note = self._fence.noted(request, decision)
        if not decision.allowed:
            note.write()
            await self._inner.write(http.refusal(request, decision, HINT))
            return None
        headers = http.forwarded(head, websocket=True)
        swapped = self._fence.swap(headers, http.origin_target(head), request)
        if isinstance(swapped, Misused):
            await self._misused(request, decision, swapped)
            return None
        return await self._exchanged(head, swapped, request, note, rest)

    async def _turned(self, request: Request, refused: Refused) -> None:
        decision = Decision(False, refused.reason, "", "")
        self._fence.noted(request, decision).write()
        await self._inner.write(http.bad_request(refused))

    async def _misused(self, request: Request, decision: Decision, misused: Misused) -> None:
        refused = replace(decision, allowed=False, reason=misused.reason)
        self._fence.noted(request, refused).write()
        hint = f"The placeholder of the secret {misused.secret_id} is in its {misused.where}."
        await self._inner.write(http.refusal(request, refused, hint))

    async def _exchanged(
        self, head: RequestHead, swapped: Swapped, request: Request, note: Note, rest: bytes
    ) -> bytes | None:
        try:
            link, outer, address = self._outer or await self._open(request)
        except (Unreachable, TlsError, OSError) as error:
            reason = getattr(error, "reason", "unreachable")
            note.write(reason=str(reason))
            await self._inner.write(http.bad_gateway(_cause(error)))
            return None
        self._outer = (link, outer, address)
        exchange = Exchange(
            head,
            swapped.headers,
            scanner=self._fence.scanner(),
            redactor=Redactor(swapped.covered) if swapped.covered else None,
        )
        refused = None
        try:
            refused = await _Pumps(exchange, self._inner, outer).run(rest)
        finally:
            reason = refused.reason if refused else ""
            note.write(
                address=address, sent=exchange.received, received=exchange.sent, reason=reason
            )
        return exchange.rest if exchange.done and exchange.reusable else None

    async def _open(self, request: Request) -> tuple[Link, Talk, str]:
        link, address = await self._fence.dial(request)
        if request.scheme != "tls":
            return link, Plain(link), address
        try:
            session = Session(self._fence.verified(request.host), request.host)
            stream = Stream(session, link, link)
            await stream.shake()
        except BaseException:
            link.close()
            raise
        return link, stream, address


class _Pumps:
    """Both directions of one exchange at once, so that neither waits for the other."""

    def __init__(self, exchange: Exchange, inner: Talk, outer: Talk) -> None:
        self._exchange = exchange
        self._inner, self._outer = inner, outer
        self._up, self._down = asyncio.Lock(), asyncio.Lock()
        self._refused: Refused | None = None

    async def run(self, rest: bytes) -> Refused | None:
        await self._move(self._exchange.open())
        if rest:
            await self._move(self._exchange.from_client(rest))
        client = Pump(self._inner.read, self._from_client)
        origin = Pump(self._outer.read, self._from_origin)
        await pump.run((client, origin), lambda: self._over, SILENT)
        return self._refused

    @property
    def _over(self) -> bool:
        return self._exchange.done or self._refused is not None

    async def _from_client(self, data: bytes) -> bool:
        await self._move(self._exchange.from_client(data))
        return not self._over

    async def _from_origin(self, data: bytes) -> bool:
        await self._move(self._exchange.from_origin(data))
        if not data and not self._exchange.answer_done and self._refused is None:
            self._refused = Refused("cut", "the origin hung up")
        return not self._over

    async def _move(self, moved: Moved) -> None:
        if moved.up:
            async with self._up:
                await self._outer.write(moved.up)
        if moved.down:
            async with self._down:
                await self._inner.write(moved.down)
        if moved.refused is not None:
            self._refused = moved.refused
            if not self._exchange.answered:
                async with self._down:
                    await self._inner.write(http.bad_request(moved.refused))


def _cause(error: Exception) -> str:
    told = getattr(error, "cause", "") or getattr(error, "strerror", "") or str(error)
    return str(told)
