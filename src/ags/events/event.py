"""One event and its line. Whatever an agent makes us write, it stays one line of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ags.model import KIB

Kind = Literal[
    "message", "thinking", "tool_call", "tool_result", "output",
    "usage", "egress", "hook", "ask", "status", "system",
]  # fmt: skip
KINDS: frozenset[str] = frozenset(get_args(Kind))

LINE = 64 * KIB
"""No line of a log is longer, its end included."""

# C1 controls act on some terminals even as text, and half a surrogate pair is no text at all.
_ODD = "[\x80-\x9f\ud800-\udfff]"
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)  # made by the hundred thousand, when a log is read
class Event:
    seq: int
    ts: float
    """Of the wall clock, so it may jump; `seq` is the order."""
    kind: Kind
    fields: Mapping[str, Any]


def encode(seq: int, ts: float, kind: Kind, fields: Mapping[str, object]) -> bytes:
    """Fields that are too long or unfit for JSON are not written as they are, and it says so."""
    head: dict[str, object] = {"seq": seq, "ts": round(ts, 3), "kind": kind}
    try:
        # Before anything is encoded: the line's cap is also what bounds the memory.
        if any(isinstance(value, str) and len(value) > LINE for value in fields.values()):
            fields = _shortened(head, fields)
        line = _json(head | dict(fields) | head)
        if len(line) >= LINE:
            line = _json(head | _shortened(head, fields) | head)
    except (TypeError, ValueError, RecursionError) as error:
        line = _json(head | {"unwritable": f"{type(error).__name__}: {error}"[:200]})
    return line + b"\n"


def parse(line: bytes) -> Event | None:
    """None for a line that was damaged."""
    try:
        record = json.loads(line.decode())
        seq, ts, kind = record.pop("seq"), record.pop("ts"), record.pop("kind")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    # A kind that is not known here is a newer version's.
    if type(seq) is not int or type(ts) not in (int, float) or not isinstance(kind, str):
        return None
    return Event(seq, ts, kind, record)  # type: ignore[arg-type]


def _json(value: object) -> bytes:
    text = _ENCODER.encode(value)
    return (text if text.isascii() else re.sub(_ODD, _escaped, text)).encode()


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    # A surrogate's escape is itself escaped: a reader shall see it, not get it.
    return f"\\u{code:04x}" if code < 0x100 else f"\\\\u{code:04x}"


def _shortened(head: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    """The largest fields cut until all fit; `cut` says how many characters each one lost."""
    short = {name: value for name, value in fields.items() if name not in head}
    texts = {n: v if isinstance(v, str) else _json(v).decode() for n, v in short.items()}
    sizes = {name: len(_json(text[:LINE])) for name, text in texts.items()}
    cut: dict[str, int] = {}
    for name in sorted(texts, key=lambda name: sizes[name], reverse=True):
        text = texts[name]
        short[name], cut[name] = "", len(text)
        if max((sizes[other] for other in sizes.keys() - cut.keys()), default=0) >= LINE:
            continue
        room = LINE - 1 - len(_json({**head, **short, "cut": cut})) + len('""')
        if room >= len('""'):
            keep = _most(text, room)
            return {**short, name: text[:keep], "cut": {**cut, name: len(text) - keep}}
    raise ValueError("there are too many fields for one line")


def _most(text: str, room: int) -> int:
    """How many characters have room, once they are JSON."""
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_json(text[:middle])) <= room:
            low = middle
        else:
            high = middle - 1
    return low
