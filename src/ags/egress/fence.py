"""What every connection of a run is judged by, and the way out for those that may go."""

from __future__ import annotations

import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ags.egress import audit, inject, policy, resolve
from ags.egress.audit import Line
from ags.egress.hosts import HOST_NAME
from ags.egress.http import Headers
from ags.egress.inject import Injection, Misused, Placeholder, Scanner, Swapped
from ags.egress.link import Link
from ags.egress.model import Decision, Request
from ags.egress.policy import Policy
from ags.egress.pool import Pool
from ags.egress.tls import Authority
from ags.frozen import frozen

Ask = Callable[[Request, Decision], Awaitable[Decision]]
"""Holds a refused request for a bounded time, and comes back with what the person said."""

HINT = "The person who started it can allow it: `ags policy add DOMAIN`."


@frozen
class Terms:
    """What may change while the run goes on, all of it at once."""

    policy: Policy = Policy()
    injections: tuple[Injection, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()


class Fence:
    """One per run. Everything in it lives outside the sandbox."""

    def __init__(
        self,
        terms: Terms,
        *,
        authority: Authority,
        upstream: ssl.SSLContext,
        record: Callable[[Line], None],
        secret: inject.Lookup = lambda secret_id: None,
        lookup: resolve.Lookup = resolve.system_lookup,
        ask: Ask | None = None,
    ) -> None:
        self.terms = terms
        self.authority = authority
        self.pool = Pool()
        self._upstream = upstream
        self._record = record
        self._secret = secret
        self._lookup = lookup
        self._ask = ask

    @property
    def policy(self) -> Policy:
        return self.terms.policy

    async def judge(self, request: Request) -> Decision:
        """Before anything of it leaves. No name is looked up for what is refused."""
        decision = policy.decide(self.policy, request)
        if decision.allowed or self._ask is None or not (decision.ask and self.policy.ask):
            return decision
        return await self._ask(request, decision)

    async def dial(self, request: Request) -> tuple[Link, str]:
        """To where an allowed request goes, looked up once; and the address it was."""
        upstream = self.policy.upstream(request.host)
        fixed = upstream.address if upstream else None
        if request.host == HOST_NAME:
            fixed = "127.0.0.1"
        addresses = await resolve.resolve(request.host, self._lookup, fixed)
        port = (upstream.port if upstream else None) or request.port
        dialled = await resolve.dial(addresses, port)
        return Link(dialled.socket), str(dialled.address)

    def verified(self, host: str) -> ssl.SSLContext:
        """To end TLS with the real host, whose name and certificate are checked."""
        upstream = self.policy.upstream(host)
        if upstream is None or upstream.ca is None:
            return self._upstream
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cafile=upstream.ca)
        return context

    def swap(self, headers: Headers, target: str, request: Request) -> Swapped | Misused:
        stands = {each.secret_id: each for each in self.terms.placeholders}
        return inject.swap(headers, target, request, self.terms.injections, stands, self._secret)

    def scanner(self) -> Scanner:
        return Scanner(self.terms.placeholders)

    def noted(self, request: Request, decision: Decision) -> Note:
        return Note(self._record, request, decision)


class Note:
    """A line of the audit, written when what it tells of is over."""

    def __init__(
        self, record: Callable[[Line], None], request: Request, decision: Decision
    ) -> None:
        self._record = record
        self._line = audit.line_of(time.time(), request, decision)
        self._begun = time.monotonic()
        self._written = False

    def write(
        self, *, address: str | None = None, sent: int = 0, received: int = 0, reason: str = ""
    ) -> None:
        if self._written:
            return
        self._written = True
        seconds = round(time.monotonic() - self._begun, 3)
        self._record(
            replace(
                self._line,
                reason=reason or self._line.reason,
                address=address,
                sent=sent,
                received=received,
                seconds=seconds,
            )
        )
