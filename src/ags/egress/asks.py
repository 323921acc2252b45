"""Refused requests that wait for the person's word, and what that word allows from then on.

A grant is a rule for exactly what was asked, put beside the policy as one more layer: what the
policy denies or leaves out stays so, and what it must look into is looked into.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from ags.egress import policy
from ags.egress.edit import spelled
from ags.egress.model import Decision, Request
from ags.egress.paths import bad_pattern
from ags.egress.policy import DEFAULT_SCHEMES, Layer, Policy, Rule
from ags.errors import AgsError
from ags.frozen import frozen

LAYER = "grant"
MOST_HELD = 256
"""Connections that wait at once: the others must find room beside them."""
MOST_GRANTS, MOST_DENIALS = 256, 1024
MOST_PATH = 500
"""Letters of a path that a person can still judge."""
ONCE = 60.0
"""Seconds that something allowed once has to come, should it have given up waiting."""
USES = 10_000
"""How often something allowed for a time may be done."""
LONGEST = 7 * 86400.0

DENIED, EXPIRED, FULL, USED = "ask-denied", "ask-timeout", "ask-full", "ask-used"
"""Reasons of a refusal: the person said no, nobody answered, too many wait, another had the use."""
_AGAIN = "again"
_INSIDE = ("method", "path")
_LETTERS = "bcdfghjkmnpqrstvwxz"

Kind = Literal["once", "for", "always", "deny"]
Outcome = Literal["asked", "once", "for", "always", "deny", "time-out", "reload", "gone"]


@frozen
class Verdict:
    """What the person says to an ask. `always` holds in this run until its policy has the rule."""

    kind: Kind
    seconds: float = 0.0
    uses: int = USES


@frozen
class Pending:
    """A question to the person."""

    id: str
    request: Request
    """All that is asked for: without a method, the whole of that port."""
    since: float
    """By the clock of the asks."""
    waiting: int = 0
    """Connections that wait for the answer."""

    @property
    def rule(self) -> str:
        """What `always` adds to the person's policy, as an item of `domains:`."""
        return spelled(rule_for(self.request))


@frozen
class Change:
    """An ask came up or went away."""

    pending: Pending
    outcome: Outcome
    asking: bool
    """Whether any is left."""


def asked_of(request: Request, decision: Decision) -> Request | None:
    """What to ask for: this port of the host or, where a rule looks inside, this very request.

    None for what no rule could say. In a rule, a star in the path would mean more than itself.
    """
    if decision.reason not in _INSIDE:
        return replace(request, method=None, path=None)
    path = policy.normal_path(request.path or "")
    if path is None or len(path) > MOST_PATH or "*" in path or bad_pattern(path):
        return None
    if not re.fullmatch(r"[A-Z]{1,20}", request.method or "", re.ASCII):
        return None
    return replace(request, path=path)


def rule_for(wanted: Request) -> Rule:
    """The rule that allows this and nothing else."""
    usual = DEFAULT_SCHEMES.get(wanted.port, "raw") == wanted.scheme
    return Rule(
        wanted.host,
        (wanted.port,),
        None if usual else wanted.scheme,
        (wanted.method,) if wanted.method else (),
        (wanted.path,) if wanted.path else (),
    )


class _Grant:
    def __init__(self, until: float, uses: float, lasting: bool) -> None:
        self.until = until
        self.left = uses
        self.lasting = lasting
        self.users: weakref.WeakSet[object] = weakref.WeakSet()


class Grants:
    """What the person has allowed, until when and how often. Knows no event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._given: dict[Request, _Grant] = {}

    def give(self, wanted: Request, verdict: Verdict) -> None:
        now = self._clock()
        self._given = {key: grant for key, grant in self._given.items() if grant.until > now}
        if len(self._given) >= MOST_GRANTS and wanted not in self._given:
            cause = f"{MOST_GRANTS} grants are in force already"
            raise AgsError("allow this", subject=wanted.host, cause=cause)
        seconds, uses = _extent(verdict)
        self._given[wanted] = _Grant(now + seconds, uses, verdict.kind == "always")

    def use(self, wanted: Request, who: object, request: Request, intercept: bool) -> bool:
        """Whether this may go by a grant, which then has one use less.

        A connection is judged at the proxy and once more at its hello, which is one use. Where each
        request in it is judged as well, those are counted in its place.
        """
        grant = self._given.get(wanted)
        if grant is None or grant.until <= self._clock():
            return False
        whole = request.method is None
        if whole and who in grant.users:
            return True
        if grant.left < 1:
            return False
        if whole and (intercept or request.scheme == "http"):
            return True
        grant.left -= 1
        if whole:
            grant.users.add(who)
        return True

    def drop_lasting(self) -> None:
        self._given = {key: grant for key, grant in self._given.items() if not grant.lasting}


def _extent(verdict: Verdict) -> tuple[float, float]:
    if verdict.kind == "once":
        return ONCE, 1
    if verdict.kind == "always":
        return math.inf, math.inf
    if not 0 < verdict.seconds <= LONGEST:
        raise AgsError("allow this", cause=f"a grant lasts up to {LONGEST / 86400:g} days")
    if verdict.uses < 1:
        raise AgsError("allow this", cause="a grant has at least one use")
    return verdict.seconds, verdict.uses


class _Waiter:
    def __init__(self, request: Request, who: object) -> None:
        self.request = request
        self.who = who
        self.said: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def say(self, reason: str) -> None:
        """Empty: it may go."""
        if not self.said.done():
            self.said.set_result(reason)


class _Ask:
    def __init__(self, pending: Pending, deadline: float) -> None:
        self.pending = pending
        self.deadline = deadline
        self.waiters: list[_Waiter] = []


class Asks:
    """One per run. `ask` is what a Fence holds refused requests with."""

    def __init__(
        self,
        current: Callable[[], Policy],
        *,
        most: int = 64,
        patience: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[Change], None] = lambda change: None,
        tag: str = "",
    ) -> None:
        """`current` is the policy in force, `most` how many questions a person is shown at once."""
        self.patience = patience
        self.clock = clock
        self._current = current
        self._most = most
        self._on_change = on_change
        # An answer meant for one run must not fit a question of another.
        self._tag = tag or "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(3))
        self._count = 0
        self._asks: dict[Request, _Ask] = {}
        self._grants = Grants(clock)
        self._denied: dict[Request, None] = {}

    def pending(self) -> tuple[Pending, ...]:
        """Oldest first."""
        return tuple(replace(a.pending, waiting=len(a.waiters)) for a in self._asks.values())

    async def ask(self, request: Request, decision: Decision) -> Decision:
        """The refusal, or what the person made of it. Nobody is asked what no grant could allow."""
        wanted = asked_of(request, decision)
        if wanted is None:
            return decision
        granted = self._granted(wanted, request)
        if not granted.allowed:
            return granted
        if wanted in self._denied:
            return _refused(decision, DENIED)
        who = asyncio.current_task()
        if self._grants.use(wanted, who, request, granted.intercept):
            return granted
        reason = await self._hold(wanted, _Waiter(request, who))
        if reason == _AGAIN:
            return await self._judged_again(request)
        # Not what was found before the wait: the policy may be another by now.
        return _refused(decision, reason) if reason else self._granted(wanted, request)

    def answer(self, id_: str, verdict: Verdict) -> Pending:
        """What was answered. For `always`, its rule is the caller's to write down."""
        wanted, ask = self._found(id_)
        if verdict.kind == "deny":
            self._deny(wanted)
        else:
            self._grants.give(wanted, verdict)
        # The newest first: who came earlier may have given up, which does not show from here.
        for waiter in reversed(ask.waiters):
            waiter.say(DENIED if verdict.kind == "deny" else self._taken(wanted, waiter))
        return self._close(wanted, verdict.kind)

    def reloaded(self) -> None:
        """The policy is another: it now says itself what was allowed for good, or does not."""
        self._grants.drop_lasting()
        for wanted, ask in tuple(self._asks.items()):
            decision = policy.decide(self._current(), wanted)
            if decision.allowed or not decision.ask:
                for waiter in ask.waiters:
                    waiter.say(_AGAIN)
                self._close(wanted, "reload")

    def _granted(self, wanted: Request, request: Request) -> Decision:
        """As the policy would decide with a rule for what is asked."""
        current = self._current()
        layer = Layer(LAYER, allow=(rule_for(wanted),))
        return policy.decide(replace(current, layers=(*current.layers, layer)), request)

    async def _judged_again(self, request: Request) -> Decision:
        decision = policy.decide(self._current(), request)
        asks = decision.ask and self._current().ask
        return await self.ask(request, decision) if asks else decision

    async def _hold(self, wanted: Request, waiter: _Waiter) -> str:
        if sum(len(ask.waiters) for ask in self._asks.values()) >= MOST_HELD:
            return FULL
        ask = self._asks.get(wanted) or self._opened(wanted)
        if ask is None:
            return FULL
        ask.waiters.append(waiter)
        if len(ask.waiters) == 1:
            self._tell(ask.pending, "asked")
        try:
            async with asyncio.timeout_at(ask.deadline):
                return await waiter.said
        except TimeoutError:
            if self._asks.get(wanted) is ask:
                for other in ask.waiters:
                    other.say(EXPIRED)
                self._close(wanted, "time-out")
            return EXPIRED
        finally:
            ask.waiters.remove(waiter)
            if not ask.waiters and self._asks.get(wanted) is ask:
                self._close(wanted, "gone")

    def _opened(self, wanted: Request) -> _Ask | None:
        if len(self._asks) >= self._most:
            return None
        self._count += 1
        pending = Pending(f"{self._tag}{self._count}", wanted, self.clock())
        deadline = asyncio.get_running_loop().time() + self.patience
        self._asks[wanted] = _Ask(pending, deadline)
        return self._asks[wanted]

    def _close(self, wanted: Request, outcome: Outcome) -> Pending:
        ask = self._asks.pop(wanted)
        pending = replace(ask.pending, waiting=len(ask.waiters))
        self._tell(pending, outcome)
        return pending

    def _tell(self, pending: Pending, outcome: Outcome) -> None:
        self._on_change(Change(pending, outcome, bool(self._asks)))

    def _taken(self, wanted: Request, waiter: _Waiter) -> str:
        if waiter.said.done():
            return ""
        intercept = self._granted(wanted, waiter.request).intercept
        used = self._grants.use(wanted, waiter.who, waiter.request, intercept)
        return "" if used else USED

    def _deny(self, wanted: Request) -> None:
        self._denied[wanted] = None
        if len(self._denied) > MOST_DENIALS:
            del self._denied[next(iter(self._denied))]

    def _found(self, id_: str) -> tuple[Request, _Ask]:
        for wanted, ask in self._asks.items():
            if ask.pending.id == id_:
                return wanted, ask
        raise AgsError(
            "answer this",
            subject=id_,
            cause="nothing waits under this id: it was answered, or waited too long",
            hint="`ags asks` shows what waits",
        )


def _refused(decision: Decision, reason: str) -> Decision:
    return replace(decision, reason=reason, ask=False)
