"""Fences that are broken on purpose, and a person who is not there: see `whole_cli.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ags.backends.base import Sandbox
from ags.egress import indexes, policy, server
from ags.egress.asks import Asks
from ags.egress.model import Decision
from ags.egress.pool import Pool
from ags.egress.server import Server
from ags.kernel import netns
from ags.kernel.netns import Helper, Opened, Wanted
from ags.network import Network
from ags.supervisor import fencing
from tests.attack.patching import Patch

ALLOWED = "api.example"
WAY_OUT = (
    "link add out type veth peer name nowhere",
    "addr add 203.0.113.2/24 dev out",
    "link set out up",
    "route add default via 203.0.113.1",
)


def with_a_listener_missing(patch: Patch) -> None:
    whole = netns.open_sockets

    async def opened(init: int, wanted: Wanted, helper: Helper | None = None) -> Opened:
        made = await whole(init, wanted, helper)
        missing = [one for one in made.listeners if one.getsockname()[1] == 443]
        for one in missing:
            one.close()
        return replace(made, listeners=tuple(set(made.listeners).difference(missing)))

    patch.setattr(netns, "open_sockets", opened)


def with_every_name_the_same(patch: Patch) -> None:
    address = Pool.address
    patch.setattr(Pool, "address", lambda self, name: address(self, ALLOWED))


def with_a_silent_resolver(patch: Patch) -> None:
    async def asked(self: Server, link: object) -> None:
        return None

    patch.setattr(Server, "_ask", asked)


def with_everything_allowed(patch: Patch) -> None:
    said = Decision(True, "allowed", "everything", "nobody")
    for module in (server, policy):
        patch.setattr(module, "decide", lambda *given: said)


def with_nothing_allowed(patch: Patch) -> None:
    patch.setattr(server, "decide", lambda *given: Decision(False, "not-listed", "", ""))


def with_a_way_out(patch: Patch) -> None:
    open_ = Network.open

    async def opened(self: Network, sandbox: Sandbox) -> None:
        enter = ("nsenter", "-t", str(sandbox.init), "--net", "ip")
        for line in WAY_OUT:
            subprocess.run((*enter, *line.split()), check=True)
        await open_(self, sandbox)

    patch.setattr(Network, "open", opened)


def with_later_helpers_killed(patch: Patch) -> None:
    """All but the first, which raised the fence."""
    begin, begun = Helper.__init__, []

    def beginning(self: Helper) -> None:
        begin(self)
        begun.append(self)
        if len(begun) > 1:
            os.kill(self._child.pid, signal.SIGKILL)

    patch.setattr(Helper, "__init__", beginning)


def with_nobody_to_answer(patch: Patch) -> None:
    defaults = Asks.__init__.__kwdefaults__
    assert defaults is not None
    patch.setitem(defaults, "patience", 1.0)


def with_hours_that_pass(patch: Patch) -> None:
    """One, for those who ask, as soon as there is a file of that name in AGS_HOME."""
    defaults = Asks.__init__.__kwdefaults__
    assert defaults is not None
    later = Path(sys.argv[1], LATER)
    patch.setitem(defaults, "clock", lambda: time.monotonic() + 3600 * later.exists())


def with_patience_for_indexes(patch: Patch) -> None:
    """However slow the machine is, what they have to say is waited for."""
    patch.setattr(fencing, "PATIENCE", 60.0)
    patch.setattr(indexes, "PAGE_TIMEOUT", 60.0)
    patch.setattr(indexes.learn, "__defaults__", (60.0,))


HOURS_PASS, LATER = "hours pass", "later"
INDEXES_WAITED_FOR = "indexes are waited for"
LATER_HELPERS_KILLED = "later helpers are killed"
NOBODY_ANSWERS = "nobody answers"
BROKEN: dict[str, Callable[[Patch], None]] = {
    "a listener is missing": with_a_listener_missing,
    "every name has the same address": with_every_name_the_same,
    "the resolver is silent": with_a_silent_resolver,
    "the policy allows everything": with_everything_allowed,
    "the policy allows nothing": with_nothing_allowed,
    "a route leads out": with_a_way_out,
}
FAULTS = BROKEN | {
    HOURS_PASS: with_hours_that_pass,
    INDEXES_WAITED_FOR: with_patience_for_indexes,
    LATER_HELPERS_KILLED: with_later_helpers_killed,
    NOBODY_ANSWERS: with_nobody_to_answer,
}
