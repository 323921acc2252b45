"""The log of decisions: one JSON line each, chained by hash, so that no line can go unnoticed.

Neither query nor body nor secret is ever in it. What is kept of a path is its class: the first
steps, with whatever looks like an id or a token left out.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import BinaryIO

from ags.egress.model import Decision, Request
from ags.frozen import frozen
from ags.model import KIB, MIB
from ags.text import one_line

START = "0" * 64
"""What the first line has for the hash of the one before."""
MAX_LINE = 4 * KIB
"""Never reached: each text in a line is cut, and takes at most two bytes a letter."""
MAX_LOG = 64 * MIB
_MAX_TEXT = 200
_MAX_STEPS = 3

_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_SEAL_LENGTH = len(b',"hash":""}') + 64
_WORD = re.compile(r"[A-Za-z]{1,24}|v[0-9]{1,3}|[a-z]+(?:[-_.][a-z]+){1,4}", re.ASCII)


@frozen
class Line:
    """One decision, and what became of it."""

    time: float
    host: str
    port: int
    scheme: str
    method: str | None
    path: str | None
    """Its class, by `path_class`."""
    allowed: bool
    reason: str
    rule: str
    layer: str
    address: str | None = None
    sent: int = 0
    received: int = 0
    seconds: float = 0.0


_NAMES = tuple(field.name for field in fields(Line))
_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


@frozen
class Verdict:
    """Whether a log is whole; if not, the first line that is not as it was written, and why."""

    whole: bool
    lines: int
    bad: int | None = None
    cause: str = ""


Carried = tuple[str | None, int, int, float]
"""What a connection came to: the address, bytes sent and received, and seconds."""


def line_of(
    time: float,
    request: Request,
    decision: Decision,
    carried: Carried = (None, 0, 0, 0.0),
) -> Line:
    """The line of a decision, and of what became of it."""
    path = None if request.path is None else path_class(request.path)
    return Line(
        time,
        request.host,
        request.port,
        request.scheme,
        request.method,
        path,
        decision.allowed,
        decision.reason,
        decision.rule,
        decision.layer,
        *carried,
    )


def path_class(path: str) -> str:
    """`/v1/messages`, `/repos/*/*/...`: words stay, the rest may be anyone's data."""
    steps = path.partition("?")[0].partition("#")[0].split("/")[1:]
    kept = [step if not step or _WORD.fullmatch(step) else "*" for step in steps[:_MAX_STEPS]]
    return "/" + "/".join(kept) + ("/..." if len(steps) > _MAX_STEPS else "")


class Chain:
    """Makes the lines of one log. `count` and `last` belong where the log's writer cannot reach."""

    def __init__(self, count: int = 0, last: str = START, size: int = 0) -> None:
        self.count = count
        self.last = last
        self.size = size
        self.dropped = 0

    def append(self, line: Line) -> bytes:
        """The bytes to write; none once the log is full, which `close` tells."""
        if self.size + MAX_LINE > MAX_LOG:
            self.dropped += 1
            return b""
        return self._sealed({name: _short(getattr(line, name)) for name in _NAMES})

    def close(self) -> bytes:
        """The last line, if some had to be left out."""
        return self._sealed({"dropped": self.dropped}) if self.dropped else b""

    def _sealed(self, body: dict[str, object]) -> bytes:
        record = {"seq": self.count + 1, **body, "prev": self.last}
        text = _json(record).encode()[:-1]
        self.last = hashlib.sha256(text).hexdigest()
        sealed = b'%s,"hash":"%s"}\n' % (text, self.last.encode())
        self.count += 1
        self.size += len(sealed)
        return sealed


def verify(path: Path, count: int, last: str, growing: bool = False) -> Verdict:
    """Whether the log has exactly these lines; of a growing one, at least these."""
    try:
        with path.open("rb") as stream:
            return _verified(stream, count, last, growing)
    except FileNotFoundError:
        if count == 0 and last == START:
            return Verdict(True, 0)
        return Verdict(False, 0, 1, "the log is gone")
    except OSError as error:
        return Verdict(False, 0, 1, f"the log cannot be read: {error.strerror}")


def _verified(stream: BinaryIO, count: int, last: str, growing: bool) -> Verdict:
    previous, number = START, 0
    while raw := stream.readline(2 * MAX_LINE):
        if number >= count and not growing:
            return Verdict(False, number, number + 1, f"was added after the last of {count} lines")
        sealed = _checked(raw, number + 1, previous)
        if sealed is None:
            # The writer of a growing log may be in the middle of its next line.
            if growing and number >= count and not raw.endswith(b"\n"):
                break
            return Verdict(False, number, number + 1, "is not as it was written")
        number, previous = number + 1, sealed
        if number == count and sealed != last:
            return Verdict(False, number - 1, number, "is not the line that was recorded as last")
    if number < count:
        return Verdict(False, number, number + 1, f"the tail is cut: {number} of {count} lines")
    if count == 0 and last != START:
        return Verdict(False, 0, 1, "the record of the log has been changed")
    return Verdict(True, number)


def _checked(raw: bytes, number: int, previous: str) -> str | None:
    """The hash that seals this line, if it is the right line in the right place."""
    line = raw.removesuffix(b"\n")
    text, seal = line[:-_SEAL_LENGTH], _SEAL.fullmatch(line[-_SEAL_LENGTH:])
    if line == raw or not seal or hashlib.sha256(text).hexdigest() != seal[1].decode():
        return None
    try:
        record = json.loads(text + b"}")
    except (ValueError, RecursionError):
        return None
    placed = isinstance(record, dict) and (record.get("seq"), record.get("prev"))
    return seal[1].decode() if placed == (number, previous) else None


def _short(value: object) -> object:
    if isinstance(value, float):
        # Infinity is no JSON, and a broken clock is no reason to lose a line.
        return round(value, 3) if abs(value) < 1e15 else None
    if not isinstance(value, str):
        return value
    if len(value) <= _MAX_TEXT and value.isascii() and value.isprintable():
        return value
    text = one_line(value[: _MAX_TEXT + 1]).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
