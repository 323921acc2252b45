"""What a hook leaves to the person: a tool's call waits for their word."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

from ags.errors import AgsError
from ags.frozen import frozen
from ags.hooks.call import FOLDERS
from ags.hooks.model import ToolCall, Verdict
from ags.model import KIB

PATIENCE = 300.0
"""Seconds for the person. The forwarders inside wait longer than this and the hooks together."""
MOST, MOST_A_MINUTE = 8, 20
"""Of those that wait at once, and of new ones: the channel has room for others beside them."""
MOST_SHOWN = 8 * KIB
"""Bytes of a call, as JSON, that a person can still judge."""

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
        # No ask of the fence begins with a y; and each turn of a run has a tag of its own.
        self._tag = "y" + "".join(secrets.choice(_LETTERS) for _ in range(4))
        self._count = 0
        self._latest: deque[float] = deque(maxlen=MOST_A_MINUTE)
        self._open: dict[str, tuple[Question, asyncio.Future[Outcome]]] = {}

    def pending(self) -> tuple[Question, ...]:
        """Oldest first."""
        return tuple(question for question, _ in self._open.values())

    async def ask(self, call: ToolCall, asking: Sequence[Verdict], left: asyncio.Event) -> Verdict:
        """What the person makes of a call that these hooks leave to them.

        `left` is set when whoever wanted to call is gone.
        """
        by = asking[0].by
        if len(json.dumps(about := shown(call))) > MOST_SHOWN:
            return Verdict(False, "it is too long for a person to judge", by)
        if len(self._open) >= MOST or self._is_flooded():
            return Verdict(False, "the person is asked too much already", by)
        self._latest.append(self.clock())
        self._count += 1
        reason = "; ".join(each.reason for each in asking)
        id_ = f"{self._tag}{self._count}"
        outcome = await self._answer(Question(id_, call, about, reason, by, self.clock()), left)
        if outcome == "once":
            return Verdict(True, by=by)
        return Verdict(False, _REASONS[outcome], by)

    def _is_flooded(self) -> bool:
        return len(self._latest) == MOST_A_MINUTE and self.clock() - self._latest[0] < 60

    def answer(self, id_: str, kind: Kind) -> Question:
        if id_ not in self._open:
            raise not_waiting(id_)
        self._open[id_][1].set_result(kind)
        return self._close(id_, kind)

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
    """What a call is about: what a shell is given and where, which files, or else its whole input.

    Not what is to be written to a file: that is for the review.
    """
    if call.kind == "bash":
        elsewhere = [name for name in FOLDERS if (call.raw or {}).get(name)]
        return f"{call.command}\n(in {call.cwd})" if elsewhere else call.command
    if call.kind in ("read", "write") and call.paths:
        return "\n".join(map(json.dumps, call.paths))
    return json.dumps(call.raw or {}, ensure_ascii=False)


def not_waiting(id_: str) -> AgsError:
    return AgsError(
        "answer this",
        subject=id_,
        cause="nothing waits under this id: it was answered, or waited too long",
        hint="`ags asks` shows what waits",
    )
