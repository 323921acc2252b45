"""OpenAI's Responses and chat completions, streamed. A WebSocket is answered with 426."""

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

Told = Iterator[tuple[str, object]]


class OpenAI:
    def __init__(self, script: Script) -> None:
        self._script = script

    def answer(self, request: Request) -> Reply | None:
        if request.route.endswith("/responses"):
            if request.method == "GET":
                return Reply.json({"error": {"message": "use HTTP"}}, 426)
            return self._play(request, _Responses)
        if request.method == "POST" and request.route.endswith("/chat/completions"):
            return self._play(request, _Completions)
        return None

    def _play(self, request: Request, told: type[_Format]) -> Reply:
        turn = (Say("A title"),) if _is_aside(request) else self._script.next()
        if failure := next((step for step in turn if isinstance(step, Fail)), None):
            error = {"message": failure.text, "type": "scripted", "code": "scripted"}
            return Reply.json({"error": error}, failure.status)
        return Reply.events(*told(self._script.played, request).streamed(turn))


def _is_aside(request: Request) -> bool:
    """No tools are offered; or Codex, which always offers them among the input, wants a title."""
    given = request.asked.get("input")
    items = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    offered = any(each.get("type") == "additional_tools" for each in items)
    if not request.asked.get("tools") and not offered:
        return True
    return bool(items) and "Generate a concise, single-line" in json.dumps(items[-1])


class _Format:
    def __init__(self, number: int, request: Request) -> None:
        self.number = number
        self.model = str(request.asked.get("model", "scripted"))

    def streamed(self, turn: Turn) -> Told:
        raise NotImplementedError


class _Responses(_Format):
    def streamed(self, turn: Turn) -> Told:
        yield self._event("response.created", response=self._response("in_progress", []))
        items = []
        for index, step in enumerate(turn):
            item = self._item(step, index)
            items.append(item)
            yield self._event("response.output_item.added", output_index=index, item=item)
            if isinstance(step, Say):
                place = {"item_id": item["id"], "output_index": index, "content_index": 0}
                yield self._event("response.output_text.delta", **place, delta=step.text)
            yield self._event("response.output_item.done", output_index=index, item=item)
        yield self._event("response.completed", response=self._response("completed", items))

    def _event(self, kind: str, **fields: object) -> tuple[str, object]:
        return kind, {"type": kind, "sequence_number": 0, **fields}

    def _response(self, status: str, output: list[dict[str, object]]) -> dict[str, object]:
        usage = {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        }
        return {
            "id": f"resp_{self.number:032}",
            "object": "response",
            "created_at": 0,
            "status": status,
            "model": self.model,
            "output": output,
            "usage": usage if status == "completed" else None,
        }

    def _item(self, step: Step, index: int) -> dict[str, object]:
        name = f"{self.number:030}_{index}"
        if isinstance(step, Think):
            summary = [{"type": "summary_text", "text": step.text}]
            return {"id": f"rs_{name}", "type": "reasoning", "summary": summary}
        if isinstance(step, Call):
            head = {"call_id": f"call_{name}", "name": step.tool, "status": "completed"}
            if isinstance(step.given, str):
                return {
                    "id": f"ctc_{name}",
                    "type": "custom_tool_call",
                    **head,
                    "input": step.given,
                }
            given = json.dumps(step.given)
            return {"id": f"fc_{name}", "type": "function_call", **head, "arguments": given}
        assert isinstance(step, Say)
        content = [{"type": "output_text", "text": step.text, "annotations": []}]
        head = {"type": "message", "role": "assistant", "status": "completed"}
        return {"id": f"msg_{name}", **head, "content": content}


class _Completions(_Format):
    def streamed(self, turn: Turn) -> Told:
        yield "", self._chunk({"role": "assistant", "content": ""})
        for index, step in enumerate(turn):
            yield "", self._chunk(self._delta(step, index))
        called = any(isinstance(step, Call) for step in turn)
        yield "", self._chunk({}, "tool_calls" if called else "stop")
        usage = {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        }
        yield "", {**self._chunk({}), "choices": [], "usage": usage}
        yield "", "[DONE]"

    def _chunk(self, delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
        return {
            "id": f"chatcmpl-{self.number}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }

    def _delta(self, step: Step, index: int) -> dict[str, object]:
        if isinstance(step, Call):
            function = {"name": step.tool, "arguments": json.dumps(step.given)}
            call = {
                "index": index,
                "id": f"call_{self.number}_{index}",
                "type": "function",
                "function": function,
            }
            return {"tool_calls": [call]}
        if isinstance(step, Think):
            return {"reasoning_content": step.text}
        assert isinstance(step, Say)
        return {"content": step.text}
