"""Which agents a run has: its own; in a shell in the person's folder, all that are installed."""

from __future__ import annotations

from collections.abc import Iterator

from ags.agents import AGENTS, agent
from ags.agents.base import Agent
from ags.agents.shell import Shell
from ags.errors import AgsError
from ags.supervisor.site import Site


def crew(site: Site) -> Agent:
    """The run's agent, with those that it has at hand."""
    run = site.run
    # A script needs none of them, and most machines that run one have none.
    if run.agent != Shell.name or run.mode != "inplace" or not (site.ags_home / "agents").is_dir():
        return agent(run.agent)
    return Shell(tuple(_installed(site)))


def _installed(site: Site) -> Iterator[Agent]:
    from ags import programs  # npm and all that is not what a plain shell needs

    for name in AGENTS:
        try:
            there = agent(name).program is not None and programs.current(site.ags_home, name)
        except AgsError as error:
            site.tell(f"{name} is not at hand: {error.cause}")
            continue
        if there:
            yield agent(name)
