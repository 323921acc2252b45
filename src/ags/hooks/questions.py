"""What a hook leaves to the person: a tool's call waits for their word."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Literal

from ags.errors import AgsError
from ags.frozen import frozen
from ags.hooks.model import ToolCall, Verdict
from ags.model import KIB

PATIENCE = 300.0
"""Seconds for the person. The forwarders inside wait longer than this and the hooks together."""
MOST = 16
MOST_SHOWN = 8 * KIB
"""Letters of a call that a person can still judge."""

_LETTERS = "bcdfghjkmnpqrstvwxz"
Kind = Literal["once", "deny"]
Outcome = Literal["asked", "once", "deny", "time-out", "gone"]

_REASONS: dict[Outcome, str] = {
    "deny": "the person was asked, and says no",
    "time-out": "the person was asked, and did not answer in time",
    "gone": "nobody waits for the person's answer any more",
}


@frozen
class Question:
    id: str
    call: ToolCall
    about: str
    reason: str
    """The hook's own words."""
    by: str
    since: float
    """By the clock of the questions."""


@frozen
class Change:
    """A question came up or went away."""

    question: Question
    outcome: Outcome


class Questions:
    """Those of one run. Each is about one call, so that an answer holds for that one alone."""

    def __init__(
        self,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[Change], None] = lambda change: None,
    ) -> None:
        self.patience = patience
        self.clock = clock
        self._on_change = on_change
        # No ask of the fence begins with a y.
        self._tag = f"y{secrets.choice(_LETTERS)}{secrets.choice(_LETTERS)}"
        self._count = 0
        self._open: dict[str, tuple[Question, asyncio.Future[Outcome]]] = {}

    def pending(self) -> tuple[Question, ...]:
        """Oldest first."""
        return tuple(question for question, _ in self._open.values())

    async def ask(self, call: ToolCall, asking: Sequence[Verdict], left: asyncio.Event) -> Verdict:
        """What the person makes of a call that these hooks leave to them.

        `left` is set when whoever wanted to call is gone.
        """
        by = asking[0].by
        if len(self._open) >= MOST:
            return Verdict(False, "too many questions wait for the person already", by)
        if len(about := shown(call)) > MOST_SHOWN:
            return Verdict(False, "it is too long for a person to judge", by)
        self._count += 1
        reason = "; ".join(each.reason for each in asking)
        id_ = f"{self._tag}{self._count}"
        outcome = await self._answer(Question(id_, call, about, reason, by, self.clock()), left)
        if outcome == "once":
            return Verdict(True, by=by)
        return Verdict(False, _REASONS[outcome], by)

    def answer(self, id_: str, kind: Kind) -> Question:
        if id_ not in self._open:
            raise not_waiting(id_)
        answered = self._open[id_][1]
        question = self._close(id_, kind)
        if not answered.done():
            answered.set_result(kind)
        return question

    async def _answer(self, question: Question, left: asyncio.Event) -> Outcome:
        answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._open[question.id] = question, answered
        self._tell(question, "asked")
        gone = asyncio.create_task(left.wait())
        outcome: Outcome = "gone"
        try:
            await asyncio.wait(
                (answered, gone), timeout=self.patience, return_when=asyncio.FIRST_COMPLETED
            )
            if answered.done():
                return answered.result()
            outcome = "gone" if gone.done() else "time-out"
            return outcome
        finally:
            gone.cancel()
            if question.id in self._open:
                self._close(question.id, outcome)

    def _close(self, id_: str, outcome: Outcome) -> Question:
        question, _ = self._open.pop(id_)
        self._tell(question, outcome)
        return question

    def _tell(self, question: Question, outcome: Outcome) -> None:
        self._on_change(Change(question, outcome))


def shown(call: ToolCall) -> str:
    """All of a call that matters: what a shell is given, which files, or else its whole input."""
    if call.kind == "bash":
        return call.command
    if call.kind in ("read", "write") and call.paths:
        return " ".join(call.paths)
    return json.dumps(call.raw or {}, ensure_ascii=False)


def not_waiting(id_: str) -> AgsError:
    return AgsError(
        "answer this",
        subject=id_,
        cause="nothing waits under this id: it was answered, or waited too long",
        hint="`ags asks` shows what waits",
    )
