"""A plain shell: the goal is the script."""

from __future__ import annotations

from ags.agents.base import Said, output

SHELL = "/bin/bash"


class Shell:
    """For work that needs no model, and for looking at what the others see."""

    name = "shell"

    def headless(self, goal: str) -> tuple[str, ...]:
        return (SHELL, "-c", goal)

    def interactive(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return (SHELL, *arguments)

    def parse(self, line: str) -> Said:
        return output(line)
