"""One connection from inside, from its first byte to its end."""

from __future__ import annotations

import asyncio

from ags.egress import http, reasons, relay
from ags.egress.conversation import Conversation
from ags.egress.fence import Fence
from ags.egress.http import HeadReader
from ags.egress.link import Link, Plain, Secure, readable
from ags.egress.model import Decision, Request
from ags.egress.relay import Budget
from ags.egress.resolve import Unreachable
from ags.egress.socks import (
    NOT_ALLOWED,
    Connect,
    Forward,
    ProxyReader,
    Say,
    Turned,
    socks_reply,
)
from ags.egress.tls import Session, TlsError
from ags.egress.wire import Handshake, Hello, HelloReader, NeedMore, Refused
from ags.kernel.netns import GATEWAY, PROXY

FIRST = 20.0
"""Seconds for what says where a connection goes."""
LAST_WORDS = 5.0
"""Seconds for a refused client to say what it wanted, so that it can be told."""
BUDGET = Budget()
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Connection:
    """Whoever accepted it closes the link afterwards."""

    def __init__(self, fence: Fence, link: Link, host: str, port: int) -> None:
        self._fence = fence
        self._link = link
        self._host = host
        self._port = port

    async def serve(self, first: bytes = b"") -> None:
        """By what the policy has this port for."""
        scheme = self._fence.policy.scheme(self._host, self._port)
        request = Request(self._host, self._port, scheme)
        if scheme == "tls":
            await self._tls(request, first)
        elif scheme == "http":
            await Conversation(self._fence, Plain(self._link), request).carry(first)
        else:
            await self._raw(request, first)

    async def _tls(self, request: Request, first: bytes) -> None:
        reader = HelloReader()
        found = await self._hello(reader, first)
        if isinstance(found, Hello) and found.name != request.host:
            found = Refused("sni", f"the TLS hello is for {found.name}")
        if not isinstance(found, Hello):
            self._turned(request, found or Refused("cut", "it ended before it began"))
            return
        decision = await self._fence.judge(request)
        if not decision.allowed:
            self._fence.noted(request, decision).write()
            await self._refused(request, decision, found.raw + reader.rest)
        elif decision.intercept:
            await self._intercepted(request, found.raw + reader.rest)
        else:
            await self._opaque(request, decision, found, reader.rest)

    async def _hello(self, reader: HelloReader, first: bytes) -> Hello | Refused | None:
        found = reader.feed(first or self._link.take() or b"")
        if not isinstance(found, NeedMore):
            return found
        async with asyncio.timeout(FIRST):
            while isinstance(found, NeedMore):
                data = await self._link.read()
                if not data:
                    return None
                found = reader.feed(data)
        return found

    def _turned(self, request: Request, refused: Refused) -> None:
        self._fence.noted(request, Decision(False, refused.reason, "", "")).write()
        self._link.reset()

    async def _refused(self, request: Request, decision: Decision, first: bytes) -> None:
        """End the TLS ourselves, to say who refused and why: a reset would look like a fault."""
        stream = Secure(Session(self._fence.authority.leaf(request.host)), self._link)
        reader = HeadReader()
        async with asyncio.timeout(LAST_WORDS):
            await stream.shake(first)
            while isinstance(reader.feed(data := await stream.read()), NeedMore) and data:
                pass
            await stream.write(http.refusal(request, decision, reasons.remedy(request, decision)))
            await stream.close()

    async def _intercepted(self, request: Request, first: bytes) -> None:
        stream = Secure(Session(self._fence.authority.leaf(request.host)), self._link)
        try:
            async with asyncio.timeout(FIRST):
                await stream.shake(first)
        except TlsError as error:
            # A client that goes away in the middle of it was refused nothing.
            distrusts = _is_distrust(error)
            reason = "distrusted" if distrusts else "handshake"
            self._fence.noted(request, Decision(not distrusts, reason, "", "")).write()
            raise
        await Conversation(self._fence, stream, request).carry()
        await stream.close()

    async def _opaque(
        self, request: Request, decision: Decision, hello: Hello, rest: bytes
    ) -> None:
        note = self._fence.noted(request, decision)
        handshake = Handshake(hello)
        refused = handshake.from_client(rest) if rest else None
        if refused is not None:
            note.write(reason=refused.reason)
            self._link.reset()
            return
        try:
            outer, address = await self._fence.dial(request)
        except (Unreachable, OSError) as error:
            note.failed(error)
            self._link.reset()
            return
        reason = ""
        outer.ready = self._link.ready
        try:
            await outer.send(hello.raw + rest)
            reason = await _Shaken(self._link, outer, handshake).run()
            if not reason:
                await self._relayed(outer)
        finally:
            outer.close()
            note.write(address=address, sent=outer.sent, received=outer.received, reason=reason)

    async def _raw(self, request: Request, first: bytes) -> None:
        decision = await self._fence.judge(request)
        note = self._fence.noted(request, decision)
        if not decision.allowed:
            note.write()
            self._link.reset()
            return
        try:
            outer, address = await self._fence.dial(request)
        except (Unreachable, OSError) as error:
            note.failed(error)
            self._link.reset()
            return
        try:
            if first:
                await outer.send(first)
            await self._relayed(outer)
        finally:
            outer.close()
            note.write(address=address, sent=outer.sent, received=outer.received)

    async def _relayed(self, outer: Link) -> None:
        counted = await relay.relay(self._link.socket, outer.socket, BUDGET, self._link.ready)
        outer.sent += counted.up
        outer.received += counted.down
        if counted.cut:  # neither side may take it for an end that the other meant
            self._link.reset()
            outer.reset()


def _is_distrust(error: TlsError) -> bool:
    """Whether the client has said that it does not like our certificate."""
    return " alert " in error.cause and (
        "certificate" in error.cause or "unknown ca" in error.cause
    )


class _Shaken:
    """An opaque TLS connection by hand, until no second hello can come."""

    def __init__(self, inner: Link, outer: Link, handshake: Handshake) -> None:
        self._inner, self._outer, self._handshake = inner, outer, handshake
        self._reason = ""

    async def run(self) -> str:
        """Empty when the rest may pass unseen; else why it ended."""
        async with asyncio.timeout(FIRST):
            while not self._is_over():
                await readable(self._inner, self._outer)
                if (data := self._inner.take()) is not None:
                    await self._from_client(data)
                if not self._is_over() and (data := self._outer.take()) is not None:
                    await self._from_server(data)
        return self._reason

    def _is_over(self) -> bool:
        return self._handshake.done or bool(self._reason)

    async def _from_client(self, data: bytes) -> None:
        refused = self._handshake.from_client(data)
        if refused is not None or not data:
            self._reason = refused.reason if refused else "cut"
            return
        await self._outer.send(data)

    async def _from_server(self, data: bytes) -> None:
        if not data:
            self._reason = "cut"
            return
        self._handshake.from_server(data)
        await self._inner.send(data)


async def serve_proxy(fence: Fence, link: Link) -> None:
    """A client that was told of the proxy's port: CONNECT, a whole address, or SOCKS."""
    reader = ProxyReader()
    step = reader.feed(link.take() or b"")
    if isinstance(step, NeedMore | Say):
        async with asyncio.timeout(FIRST):
            while isinstance(step, NeedMore | Say):
                data = b""
                if isinstance(step, Say):
                    await link.send(step.data)
                elif not (data := await link.read()):
                    return
                step = reader.feed(data)
    if isinstance(step, Turned):
        unread = Request(GATEWAY, PROXY, "raw")
        fence.noted(unread, Decision(False, "proxy-request", "", "")).write()
        await link.send(step.answer)
    elif isinstance(step, Forward):
        request = Request(step.head.host, step.port, "http")
        await Conversation(fence, Plain(link), request).carry(reader.rest, step.head)
    else:
        await _tunnel(fence, link, step, reader.rest)


async def _tunnel(fence: Fence, link: Link, wanted: Connect, rest: bytes) -> None:
    # A client that looks names up by itself names the address that we made up.
    host = fence.pool.name(wanted.host) or wanted.host
    request = Request(host, wanted.port, fence.policy.scheme(host, wanted.port))
    decision = await fence.judge(request)
    if not decision.allowed:
        fence.noted(request, decision).write()
        socks = wanted.via == "socks"
        remedy = reasons.remedy(request, decision)
        said = socks_reply(NOT_ALLOWED) if socks else http.refusal(request, decision, remedy)
        await link.send(said)
        return
    await link.send(socks_reply(0) if wanted.via == "socks" else ESTABLISHED)
    await Connection(fence, link, host, wanted.port).serve(rest)
