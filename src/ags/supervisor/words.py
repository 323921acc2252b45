"""What of an agent's words goes into the record of its run, however much it says."""

from __future__ import annotations

from ags.agents.base import Heard
from ags.model import KIB

MOST = 16 * KIB


class Words:
    """Of one turn."""

    def __init__(self) -> None:
        self.session = ""
        self.failure = ""
        """What the agent itself says went wrong."""
        self._answer = self._last = ""

    @property
    def answer(self) -> str:
        """Some agents never say which of their words is the answer: then it is the last ones."""
        return self._answer or self._last

    def hear(self, heard: Heard) -> None:
        if heard.failure is not None:
            self.failure = heard.failure[:MOST]
        for said in heard.said:
            if said.kind == "tool_call":
                self._last = ""
            if said.kind == "message" and isinstance(text := said.fields.get("text"), str):
                before = self._last if said.fields.get("delta") else ""
                self._last = (before + text)[-MOST:]
        self._answer = heard.answer[-MOST:] or self._answer
        self.session = heard.session or self.session
