"""What every connection of a run is judged by, and the way out for those that may go."""

from __future__ import annotations

import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from ags.egress import audit, company, inject, policy, resolve
from ags.egress.audit import Line
from ags.egress.company import CompanyProxy
from ags.egress.desk import Desk
from ags.egress.hosts import HOST_NAME
from ags.egress.http import Headers
from ags.egress.inject import Injection, Misused, Placeholder, Scanner, Swapped
from ags.egress.link import Link, Secure
from ags.egress.model import Decision, Request
from ags.egress.outer import Idle, Outer
from ags.egress.policy import Policy
from ags.egress.pool import Pool
from ags.egress.tls import Authority, Session
from ags.frozen import frozen

Ask = Callable[[Request, Decision], Awaitable[Decision]]
"""Holds a refused request for a bounded time, and comes back with what the person said."""


MOST_SESSIONS = 64


@frozen
class Terms:
    """What may change while the run goes on, all of it at once."""

    policy: Policy = Policy()
    injections: tuple[Injection, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    desk: Desk | None = None
    """Answers for some hosts, and knows secrets that change by themselves."""


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
        proxy: CompanyProxy | None = None,
    ) -> None:
        self.terms = terms
        self.authority = authority
        self.pool = Pool()
        self.idle = Idle(self.hang_up)
        self._upstream = upstream
        self._record = record
        self._secret = secret
        self._lookup = lookup
        self._ask = ask
        self._company = proxy
        self.passed: set[tuple[str, str]] = set()
        """Each secret and the host that its placeholder went to in a body, which is noted once."""
        self._contexts: dict[Path, ssl.SSLContext] = {}
        self._sessions: dict[tuple[str, int, ssl.SSLContext], ssl.SSLSession] = {}

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
        if fixed is None and self._company is not None:
            made, at = await company.dial(self._company, request.host, request.port, self._lookup)
            return Link(made), str(at)
        addresses = await resolve.resolve(request.host, self._lookup, fixed)
        port = (upstream.port if upstream else None) or request.port
        dialled = await resolve.dial(addresses, port)
        return Link(dialled.socket), str(dialled.address)

    def verified(self, host: str) -> ssl.SSLContext:
        """To end TLS with the real host, whose name and certificate are checked."""
        upstream = self.policy.upstream(host)
        if upstream is None or upstream.ca is None:
            return self._upstream
        if upstream.ca not in self._contexts:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_verify_locations(cafile=upstream.ca)
            self._contexts[upstream.ca] = context
        return self._contexts[upstream.ca]

    def session(self, request: Request) -> Session:
        """TLS with the real host, by the keys of the last one where there was one."""
        context = self.verified(request.host)
        earlier = self._sessions.get((request.host, request.port, context))
        return Session(context, request.host, earlier)

    def hang_up(self, outer: Outer) -> None:
        if isinstance(outer.talk, Secure):
            self._remember(outer.wanted, outer.talk.session)
        outer.talk.link.close()

    def _remember(self, request: Request, session: Session) -> None:
        if session.resumed:
            return  # what was gone on with is good for the next one, too; a copy costs as much
        if len(self._sessions) >= MOST_SESSIONS:
            self._sessions.clear()
        if (resumable := session.resumable) is not None:
            self._sessions[request.host, request.port, session.context] = resumable

    def swap(self, headers: Headers, target: str, request: Request) -> Swapped | Misused:
        desk = self.terms.desk
        stands = {each.secret_id: each for each in self._placeholders}
        injections = (*self.terms.injections, *(desk.injections if desk else ()))
        swapped = inject.swap(headers, target, request, injections, stands, self._value)
        if desk is None or isinstance(swapped, Misused) or not swapped.carried:
            return swapped
        more = tuple((value, value) for value in desk.covered())
        return replace(swapped, carried=(*swapped.carried, *more))

    def scanner(self) -> Scanner:
        """For what goes up with a request."""
        return Scanner(self._placeholders)

    @property
    def _placeholders(self) -> tuple[Placeholder, ...]:
        desk = self.terms.desk
        return (*self.terms.placeholders, *(desk.placeholders if desk else ()))

    def _value(self, secret_id: str) -> str | None:
        desk = self.terms.desk
        found = desk.lookup(secret_id) if desk else None
        return self._secret(secret_id) if found is None else found

    def noted(self, request: Request, decision: Decision) -> Note:
        return Note(self._record, request, decision)


class Note:
    """A line of the audit, written when what it tells of is over."""

    def __init__(
        self, record: Callable[[Line], None], request: Request, decision: Decision
    ) -> None:
        self._record = record
        self._request, self._decision = request, decision
        self._time, self._begun = time.time(), time.monotonic()
        self._written = False

    def write(
        self,
        *,
        address: str | None = None,
        sent: int = 0,
        received: int = 0,
        reason: str = "",
        refused: bool = False,
    ) -> None:
        """`refused`: what was allowed at first turned out not to be."""
        if self._written:
            return
        self._written = True
        seconds = round(time.monotonic() - self._begun, 3)
        decision = replace(self._decision, reason=reason) if reason else self._decision
        if refused:
            decision = replace(decision, allowed=False)
        carried = (address, sent, received, seconds)
        self._record(audit.line_of(self._time, self._request, decision, carried))

    def failed(self, error: Exception) -> None:
        """It could not be dialled. Where its name leads to no address of the open internet, that is
        our word and not the network's."""
        reason = str(getattr(error, "reason", "unreachable"))
        self.write(reason=reason, refused=reason == "address")
