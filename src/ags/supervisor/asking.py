"""What a run asks the person while it works, whichever part of it asks: `asks` and `answer`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from ags.control.server import Verb
from ags.errors import AgsError
from ags.events import Writer
from ags.hooks.questions import Change, Question, Questions, not_waiting
from ags.runs import Held

Fields = Mapping[str, object]


class Asker(Protocol):
    """A part of the run that asks."""

    def waiting(self) -> list[dict[str, object]]:
        """What is asked now, each with its `id` and the seconds it has `waited`."""

    def answered(self, id_: str, request: Fields) -> dict[str, object]:
        """Take the answer to one of those; gives what it was about."""


class Asking:
    """All of a run's askers together. Its log has every ask, its record whether any waits."""

    def __init__(self, held: Held, log: Writer) -> None:
        self._held, self._log = held, log
        self.questions = Questions(on_change=self._noted)
        self._askers: list[Asker] = [HookQuestions(self.questions)]

    def add(self, asker: Asker) -> None:
        self._askers.append(asker)

    def verbs(self) -> dict[str, Verb]:
        return {"asks": self._shown, "answer": self._answered}

    def note(self, fields: Fields) -> None:
        """An ask came up or went away."""
        self._log.write("ask", **fields)
        asking = any(asker.waiting() for asker in self._askers)
        if self._held.run.asking != asking:
            with contextlib.suppress(AgsError):  # a full disk; who asks the run itself still sees
                self._held.save(replace(self._held.run, asking=asking))

    def _noted(self, change: Change) -> None:
        self.note({**_told(change.question), "outcome": change.outcome})

    async def _shown(self, _: Fields) -> dict[str, object]:
        found = [each for asker in self._askers for each in asker.waiting()]
        return {"asks": sorted(found, key=lambda each: -float(str(each["waited"])))}

    async def _answered(self, request: Fields) -> dict[str, object]:
        id_ = request.get("id")
        if not isinstance(id_, str):
            raise AgsError("answer this", cause="the request names no ask")
        for asker in self._askers:
            if any(each["id"] == id_ for each in asker.waiting()):
                return asker.answered(id_, request)
        raise not_waiting(id_[:60])


class HookQuestions:
    """What hooks leave to the person, as an asker."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def waiting(self) -> list[dict[str, object]]:
        return [self._described(each) for each in self._questions.pending()]

    def answered(self, id_: str, request: Fields) -> dict[str, object]:
        match request.get("verdict"):
            case "once" | "deny" as kind:
                return self._described(self._questions.answer(id_, kind))
            case "for" | "always":
                cause = "a hook asks about this one call, and would ask again about the next"
                hint = f"`ags allow {id_}` allows it once"
                raise AgsError("allow this for longer", subject=id_, cause=cause, hint=hint)
            case other:
                cause = "an answer is one of once, deny"
                raise AgsError("answer this", subject=ascii(other)[:60], cause=cause)

    def _described(self, question: Question) -> dict[str, object]:
        waited = self._questions.clock() - question.since
        return {
            **_told(question),
            "waiting": 1,
            "waited": round(waited, 1),
            "left": round(max(0.0, self._questions.patience - waited), 1),
        }


def _told(question: Question) -> dict[str, object]:
    return {
        "id": question.id,
        "tool": question.call.tool,
        "about": question.about,
        "reason": question.reason,
        "by": question.by,
    }
