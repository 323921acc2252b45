"""Rules that hold in one run for a time, beside its policy: what any layer denies stays denied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from ags.control.server import Verb
from ags.egress.asks import LAYER, LONGEST, MOST_GRANTS
from ags.egress.edit import read_rule, spelled
from ags.egress.policy import Layer, Policy, Rule
from ags.errors import AgsError
from ags.network import Network
from ags.paint import exact_time

WHAT = "allow this for a time"


class Granting:
    """`grant`."""

    def __init__(self, network: Network, tell: Callable[[str], None]) -> None:
        self._network, self._tell = network, tell
        self._ends: dict[Rule, asyncio.TimerHandle] = {}

    def verbs(self) -> dict[str, Verb]:
        return {"grant": self._grant}

    def within(self, policy: Policy) -> Policy:
        """With what is granted now, and no longer what was."""
        layers = tuple(layer for layer in policy.layers if layer.name != LAYER)
        granted = (Layer(LAYER, allow=tuple(self._ends)),) if self._ends else ()
        return replace(policy, layers=(*layers, *granted))

    def close(self) -> None:
        for each in self._ends.values():
            each.cancel()

    async def _grant(self, request: Mapping[str, object]) -> dict[str, object]:
        rule, seconds = _asked(request)
        if len(self._ends) >= MOST_GRANTS and rule not in self._ends:
            raise AgsError(WHAT, cause=f"{MOST_GRANTS} rules are granted already")
        if (before := self._ends.get(rule)) is not None:
            before.cancel()
        timer = asyncio.get_running_loop().call_later(seconds, self._end, rule)
        self._ends[rule] = timer
        try:
            terms = self._network.fence.terms
            await self._network.change(replace(terms, policy=self.within(terms.policy)))
        except BaseException:
            timer.cancel()
            if self._ends.get(rule) is timer:  # and not that of another grant since
                del self._ends[rule]
            self._renew()  # another change since may have taken it along
            raise
        self._tell(f"allowed for {exact_time(seconds)}: {spelled(rule)}")
        return {"rule": spelled(rule), "seconds": seconds}

    def _end(self, rule: Rule) -> None:
        del self._ends[rule]
        self._renew()
        self._tell(f"no longer allowed: {spelled(rule)}")

    def _renew(self) -> None:
        """At once, which `change` is not: that there is less to listen to can wait."""
        terms = self._network.fence.terms
        self._network.fence.terms = replace(terms, policy=self.within(terms.policy))


def _asked(request: Mapping[str, object]) -> tuple[Rule, float]:
    rule, seconds = request.get("rule"), request.get("seconds")
    if not isinstance(rule, str):
        raise AgsError(WHAT, cause="the request names no rule")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise AgsError(WHAT, cause="its seconds are no number")
    if not 0 < seconds <= LONGEST:
        cause = f"it holds for up to {LONGEST / 86400:g} days"
        raise AgsError(WHAT, subject=ascii(rule)[:80], cause=cause, hint="say less, such as 1h")
    return read_rule(rule), float(seconds)
