"""Refused requests that wait for the person's word: who goes, who does not, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec

import pytest

from ags.egress import asks as module
from ags.egress import policy
from ags.egress.asks import Asks, Change, Grants, Verdict, asked_of, rule_for
from ags.egress.edit import spelled
from ags.egress.fence import Fence, Terms
from ags.egress.load import parse
from ags.egress.model import Decision, Request
from ags.egress.policy import Layer, Policy, Rule, merge
from ags.egress.tls import Authority
from ags.errors import AgsError

P = ParamSpec("P")

ONCE, ALWAYS, DENY = Verdict("once"), Verdict("always"), Verdict("deny")
HOUR = Verdict("for", seconds=3600)
WEB = Request("new.example", 443, "tls")
POST = Request("api.example", 443, "tls", "POST", "/v1/items")
READ_ONLY = Rule("api.example", methods=("GET",))


def asking(*allow: Rule, deny: tuple[Rule, ...] = ()) -> Policy:
    return merge([Layer("user", allow=allow, deny=deny, ask=True)])


@dataclass
class Person:
    """Somebody who is asked, with a clock and a policy of their own."""

    policy: Policy = field(default_factory=lambda: asking(READ_ONLY))
    now: float = 1000.0
    told: list[Change] = field(default_factory=list)
    patience: float = 60.0
    most: int = 64

    def __post_init__(self) -> None:
        self.asks = Asks(
            lambda: self.policy,
            most=self.most,
            patience=self.patience,
            clock=lambda: self.now,
            on_change=self.told.append,
            tag="a",
        )

    def send(self, request: Request) -> asyncio.Task[Decision]:
        """As a connection would: each in a task of its own."""
        return asyncio.create_task(self.judge(request))

    async def judge(self, request: Request) -> Decision:
        decision = policy.decide(self.policy, request)
        return decision if decision.allowed else await self.asks.ask(request, decision)

    async def held(self, *requests: Request) -> list[asyncio.Task[Decision]]:
        sent = [self.send(each) for each in requests]
        await settle()
        return sent

    async def asked_again(self, request: Request) -> bool:
        """Whether it is held; if so, it gives up."""
        (task,) = await self.held(request)
        if task.done():
            return False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return True

    def outcomes(self) -> list[str]:
        return [change.outcome for change in self.told]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def played(scene: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test with an event loop of its own, and an end."""

    @functools.wraps(scene)
    def test(*given: P.args, **named: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(120):
                await scene(*given, **named)

        asyncio.run(bounded())

    return test


@contextlib.asynccontextmanager
async def waiting(
    person: Person, *requests: Request
) -> AsyncIterator[list[asyncio.Task[Decision]]]:
    tasks = await person.held(*requests)
    assert not any(task.done() for task in tasks)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@played
async def test_a_request_waits_until_it_is_allowed_and_then_goes_by_a_rule_of_its_own() -> None:
    person = Person()
    async with waiting(person, WEB) as (task,):
        (pending,) = person.asks.pending()
        assert (pending.id, pending.request, pending.since) == ("a1", WEB, 1000.0)
        assert person.asks.answer("a1", ONCE).request == WEB
        decision = await task
    assert (decision.allowed, decision.rule) == (True, "new.example:443")
    assert (decision.layer, decision.intercept) == ("grant", False)
    assert person.asks.pending() == ()
    assert person.outcomes() == ["asked", "once"]
    assert [change.asking for change in person.told] == [True, False]


@played
async def test_a_denial_holds_for_the_run_and_for_nothing_else() -> None:
    person = Person()
    async with waiting(person, WEB) as (task,):
        person.asks.answer("a1", DENY)
        assert (await task).reason == "ask-denied"
    again = await person.judge(WEB)
    assert (again.allowed, again.reason, again.ask) == (False, "ask-denied", False)
    assert await person.asked_again(Request("new.example", 80, "http"))
    assert await person.asked_again(Request("other.example", 443, "tls"))


@played
async def test_nobody_there_means_no() -> None:
    person = Person(patience=0.5)
    first, second = await person.held(WEB, WEB)
    assert [(await task).reason for task in (first, second)] == ["ask-timeout"] * 2
    assert person.asks.pending() == () and person.outcomes() == ["asked", "time-out"]
    with pytest.raises(AgsError, match="nothing waits under this id"):
        person.asks.answer("a1", ONCE)
    assert await person.asked_again(WEB)


@played
async def test_the_same_request_joins_the_one_that_waits() -> None:
    person = Person()
    async with waiting(person, WEB, WEB, WEB) as tasks:
        (pending,) = person.asks.pending()
        assert pending.waiting == 3
        person.asks.answer("a1", HOUR)
        assert all([(await task).allowed for task in tasks])
    assert (await person.judge(WEB)).allowed


@played
async def test_allowed_once_is_one_for_the_newest_and_the_others_are_refused() -> None:
    person = Person()
    async with waiting(person, POST, POST, POST) as tasks:
        person.asks.answer("a1", ONCE)
        said = [(await task).reason for task in tasks]
    assert said == ["ask-used", "ask-used", "allowed"]
    assert await person.asked_again(POST)


@played
async def test_a_grant_ends_with_its_time() -> None:
    person = Person()
    async with waiting(person, WEB):
        person.asks.answer("a1", HOUR)
    person.now += 3599
    assert (await person.judge(WEB)).allowed
    person.now += 1
    assert await person.asked_again(WEB)


@played
async def test_a_grant_ends_with_its_uses() -> None:
    person = Person()
    async with waiting(person, WEB) as (first,):
        person.asks.answer("a1", Verdict("for", seconds=3600, uses=3))
        assert (await first).allowed
    assert (await person.send(WEB)).allowed and (await person.send(WEB)).allowed
    assert await person.asked_again(WEB)


@played
async def test_one_that_gave_up_can_come_back_for_a_while() -> None:
    for seconds, goes in ((59, True), (61, False)):
        person = Person()
        (task,) = await person.held(Request("new.example", 80, "http"))
        person.asks.answer("a1", ONCE)
        assert (await task).allowed  # the tunnel, which is no request yet
        person.now += seconds
        request = Request("new.example", 80, "http", "GET", "/")
        assert await person.asked_again(request) is not goes


@played
async def test_a_connection_that_is_judged_twice_is_one_use() -> None:
    person = Person()

    async def through_the_proxy() -> list[bool]:
        return [(await person.judge(WEB)).allowed for _ in range(2)]

    task = asyncio.create_task(through_the_proxy())
    await settle()
    person.asks.answer("a1", ONCE)
    assert await task == [True, True]
    assert await person.asked_again(WEB)


@played
async def test_requests_in_a_connection_are_each_a_use() -> None:
    person = Person()

    async def conversation() -> list[bool]:
        first = Request("new.example", 80, "http", "GET", "/a")
        return [(await person.judge(first)).allowed for _ in range(2)]

    task = asyncio.create_task(conversation())
    await settle()
    person.asks.answer("a1", ONCE)
    await settle()
    assert [each.id for each in person.asks.pending()] == ["a2"]
    person.asks.answer("a2", DENY)
    assert await task == [True, False]


def test_a_connection_that_had_its_use_has_none_for_a_request_in_it() -> None:
    class Who: ...

    who, grants = Who(), Grants(lambda: 0.0)
    grants.give(WEB, ONCE)
    inside = Request("new.example", 443, "tls", "GET", "/")
    used = [grants.use(WEB, who, each, intercept=False) for each in (WEB, WEB, inside)]
    assert used == [True, True, False]


OTHERS = [
    Request("other.example", 443, "tls"),
    Request("sub.new.example", 443, "tls"),
    Request("new.example", 80, "http", "GET", "/"),
    Request("new.example", 443, "http", "GET", "/"),
    Request("new.example", 8443, "raw"),
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
@played
async def test_a_grant_is_for_one_port_of_one_host(other: Request) -> None:
    person = Person()
    async with waiting(person, WEB):
        person.asks.answer("a1", HOUR)
    assert await person.asked_again(other)
    assert (await person.judge(WEB)).allowed


@pytest.mark.parametrize(
    "other",
    [
        Request("api.example", 443, "tls", "DELETE", "/v1/items"),
        Request("api.example", 443, "tls", "POST", "/v1/items/7"),
        Request("api.example", 443, "tls", "POST", "/v1"),
    ],
    ids=str,
)
@played
async def test_where_a_rule_looks_inside_a_grant_is_for_one_method_and_path(other: Request) -> None:
    person = Person()
    async with waiting(person, POST):
        person.asks.answer("a1", HOUR)
    decision = await person.judge(POST)
    assert (decision.allowed, decision.rule) == (True, "api.example:443 POST /v1/items")
    assert await person.asked_again(other)


@pytest.mark.parametrize(
    ("method", "path", "asks"),
    [
        ("POST", "/v1/items", True),
        ("POST", "/v1/%41", True),
        ("POST", "/v1/*", False),
        ("POST", "/v1/%2a", False),
        ("POST", "/v1/../x", False),
        ("POST", "/" + "a" * 500, False),
        ("post", "/v1/items", False),
        ("M-SEARCH", "/v1/items", False),
        (None, None, False),
    ],
)
def test_what_no_rule_can_say_is_not_asked(method: str, path: str, asks: bool) -> None:
    request = Request("api.example", 443, "tls", method, path)
    refused = Decision(False, "path", "", "user", ask=True)
    wanted = asked_of(request, refused)
    assert (wanted is not None) is asks
    if wanted is not None:
        text = f"domains:\n- {spelled(rule_for(wanted))}\n"
        assert parse(text, "policy.yaml", "user", Path("/")).allow == (rule_for(wanted),)


@played
async def test_what_is_denied_inside_stays_denied_after_a_grant() -> None:
    """The grant must not make the connection opaque: then nobody would see the method."""
    person = Person(asking(deny=(Rule("new.example", (), methods=("DELETE",)),)))
    async with waiting(person, WEB) as (task,):
        person.asks.answer("a1", HOUR)
        assert (await task).intercept
    inside = [Request("new.example", 443, "tls", method, "/") for method in ("GET", "DELETE")]
    said = [await person.judge(each) for each in inside]
    assert [(each.allowed, each.reason) for each in said] == [
        (True, "allowed"),
        (False, "denied"),
    ]


@played
async def test_a_host_with_a_secret_is_looked_into_after_a_grant_and_one_without_is_not() -> None:
    for secrets in ([], [("new.example", 443)]):
        person = Person(merge([Layer("user", ask=True)], secrets))
        async with waiting(person, WEB) as (task,):
            person.asks.answer("a1", HOUR)
            assert (await task).intercept is bool(secrets)


@played
async def test_nobody_is_asked_for_what_the_repository_leaves_out() -> None:
    narrow = Layer("repository", allow=(Rule("api.example"),), narrows=True, keeps=True)
    person = Person(merge([Layer("user", ask=True), narrow]))
    assert (await person.judge(WEB)).reason == "narrowed"
    assert await person.asked_again(Request("api.example", 443, "tls"))


@played
async def test_always_holds_until_the_policy_says_it_itself_or_not() -> None:
    person = Person()
    async with waiting(person, WEB):
        pending = person.asks.answer("a1", ALWAYS)
    assert pending.rule == "{host: new.example, ports: [443]}"
    person.now += 1e9
    assert (await person.judge(WEB)).layer == "grant"
    person.policy = asking(READ_ONLY, Rule("new.example", (443,)))
    person.asks.reloaded()
    assert (await person.judge(WEB)).layer == "user"
    person.policy = asking(READ_ONLY)
    person.asks.reloaded()
    assert await person.asked_again(WEB)


@played
async def test_a_new_policy_answers_what_it_can() -> None:
    person = Person()
    other = Request("other.example", 443, "tls")
    third = Request("third.example", 443, "tls")
    async with waiting(person, WEB, other, third) as (web, no, left):
        person.policy = asking(Rule("new.example"), deny=(Rule("other.example", ()),))
        person.asks.reloaded()
        assert ((await web).allowed, (await web).layer) == (True, "user")
        assert (await no).reason == "denied"
        assert [each.request for each in person.asks.pending()] == [third]
        assert not left.done()


@played
async def test_a_new_policy_that_looks_inside_is_obeyed_by_who_waited() -> None:
    person = Person()
    async with waiting(person, WEB) as (task,):
        person.policy = asking(Rule("new.example", methods=("GET",)))
        person.asks.reloaded()
        assert (await task).intercept


@played
async def test_an_answer_is_judged_by_the_policy_of_its_moment() -> None:
    person = Person()
    async with waiting(person, WEB) as (task,):
        person.policy = asking(deny=(Rule("new.example", ()),))
        person.asks.answer("a1", HOUR)
        assert (await task).reason == "denied"


@played
async def test_only_so_many_questions_wait_at_once() -> None:
    person = Person(most=2)
    hosts = [Request(f"h{number}.example", 443, "tls") for number in range(3)]
    async with waiting(person, *hosts[:2]):
        assert (await person.judge(hosts[2])).reason == "ask-full"
        person.asks.answer("a1", DENY)
        assert await person.asked_again(hosts[2])


@played
async def test_only_so_many_connections_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 3)
    person = Person()
    async with waiting(person, WEB, WEB, POST):
        assert (await person.judge(WEB)).reason == "ask-full"
        assert (await person.judge(Request("h.example", 443, "tls"))).reason == "ask-full"
        assert len(person.asks.pending()) == 2


@played
async def test_grants_and_denials_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GRANTS", 1)
    monkeypatch.setattr(module, "MOST_DENIALS", 1)
    person = Person()
    other = Request("other.example", 443, "tls")
    async with waiting(person, WEB, other) as (first, second):
        person.asks.answer("a1", HOUR)
        with pytest.raises(AgsError, match="1 grants are in force already"):
            person.asks.answer("a2", HOUR)
        assert (await first).allowed and not second.done()
        person.now += 3600
        person.asks.answer("a2", HOUR)
        assert (await second).allowed
    async with waiting(person, WEB, POST):
        person.asks.answer("a3", DENY)
        person.asks.answer("a4", DENY)
    assert (await person.judge(POST)).reason == "ask-denied"
    assert await person.asked_again(WEB)


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict("for"),
        Verdict("for", seconds=-1),
        Verdict("for", seconds=1e9),
        Verdict("for", seconds=float("nan")),
        Verdict("for", seconds=60, uses=0),
    ],
    ids=repr,
)
@played
async def test_an_answer_that_cannot_be_meant_leaves_the_question_open(verdict: Verdict) -> None:
    person = Person()
    async with waiting(person, WEB):
        with pytest.raises(AgsError, match="a grant"):
            person.asks.answer("a1", verdict)
        assert len(person.asks.pending()) == 1


@played
async def test_a_connection_that_ends_takes_its_question_along() -> None:
    person = Person()
    async with waiting(person, WEB):
        pass
    assert person.asks.pending() == () and person.outcomes() == ["asked", "gone"]


def test_two_runs_do_not_ask_under_the_same_ids() -> None:
    tags = {Asks(asking)._tag for _ in range(50)}
    assert len(tags) > 45 and all(tag.isalpha() and len(tag) == 3 for tag in tags)


@played
async def test_a_fence_holds_what_may_be_asked_and_nothing_else() -> None:
    for ask in (True, False):
        current = merge([Layer("user", ask=ask)])
        asks = Asks(lambda current=current: current, tag="a")  # type: ignore[misc]
        fence = Fence(
            Terms(current),
            authority=Authority("test"),
            upstream=ssl.create_default_context(),
            record=lambda line: None,
            ask=asks.ask,
        )
        address = await fence.judge(Request("192.0.2.7", 443, "tls"))
        assert (address.allowed, address.reason) == (False, "address")
        task = asyncio.create_task(fence.judge(WEB))
        await settle()
        assert task.done() is not ask
        if ask:
            asks.answer("a1", ONCE)
        assert (await task).allowed is ask
