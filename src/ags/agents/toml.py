"""TOML for settings of ours: tables, texts, numbers, switches and lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping


def toml(values: Mapping[str, object]) -> str:
    return "\n".join(_table(values, ())) + "\n"


def _table(values: Mapping[str, object], path: tuple[str, ...]) -> Iterator[str]:
    """Its own values first: what comes after a head belongs to that."""
    for name, value in values.items():
        if not isinstance(value, Mapping):
            yield f"{_text(name)} = {_value(value)}"
    for name, value in values.items():
        if isinstance(value, Mapping):
            inner = (*path, name)
            yield f"[{'.'.join(map(_text, inner))}]"
            yield from _table(value, inner)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(n)} = {_value(v)}" for n, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return _text(str(value))


def _text(text: str) -> str:
    """JSON's escapes are TOML's, but for DEL and for halves of a surrogate pair."""
    whole = text.encode(errors="replace").decode()
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
