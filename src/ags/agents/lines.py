"""Reading the JSON lines that agents print. Nothing in them can be relied on, not even a type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from ags.agents.base import Heard, Said

Told = Mapping[str, object]
NOTHING: Told = {}
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)


def _finite(text: str) -> float | None:
    """An infinite number is none that could be written down again."""
    number = float(text)
    return number if math.isfinite(number) else None


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None)


def told(line: str) -> Told | None:
    """The object that a line is, or None."""
    try:
        found = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def within(value: Told, *names: str) -> Told:
    """The object at the end of a path of names; an empty one, if there is none."""
    for name in names:
        found = value.get(name)
        value = found if isinstance(found, dict) else NOTHING
    return value


def each(value: object) -> Iterator[Told]:
    """The objects in a list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def words(value: object) -> str:
    """Text, or a list of parts of which some have text, as makers put it."""
    if isinstance(value, list):
        return "\n".join(part for item in each(value) if (part := text(item.get("text"))))
    return text(value)


def count(value: object) -> int | None:
    """Bools are numbers to Python, but count nothing."""
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e9 else None


def session(value: object) -> str:
    """An id, which will be an argument one day: nothing that could be read as something else."""
    return value if isinstance(value, str) and _SESSION.fullmatch(value) else ""


def message(said: object) -> tuple[Said, ...]:
    return (Said("message", {"text": found}),) if (found := words(said)).strip() else ()


def thinking(said: object) -> tuple[Said, ...]:
    return (Said("thinking", {"text": found}),) if (found := words(said)).strip() else ()


def trouble(said: str) -> tuple[Said, ...]:
    """What went wrong, in the agent's own words."""
    return (Said("message", {"text": said, "error": True}),) if said else ()


def failed(said: object, session: str = "") -> Heard:
    why = words(said).strip() or "it did not say why"
    return Heard(trouble(why), session, why)


def call(tool: object, given: object, name: object, *files: object) -> Said:
    """`files` are those it is about to change."""
    fields: dict[str, object] = {"tool": text(tool) or "tool", "input": given}
    return Said("tool_call", fields | _named(name) | _changing(files))


def result(tool: object, ok: bool, printed: object, name: object) -> Said:
    known = {"tool": text(tool)} if text(tool) else {}
    return Said("tool_result", {**known, "ok": ok, "output": words(printed)} | _named(name))


def usage(*whole: str, **numbers: float | None) -> tuple[Said, ...]:
    """The usage events of a run add up to what it used.

    Not so the numbers named by `whole`: some makers count from the beginning of the conversation.
    """
    known = {name: number for name, number in numbers.items() if number is not None}
    if not any(known.values()):
        return ()
    since = {"of_conversation": [name for name in whole if name in known]} if whole else {}
    return (Said("usage", {**known, **since}),)


def _named(name: object) -> dict[str, object]:
    return {"id": name} if text(name) else {}


def _changing(files: tuple[object, ...]) -> dict[str, object]:
    known = [file for file in files if text(file)]
    return {"files": known} if known else {}
