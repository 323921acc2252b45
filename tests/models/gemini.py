"""Google's Gemini: content streamed, and the small questions that its CLI asks beside."""

from __future__ import annotations

import json

from tests.models.script import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Call,
    Fail,
    Reply,
    Request,
    Say,
    Script,
    Step,
    Think,
    Turn,
)

USAGE = {
    "promptTokenCount": INPUT_TOKENS,
    "candidatesTokenCount": OUTPUT_TOKENS,
    "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
}


class Gemini:
    def __init__(self, script: Script) -> None:
        self._script = script

    def answer(self, request: Request) -> Reply | None:
        if request.route.endswith(":countTokens"):
            return Reply.json({"totalTokens": INPUT_TOKENS})
        streamed = request.route.endswith(":streamGenerateContent")
        if not streamed and not request.route.endswith(":generateContent"):
            return None
        if not request.asked.get("tools"):
            told = _answer((Say(_aside(request)),))
            return Reply.events(("", told)) if streamed else Reply.json(told)
        turn = self._script.next()
        if failure := next((step for step in turn if isinstance(step, Fail)), None):
            error = {"code": failure.status, "message": failure.text, "status": "FAILED"}
            return Reply.json({"error": error}, failure.status)
        return Reply.events(("", _answer(turn))) if streamed else Reply.json(_answer(turn))


def _aside(request: Request) -> str:
    """The router asks, with a schema, which model is to be used."""
    wanted = request.asked.get("generationConfig", {})
    if "responseJsonSchema" not in wanted and "responseSchema" not in wanted:
        return "A title"
    return json.dumps({"reasoning": "scripted", "model_choice": "flash", "complexity_score": 1,
                       "complexity_reasoning": "scripted"})  # fmt: skip


def _answer(turn: Turn) -> dict[str, object]:
    content = {"role": "model", "parts": [_part(step) for step in turn]}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "scripted"}


def _part(step: Step) -> dict[str, object]:
    if isinstance(step, Call):
        return {"functionCall": {"name": step.tool, "args": step.given}}
    if isinstance(step, Think):
        return {"text": step.text, "thought": True}
    assert isinstance(step, Say)
    return {"text": step.text}
