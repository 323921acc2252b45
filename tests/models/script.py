"""What a scripted model says, whoever's format it is said in."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Say:
    text: str


@dataclass(frozen=True)
class Think:
    text: str


@dataclass(frozen=True)
class Call:
    """Use of a tool. Where the tool takes free text, `given` is that text."""

    tool: str
    given: Mapping[str, object] | str


@dataclass(frozen=True)
class Fail:
    """The server's refusal in place of an answer."""

    status: int
    text: str = "scripted failure"


Step = Say | Think | Call | Fail
Turn = tuple[Step, ...]
"""One answer of the model: what it says, and the tools it wants used before it goes on."""

INPUT_TOKENS, OUTPUT_TOKENS = 1200, 34
"""What every answer claims to have used."""


@dataclass(frozen=True)
class Request:
    """As it arrived."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def route(self) -> str:
        return self.path.partition("?")[0]

    @property
    def asked(self) -> dict[str, Any]:
        """The body, where it is a JSON object."""
        try:
            told = json.loads(self.body)
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}


@dataclass(frozen=True)
class Reply:
    status: int
    kind: str
    chunks: tuple[bytes, ...]

    @staticmethod
    def json(value: object, status: int = 200) -> Reply:
        return Reply(status, "application/json", (json.dumps(value).encode(),))

    @staticmethod
    def events(*told: tuple[str, object]) -> Reply:
        """Server-sent events, each with its name, or without where that is empty."""
        return Reply(200, "text/event-stream", tuple(_event(name, value) for name, value in told))


def _event(name: str, value: object) -> bytes:
    data = value if isinstance(value, str) else json.dumps(value)
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()


class Script:
    """Turns in their order, one for each request that is about the work; agents ask at will."""

    def __init__(self, *turns: Turn | Step) -> None:
        self._left: deque[Turn] = deque()
        self._lock = threading.Lock()
        self.played = 0
        self.extend(turns)

    def next(self) -> Turn:
        with self._lock:
            self.played += 1
            return self._left.popleft() if self._left else (Say("There is nothing more to do."),)

    def extend(self, turns: Iterable[Turn | Step]) -> None:
        """For the next turn of a conversation."""
        with self._lock:
            self._left.extend(turn if isinstance(turn, tuple) else (turn,) for turn in turns)


class Model(Protocol):
    """One maker's format. Sans-IO."""

    def answer(self, request: Request) -> Reply | None:
        """None for what is not its to answer."""
