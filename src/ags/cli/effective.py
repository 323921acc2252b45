"""What a run would be judged by, found out without one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ags import clients
from ags.agents import AGENTS
from ags.cli.invocation import Invocation
from ags.egress import layers, tools
from ags.egress.layers import Whole
from ags.egress.policy import Policy, Rule
from ags.egress.wiring import AGENT_KEYS
from ags.errors import AgsError
from ags.frozen import frozen
from ags.text import one_line

PATIENCE = 5.0
"""Seconds for indexes to say where they keep their files."""


@frozen
class Holding:
    """A policy, with what package indexes say of themselves."""

    policy: Policy
    learnt: tuple[Rule, ...] = ()
    """Those rules of it that an index gave rise to."""
    untold: tuple[str, ...] = ()
    """Package tools that are open, and whose index named no further host, or said nothing."""


def policy_file(invocation: Invocation, client: str = "") -> Path:
    """The person's own, or a client's."""
    own = layers.policy_file(invocation.environ, invocation.home)
    return clients.policy_file(invocation.environ, invocation.home, client) or own


def effective(invocation: Invocation, agent: str = "", client: str = "") -> Policy:
    """For a run of this agent and client, without flags, and without asking anybody."""
    return asyncio.run(_whole(invocation, agent, client)).policy


def holding(invocation: Invocation, agent: str = "", client: str = "") -> Holding:
    """As `effective`, with indexes asked where they keep their files, as at the start of a run."""
    return asyncio.run(_holding(invocation, agent, client))


async def _whole(invocation: Invocation, agent: str, client: str) -> Whole:
    known = sorted({*AGENTS, *AGENT_KEYS})
    if agent and agent not in known:
        cause, hint = "there is none by that name", f"one of: {', '.join(known)}"
        raise AgsError("use the agent", subject=one_line(agent)[:60], cause=cause, hint=hint)
    return await layers.whole(
        agent,
        policy_file(invocation),
        None,
        (),
        invocation.environ,
        invocation.home,
        apart=tools.written_here(invocation.ags_home),
        client_file=clients.policy_file(invocation.environ, invocation.home, client),
    )


async def _holding(invocation: Invocation, agent: str, client: str) -> Holding:
    found = await _whole(invocation, agent, client)
    if not any(found.indexes.values()):
        return Holding(found.policy)
    # Only now: without package tools nobody is asked, and all this is not needed.
    from ags import secrets
    from ags.config.load import load
    from ags.egress import company, indexes
    from ags.egress.fence import Terms
    from ags.network import Network, extra_roots

    settings = load(invocation.config, invocation.environ, invocation.home).network
    kept = secrets.store(clients.secrets(invocation.ags_home, ""), invocation.environ)
    network = Network(
        "policy",
        Terms(found.policy),
        environ=invocation.environ,
        extra=extra_roots(settings.ca),
        record=lambda line: None,
        proxy=await company.configured(settings, kept, invocation.environ),
    )
    learnt = await indexes.learn(network.fence, found.indexes, PATIENCE)
    policy = indexes.extended(found.policy, learnt)
    before = {rule for layer in found.policy.layers for rule in layer.allow}
    new = (rule for layer in policy.layers for rule in layer.allow if rule not in before)
    asked = (tool for tool in found.indexes if tool in indexes.PAGES)
    untold = tuple(tool for tool in asked if tool not in learnt)
    return Holding(policy, tuple(dict.fromkeys(new)), untold)
