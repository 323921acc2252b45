"""Protections that whole runs behind the fence rest on, each taken out: see `mutations.py`.

And faults, which are no protection's absence but what a fence has to bear.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from ags import network
from ags.backends import bwrap
from ags.backends.base import Sandbox
from ags.egress.wiring import Wiring
from ags.errors import AgsError
from ags.kernel import cgroup, netns
from ags.model import Limits
from ags.network import Network
from tests.attack.egress_mutations import EGRESS
from tests.attack.patching import Patch

Apply = Callable[[Patch], None]

WAYS, SECRETS = "egress/test_whole_ways_out.py", "egress/test_whole_secrets.py"
DEATHS = "egress/test_whole_deaths.py"
BROKEN = "egress/test_whole_checks.py::test_behind_a_broken_fence_nothing_runs"


def with_values_inside(patch: Patch) -> None:
    def inside(self: Wiring) -> dict[str, str]:
        named = {each.secret_id: each.text for each in self.placeholders}
        values = {named[secret_id]: value.reveal() for secret_id, value in self.values}
        return {name: values[text] for name, text in self.environment}

    patch.setattr(Wiring, "inside", inside)


def with_any_fence(patch: Patch) -> None:
    """A fence that does not stand is taken for one."""
    open_ = Network.open

    async def opened(self: Network, sandbox: Sandbox) -> None:
        with contextlib.suppress(AgsError):
            await open_(self, sandbox)

    patch.setattr(Network, "open", opened)


def unchecked(patch: Patch) -> None:
    async def checked(self: Network, opened: netns.Opened) -> None:
        return None

    patch.setattr(Network, "_check", checked)


def with_any_route(patch: Patch) -> None:
    patch.setattr(network, "check_routes", lambda init: None)


def outliving_us(patch: Patch) -> None:
    kept = tuple(flag for flag in bwrap.HARDENING if flag != "--die-with-parent")
    patch.setattr(bwrap, "HARDENING", kept)

    def none(run: str, limits: Limits) -> cgroup.Cgroup:
        raise cgroup.CgroupUnavailable("or the next start of any run would end what is left in it")

    patch.setattr(cgroup, "create", none)


def with_the_helper_killed(patch: Patch) -> None:
    begin = netns.Helper.__init__

    def begun(self: netns.Helper) -> None:
        begin(self)
        os.kill(self._child.pid, signal.SIGKILL)

    patch.setattr(netns.Helper, "__init__", begun)


HELPER_KILLED = "the helper is killed"
FAULTS: dict[str, Apply] = {HELPER_KILLED: with_the_helper_killed}


def _of_the_fence(name: str) -> Apply:
    return EGRESS[f"egress: {name}"][0]


WHOLE: dict[str, tuple[Apply, tuple[str, ...]]] = {
    "whole: the policy decides": (
        _of_the_fence("the policy decides"),
        (
            f"{WAYS}::test_a_proxy_that_is_used_by_hand_decides_alike",
            f"{WAYS}::test_what_another_run_has_is_out_of_reach",
        ),
    ),
    "whole: no query is passed on": (
        _of_the_fence("no query is passed on"),
        (f"{WAYS}::test_names_carry_nothing_out",),
    ),
    "whole: listed services of the host": (
        _of_the_fence("listed services of the host"),
        (f"{WAYS}::test_services_of_the_host_are_out_of_reach",),
    ),
    "whole: placeholders inside": (
        with_values_inside,
        (f"{SECRETS}::test_the_secret_is_in_no_process_inside",),
    ),
    "whole: echoes are covered": (
        _of_the_fence("echoes are covered"),
        (
            f"{SECRETS}::test_the_secret_is_in_no_process_inside",
            f"{SECRETS}::test_the_secret_is_in_nothing_that_is_kept_or_shown",
        ),
    ),
    "whole: nothing runs without its fence": (
        with_any_fence,
        (f"{DEATHS}::test_without_its_helper_no_run_starts",),
    ),
    "whole: the fence is tried at every start": (
        unchecked,
        (
            f"{BROKEN}[a-listener-is-missing]",
            f"{BROKEN}[every-name-has-the-same-address]",
            f"{BROKEN}[the-policy-allows-everything]",
        ),
    ),
    "whole: no route leads out": (with_any_route, (f"{BROKEN}[a-route-leads-out]",)),
    "whole: the agent ends with its supervisor": (
        outliving_us,
        (f"{DEATHS}::test_when_the_supervisor_is_killed_every_connection_ends",),
    ),
}
