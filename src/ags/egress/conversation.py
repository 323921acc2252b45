"""HTTP/1.1 between a client inside and one host: each request is judged before it goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from ags.egress import http, inject, paths, policy, pump, reasons, serving
from ags.egress.desk import Asked, Desk
from ags.egress.exchange import Exchange, Moved
from ags.egress.fence import Fence, Note
from ags.egress.http import HeadReader, RequestHead
from ags.egress.inject import Misused, Redactor, Swapped
from ags.egress.link import Plain, Secure, readable
from ags.egress.model import Decision, Request
from ags.egress.outer import Outer, Talk
from ags.egress.pump import Pump
from ags.egress.resolve import Unreachable
from ags.egress.tls import TlsError
from ags.egress.wire import NeedMore, Refused

BETWEEN = 300.0
"""Seconds a client may be silent between requests, or take for a head."""
SILENT = 3600.0
"""Seconds without a byte from either side: a model may think that long."""
AGAIN = 5.0
"""Seconds in which an origin that hung up on nobody is found out. Later, what was judged is old."""


class Conversation:
    """Request by request, until either side has had enough."""

    def __init__(self, fence: Fence, inner: Talk, wanted: Request) -> None:
        """`wanted` has the host, the port and the scheme that all requests must be for."""
        self._fence = fence
        self._inner = inner
        self._wanted = wanted
        self._outer: Outer | None = None
        self._free = False
        """Whether that one could carry another request."""
        self._redactor: tuple[object, Redactor] | None = None
        """The last one, and for what: on one connection it is the same every time."""

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
            self._leave()

    async def _next_head(self, held: bytes) -> tuple[RequestHead | Refused | None, bytes]:
        reader = HeadReader()
        found = reader.feed(held or self._inner.take() or b"")
        if not isinstance(found, NeedMore):
            return found, reader.rest
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
        if http.is_websocket(head):
            decision = self._may_send(request, decision)
        note = self._fence.noted(request, decision)
        if not decision.allowed:
            note.write()
            await self._inner.write(_refusal(head, request, decision))
            return None
        headers = http.forwarded(head, websocket=True)
        swapped = self._fence.swap(headers, http.origin_target(head), request)
        if isinstance(swapped, Misused):
            await self._misused(request, decision, swapped)
            return None
        desk = self._fence.terms.desk
        if desk is not None and desk.serves(request):
            await self._served(desk, head, swapped, request, note, rest)
            return None
        return await self._exchanged(head, swapped, request, note, rest)

    async def _served(
        self,
        desk: Desk,
        head: RequestHead,
        swapped: Swapped,
        request: Request,
        note: Note,
        rest: bytes,
    ) -> None:
        """Answered out here: the host itself sees no more than the desk asks of it."""
        body = await serving.whole(self._inner, head, rest)
        if isinstance(body, Refused):
            note.write(reason=body.reason, refused=True)
            await self._inner.write(http.bad_request(body))
            return
        look = self._fence.scanner().look
        target = http.origin_target(head)
        asked = Asked(request, target, swapped.headers, inject.Hidden(body), look)
        answer = await desk.answer(asked, partial(serving.post, self._fence))
        refused, received = bool(answer.reason), len(answer.body)
        note.write(sent=len(body), received=received, reason=answer.reason, refused=refused)
        await self._inner.write(serving.written(answer))

    def _may_send(self, request: Request, decision: Decision) -> Decision:
        """What a WebSocket carries is no GET: it is allowed where something may be sent, too."""
        sending = policy.decide(self._fence.policy, replace(request, method="POST"))
        return replace(sending, ask=False) if decision.allowed and not sending.allowed else decision

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
        self,
        head: RequestHead,
        swapped: Swapped,
        request: Request,
        note: Note,
        rest: bytes,
        *,
        repeatable: bool = True,
    ) -> bytes | None:
        reused = self._still_open()
        lent, simple = False, _is_simple(head)
        if not reused and repeatable and simple:
            self._outer = self._fence.idle.take(self._wanted, self._fence.terms)
            lent = self._outer is not None
        try:
            outer = self._outer = self._outer or await self._open(request)
        except (Unreachable, TlsError, OSError) as error:
            note.failed(error)
            await self._inner.write(http.bad_gateway(_cause(error)))
            return None
        self._free, outer.clean = False, outer.clean and simple
        scanner = self._fence.scanner()
        exchange = Exchange(
            head,
            swapped.headers,
            scanner=scanner,
            redactor=self._covering(swapped) if swapped.carried else None,
        )
        refused, begun = None, asyncio.get_running_loop().time()
        pumps = _Pumps(exchange, self._inner, outer.talk, reused=reused, lent=lent)
        try:
            refused = await pumps.run(rest)
            if lent and pumps.unheard:  # hung up while it was nobody's
                self._hang_up()
                late = asyncio.get_running_loop().time() - begun > AGAIN
                if not late and outer.terms is self._fence.terms:
                    return await self._exchanged(
                        head, swapped, request, note, rest, repeatable=False
                    )
                await self._inner.write(http.bad_gateway("the origin hung up without an answer"))
                return None
        finally:
            reason = refused.reason if refused else self._passing_reason(scanner.passed)
            note.write(
                address=outer.address,
                sent=exchange.received,
                received=exchange.sent,
                reason=reason,
                refused=_is_refusal(refused),
            )
        if refused and exchange.answered:
            # An end in good order could be taken for the end of the answer.
            raise ConnectionAbortedError
        # What has no body by its nature has one with some origins, and it comes a moment later.
        self._free = exchange.done and head.method != "HEAD" and exchange.status not in (204, 304)
        if exchange.spent:
            self._hang_up()
        return exchange.rest if exchange.reusable else None

    def _covering(self, swapped: Swapped) -> Redactor:
        if self._redactor is None or self._redactor[0] != swapped.carried:
            self._redactor = (swapped.carried, Redactor(swapped.covered))
        return self._redactor[1].another()

    def _still_open(self) -> bool:
        """Whether the connection of the last request can take another one."""
        outer = self._outer
        if outer and not (outer.quiet and outer.terms is self._fence.terms):
            self._hang_up()
        return self._outer is not None

    def _hang_up(self) -> None:
        if self._outer is not None:
            self._fence.hang_up(self._outer)
            self._outer = None

    def _leave(self) -> None:
        """The client has gone; the origin may be of use to the next one."""
        if self._outer is not None and self._free and self._outer.clean:
            self._fence.idle.put(self._outer)
            self._outer = None
        self._hang_up()

    def _passing_reason(self, passed: set[str]) -> str:
        """The reason for the audit line if a placeholder went to this host for the first time."""
        new = {(secret_id, self._wanted.host) for secret_id in passed} - self._fence.passed
        self._fence.passed |= new
        return "placeholder-passed" if new else ""

    async def _open(self, request: Request) -> Outer:
        terms = self._fence.terms
        link, address = await self._fence.dial(request)
        link.ready = self._inner.link.ready
        if request.scheme != "tls":
            return Outer(Plain(link), address, self._wanted, terms)
        try:
            stream = Secure(self._fence.session(request), link)
            await stream.shake()
        except BaseException:
            link.close()
            raise
        return Outer(stream, address, self._wanted, terms)


class _Pumps:
    """Both directions of one exchange at once, so that neither waits for the other."""

    def __init__(
        self, exchange: Exchange, inner: Talk, outer: Talk, *, reused: bool, lent: bool
    ) -> None:
        self._exchange = exchange
        self._inner, self._outer = inner, outer
        self._reused, self._lent = reused, lent
        self._refused: Refused | None = None
        self._heard = self._both = False

    @property
    def unheard(self) -> bool:
        """The origin hung up without a word, and nothing was read that could not be said again."""
        cut = self._refused is not None and self._refused.reason == "cut"
        return cut and not self._heard and not self._both

    async def run(self, rest: bytes) -> Refused | None:
        await self._move(self._exchange.open(rest))
        await self._hear()
        if not self._over:
            self._both = True
            client = Pump(self._inner.read, self._from_client)
            origin = Pump(self._read_origin, self._from_origin)
            await pump.run((client, origin), lambda: self._over, SILENT)
        return self._refused

    async def _hear(self) -> None:
        """The answer to a whole request, for as long as the client is still: two directions at
        once would cost more than most answers."""
        client, origin = self._inner.link, self._outer.link
        while self._exchange.asked and not self._over and not self._exchange.switched:
            if (data := self._take_origin()) is not None:
                await self._from_origin(data)
                continue
            async with asyncio.timeout(SILENT):
                if await readable(client, origin) is client:
                    return

    @property
    def _over(self) -> bool:
        return self._exchange.done or self._refused is not None

    async def _read_origin(self) -> bytes:
        while (data := self._take_origin()) is None:
            await readable(self._outer.link)
        return data

    def _take_origin(self) -> bytes | None:
        try:
            return self._outer.take()
        except (TlsError, OSError):
            self._refused = Refused("cut", "the connection to the origin was cut")
            return b""

    async def _from_client(self, data: bytes) -> bool:
        await self._move(self._exchange.from_client(data))
        return not self._over

    async def _from_origin(self, data: bytes) -> bool:
        if self._refused is not None:
            await self._tell(self._refused, "origin")
            return False
        self._heard = self._heard or bool(data)
        await self._move(self._exchange.from_origin(data))
        return not self._over

    async def _say(self, data: bytes) -> None:
        try:
            await self._outer.write(data)
        except OSError:
            if not (self._reused or self._lent):
                raise
            self._refused = Refused("cut", "the connection to the origin was cut")

    async def _move(self, moved: Moved) -> None:
        if moved.up:
            await self._say(moved.up)
        if moved.down:
            await self._inner.write(moved.down)
        if moved.refused is not None:
            self._refused = moved.refused
            await self._tell(moved.refused, self._exchange.fault)

    async def _tell(self, refused: Refused, fault: str) -> None:
        if self._exchange.answered:
            return
        silent = not self._heard and fault == "origin"
        if silent and (self._reused or (self._lent and self.unheard)):
            return  # hung up between two requests: whoever kept a connection open tries again
        said = http.bad_request(refused) if fault == "client" else http.bad_gateway(refused.detail)
        await self._inner.write(said)


def _refusal(head: RequestHead, request: Request, decision: Decision) -> bytes:
    """Clients that come for a WebSocket ask again in plain HTTP, and are told why it is refused."""
    if http.is_websocket(head):
        return http.upgrade_required()
    return http.refusal(request, decision, reasons.remedy(request, decision))


def _is_simple(head: RequestHead) -> bool:
    """It has no body, and may be sent a second time if nobody answers the first."""
    safe = head.method in ("GET", "HEAD", "OPTIONS") and not http.is_websocket(head)
    return safe and not head.all(b"content-length") and not head.all(b"transfer-encoding")


def _is_refusal(refused: Refused | None) -> bool:
    """Whether a rule was broken: not that somebody hung up, or spoke out of turn."""
    return refused is not None and refused.reason in ("placeholder", "encoded")


def _cause(error: Exception) -> str:
    told = getattr(error, "cause", "") or getattr(error, "strerror", "") or str(error)
    return str(told)
