"""What is granted for a time is one more layer of the run's policy, and no more than that."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ags.egress.fence import Terms
from ags.egress.model import Request
from ags.egress.policy import Layer, Rule, decide, merge
from ags.errors import AgsError
from ags.network import Network
from ags.supervisor.granting import Granting

DENIES = merge([Layer("user", allow=(Rule("mine.example"),), deny=(Rule("bad.example"),))])


class Fenced:
    """What of a network is asked for; listening is tried with whole runs."""

    def __init__(self) -> None:
        self.fence = SimpleNamespace(terms=Terms(DENIES))
        self.told: list[str] = []
        self.granting = Granting(cast(Network, self), self.told.append)

    async def change(self, terms: Terms) -> None:
        self.fence.terms = terms

    async def grant(self, rule: object, seconds: object = 60) -> Any:
        return await self.granting.verbs()["grant"]({"rule": rule, "seconds": seconds})

    def lets(self, host: str, port: int = 443) -> bool:
        return decide(self.fence.terms.policy, Request(host, port, "tls")).allowed


def test_what_is_denied_stays_so_and_nothing_else_is_open() -> None:
    async def scene() -> None:
        fenced = Fenced()
        await fenced.grant("new.example")
        await fenced.grant("bad.example")
        assert fenced.lets("new.example") and fenced.lets("mine.example")
        assert not fenced.lets("bad.example") and not fenced.lets("other.example")
        fenced.granting.close()

    asyncio.run(scene())


def test_each_ends_in_its_own_time_and_granted_again_it_goes_on() -> None:
    async def scene() -> None:
        fenced = Fenced()
        await fenced.grant("short.example", 0.05)
        await fenced.grant("long.example", 0.05)
        await fenced.grant("long.example", 60)
        async with asyncio.timeout(60):
            while fenced.lets("short.example"):
                await asyncio.sleep(0.01)
        assert fenced.lets("long.example") and "no longer allowed: short.example" in fenced.told
        # As a policy that was read anew meanwhile.
        assert len(fenced.granting.within(DENIES).layers) == len(DENIES.layers) + 1
        fenced.granting.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [
        (None, 60), ("a.example\n- b.example", 60), ("{host: a.example, sorts: []}", 60), ("[", 60),
        ("a.example", 0), ("a.example", -1), ("a.example", float("nan")), ("a.example", 10**9),
        ("a.example", True), ("a.example", "60"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_changes_nothing(rule: object, seconds: object) -> None:
    fenced = Fenced()
    with pytest.raises(AgsError):
        asyncio.run(fenced.grant(rule, seconds))
    assert fenced.fence.terms.policy is DENIES and fenced.told == []
