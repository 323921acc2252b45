"""What the server says of itself on stderr: one line for each request and each event.

Never a header, a body, a query or a code: what is not written cannot be read by others.
"""

from __future__ import annotations

import json
import logging
import os
import time
import traceback
from typing import Literal

from ags.text import one_line, utf8

Format = Literal["text", "json"]
Level = Literal["info", "warning", "error"]
STDERR = 2
MOST = 8192
"""Characters of one value: a path may be as long as a header."""


class Log:
    def __init__(self, style: Format, descriptor: int = STDERR) -> None:
        self._style = style
        self._descriptor = descriptor

    def event(self, what: str, level: Level = "info", **fields: object) -> None:
        now = time.time()
        shown = {name: _short(value) for name, value in fields.items() if value is not None}
        if self._style == "json":
            line = json.dumps({"time": round(now, 3), "level": level, "event": what, **shown})
        else:
            line = _as_text(now, level, what, shown)
        data = line.encode() + b"\n"
        # A full disk or a reader that left must not end a request.
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return

    def failure(self, error: BaseException, request: str) -> None:
        """What nobody foresaw: with all there is to find out why."""
        trace = "".join(traceback.format_exception(error))[-MOST:]  # its end tells the most
        self.event("failure", "error", request=request, error=type(error).__name__, trace=trace)


class FromUvicorn(logging.Handler):
    """Its few words, as lines of ours."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        error = record.exc_info[1] if record.exc_info else None
        told = type(error).__name__ if error else None
        self._log.event("uvicorn", level, text=record.getMessage(), error=told)


def _short(value: object) -> object:
    return utf8(value[:MOST]) if isinstance(value, str) else value


def _as_text(now: float, level: Level, what: str, fields: dict[str, object]) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    trace = str(fields.pop("trace", ""))
    words = " ".join(f"{name}={_word(value)}" for name, value in fields.items())
    head = f"{clock} {'' if level == 'info' else level + ' '}{what} {words}".rstrip()
    return "\n".join([head, *(f"    {one_line(each)}" for each in trace.splitlines())])


def _word(value: object) -> str:
    text = one_line(str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
