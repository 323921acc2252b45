"""A plain shell: the goal is the script."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from ags.agents.base import (
    AGENT_DIR,
    Agent,
    EtcFile,
    Facts,
    Heard,
    HomeFile,
    Plain,
    Wish,
    output,
)

SHELL = "/bin/bash"
BIN = "/ags/bin"
"""Inside, a command for each agent at hand."""


class Shell(Plain):
    """For work that needs no model, and for looking at what the others see."""

    name = "shell"
    keeps: tuple[str, ...] = (".bash_history",)

    def __init__(self, at_hand: tuple[Agent, ...] = ()) -> None:
        """`at_hand` can be called by their names in it, each with what a run of its own has."""
        self.at_hand = at_hand
        self.brings = tuple(dict.fromkeys(each for one in at_hand for each in one.brings))
        self.settings = tuple(dict.fromkeys(each for one in at_hand for each in one.settings))
        self.wants = tuple(dict.fromkeys(each for one in at_hand for each in one.wants))

    def headless(self, wish: Wish) -> tuple[str, ...]:
        return (SHELL, *wish.arguments, "-c", wish.goal)

    def interactive(self, wish: Wish) -> tuple[str, ...]:
        return (SHELL, *wish.arguments)

    def environment(self, facts: Facts) -> Mapping[str, str]:
        return {
            name: value for each in self.at_hand for name, value in each.environment(facts).items()
        }

    def files(self, facts: Facts) -> tuple[HomeFile, ...]:
        return tuple(file for each in self.at_hand for file in each.files(facts))

    def etc(self, facts: Facts) -> tuple[EtcFile, ...]:
        """Some are of several: what asks the hooks, and what all are told."""
        return tuple(dict.fromkeys(file for each in self.at_hand for file in each.etc(facts)))

    def parse(self, line: str) -> Heard:
        return output(line)


def members(agent: Agent) -> tuple[Agent, ...]:
    """Those whose programs a run of this agent has."""
    if isinstance(agent, Shell):
        return agent.at_hand
    return (agent,) if agent.program is not None else ()


def folder(agent: Agent, each: Agent) -> str:
    """Where the program of `each` of an agent's members is, inside."""
    return AGENT_DIR if each is agent else f"{AGENT_DIR}s/{each.name}"


def commands(agent: Agent, wish: Wish) -> Iterator[EtcFile]:
    """What a person types in a shell to call the others, as they would be started themselves:
    some have their hooks by an argument."""
    for each in members(agent):
        if each is not agent and each.program is not None:
            _, *given = each.interactive(wish)
            called = shlex.join((f"{folder(agent, each)}/{each.program.path}", *given))
            yield EtcFile(f"{BIN}/{each.name}", f'#!/bin/sh\nexec {called} "$@"\n')
