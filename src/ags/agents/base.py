"""What an agent is to AGS: a command to run inside, and a way to read what it prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ags.events import Kind
from ags.frozen import frozen

OWN: tuple[Kind, ...] = ("message", "thinking", "tool_call", "tool_result", "output", "usage")
"""What an agent can say. The other kinds are AGS's own word, which no agent speaks."""


@frozen
class Said:
    """What one line of an agent's output means, ready to become an event."""

    kind: Kind
    fields: Mapping[str, object]


class Agent(Protocol):
    """One short file each. Pure: what runs it is elsewhere."""

    name: str

    def headless(self, goal: str) -> tuple[str, ...]:
        """The command that works on a goal without a person and then ends."""

    def interactive(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """The command for a person at a terminal, with arguments of the agent's own."""

    def parse(self, line: str) -> Said:
        """One line of what `headless` prints. Whatever it holds, never an exception."""


def output(line: str) -> Said:
    """A line that means nothing more than its text."""
    return Said("output", {"text": line})
