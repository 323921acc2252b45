"""Anthropic's Messages, streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator

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


class Anthropic:
    def __init__(self, script: Script) -> None:
        self._script = script

    def answer(self, request: Request) -> Reply | None:
        if request.route.endswith("/messages/count_tokens"):
            return Reply.json({"input_tokens": INPUT_TOKENS})
        if request.method != "POST" or not request.route.endswith("/v1/messages"):
            return None
        asked = request.asked
        # Titles and the like are asked for without tools.
        turn = self._script.next() if asked.get("tools") else (Say("A title"),)
        if failure := next((step for step in turn if isinstance(step, Fail)), None):
            told = {"type": "error", "error": {"type": "api_error", "message": failure.text}}
            return Reply.json(told, failure.status)
        number, model = self._script.played, str(asked.get("model", "scripted"))
        if not asked.get("stream"):
            return Reply.json(_whole(turn, number, model))
        return Reply.events(*_streamed(turn, number, model))


def _message(number: int, model: str) -> dict[str, object]:
    return {
        "id": f"msg_{number:024}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": 1},
    }


def _reason(turn: Turn) -> str:
    return "tool_use" if any(isinstance(step, Call) for step in turn) else "end_turn"


def _streamed(turn: Turn, number: int, model: str) -> Iterator[tuple[str, dict[str, object]]]:
    yield "message_start", {"type": "message_start", "message": _message(number, model)}
    for index, step in enumerate(turn):
        started, *deltas = _block(step, number, index)
        place = {"index": index}
        yield (
            "content_block_start",
            {"type": "content_block_start", **place, "content_block": started},
        )
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", **place, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", **place}
    ended = {"stop_reason": _reason(turn), "stop_sequence": None}
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def _block(step: Step, number: int, index: int) -> tuple[dict[str, object], ...]:
    """What starts a block, and what is added to it."""
    if isinstance(step, Call):
        head = {"type": "tool_use", "id": f"toolu_{number:010}{index}", "name": step.tool}
        given = json.dumps(step.given)
        return {**head, "input": {}}, {"type": "input_json_delta", "partial_json": given}
    if isinstance(step, Think):
        return (
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": step.text},
            {"type": "signature_delta", "signature": "c2NyaXB0ZWQ="},
        )
    assert isinstance(step, Say)
    return {"type": "text", "text": ""}, {"type": "text_delta", "text": step.text}


def _whole(turn: Turn, number: int, model: str) -> dict[str, object]:
    said = [{"type": "text", "text": step.text} for step in turn if isinstance(step, Say)]
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    return {
        **_message(number, model),
        "content": said,
        "stop_reason": _reason(turn),
        "usage": usage,
    }
