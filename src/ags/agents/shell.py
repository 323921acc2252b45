"""A plain shell: the goal is the script."""

from __future__ import annotations

from ags.agents.base import Heard, Plain, Wish, output

SHELL = "/bin/bash"


class Shell(Plain):
    """For work that needs no model, and for looking at what the others see."""

    name = "shell"
    keeps = (".bash_history",)

    def headless(self, wish: Wish) -> tuple[str, ...]:
        return (SHELL, *wish.arguments, "-c", wish.goal)

    def interactive(self, wish: Wish) -> tuple[str, ...]:
        return (SHELL, *wish.arguments)

    def parse(self, line: str) -> Heard:
        return output(line)
