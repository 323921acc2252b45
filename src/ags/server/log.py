"""What the server says of itself on stderr: one line for each request and each event.

Never a header, a body, a query or a code: what is not written cannot be read by others.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import stat
import time
import traceback
from collections.abc import Mapping
from typing import Literal

from ags.text import one_line, utf8

Format = Literal["text", "json"]
Level = Literal["info", "warning", "error"]
STDERR = 2
PIECE = select.PIPE_BUF
"""Bytes that fit wherever there is room at all."""
MOST = 8192
"""Characters of one value: a path may be as long as a header."""


class Log:
    """Only what is taken at once is written: a terminal may be held, and there is one thread."""

    def __init__(self, style: Format, descriptor: int = STDERR) -> None:
        self._style = style
        self._descriptor = _never_waiting(descriptor)
        self._room = select.poll()
        self._room.register(self._descriptor, select.POLLOUT)
        self._rest = b""
        """Of the line that was begun."""
        self._lost = 0

    def event(self, what: str, level: Level = "info", **fields: object) -> None:
        if not self._written():
            self._lost += 1
            return
        if self._lost:
            self._rest = self._line("lines lost", "warning", {"count": self._lost})
            self._lost = 0
        self._rest += self._line(what, level, fields)
        self._written()

    def _written(self) -> bool:
        """Whether all is."""
        try:
            while self._rest and self._room.poll(0):
                self._rest = self._rest[os.write(self._descriptor, self._rest[:PIECE]) :]
        except BlockingIOError:
            return False
        except OSError:  # a full disk or a reader that left must not end a request
            self._rest = b""
        return not self._rest

    def _line(self, what: str, level: Level, fields: Mapping[str, object]) -> bytes:
        now = time.time()
        shown = {name: _short(value) for name, value in fields.items() if value is not None}
        if self._style == "json":
            line = json.dumps({"time": round(now, 3), "level": level, "event": what, **shown})
        else:
            line = _as_text(now, level, what, shown)
        return line.encode() + b"\n"

    def failure(self, error: BaseException, request: str) -> None:
        """What nobody foresaw: with all there is to find out why."""
        trace = "".join(traceback.format_exception(error))[-MOST:]  # its end tells the most
        self.event("failure", "error", request=request, error=type(error).__name__, trace=trace)


def _never_waiting(descriptor: int) -> int:
    """A terminal or a pipe opened again: others write there too, and may want to wait."""
    with contextlib.suppress(OSError):
        if os.isatty(descriptor) or stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    return descriptor


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
