"""The programs a run can be given to, by name."""

from __future__ import annotations

import importlib

from ags.agents.base import Agent
from ags.errors import AgsError

AGENTS = {
    "claude": ("ags.agents.claude", "Claude"),
    "codex": ("ags.agents.codex", "Codex"),
    "gemini": ("ags.agents.gemini", "Gemini"),
    "opencode": ("ags.agents.opencode", "OpenCode"),
    "pi": ("ags.agents.pi", "Pi"),
    "demo": ("ags.agents.demo", "Demo"),
    "shell": ("ags.agents.shell", "Shell"),
}


def agent(name: str) -> Agent:
    """The agent of that name; imported only now."""
    if name not in AGENTS:
        raise AgsError(
            "use the agent",
            subject=name,
            cause="there is none by that name",
            hint=f"one of: {', '.join(AGENTS)}",
        )
    module, attribute = AGENTS[name]
    made: Agent = getattr(importlib.import_module(module), attribute)()
    return made
