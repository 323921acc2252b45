"""Which agents are programs that are installed."""

from __future__ import annotations

from ags.agents import AGENTS, agent
from ags.agents.base import Program
from ags.config.schema import Update
from ags.errors import AgsError


def names() -> tuple[str, ...]:
    return tuple(name for name in AGENTS if agent(name).program is not None)


def program(name: str) -> Program:
    """What npm installs for this agent."""
    if name not in AGENTS or (found := agent(name).program) is None:
        raise AgsError(
            "install the agent",
            subject=name,
            cause="every sandbox has it" if name in AGENTS else "there is none by that name",
            hint=f"one of: {', '.join(names())}",
        )
    return found


def check_settings(update: Update) -> None:
    """A name that nobody has would be pinned in vain, and nobody would notice."""
    for key, pairs in (("version", update.versions), ("package", update.packages)):
        for name, _ in pairs:
            if name not in names():
                raise AgsError(
                    f"use [update.{key}]",
                    subject=name,
                    cause="there is no agent of that name to install",
                    hint=f"one of: {', '.join(names())}",
                )
