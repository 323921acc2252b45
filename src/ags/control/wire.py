"""What goes over a control socket.

A request and its answer are one line of JSON each. Once an answer has opened a terminal, frames
follow in both directions: one byte of kind, four of length, and that many bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import KIB, MIB

SOCKET = "control.sock"
MOST_REQUEST = 64 * KIB
MOST_ANSWER = 1 * MIB
MOST_FRAME = 64 * KIB
MOST_LINES = 2000
"""Rows or columns of a terminal: a program may take memory for each."""

INPUT, RESIZE, OUTPUT, END = b"i", b"r", b"o", b"e"
_HEAD = struct.Struct(">cI")
_SIZE = struct.Struct(">HH")


@frozen
class Size:
    rows: int
    columns: int


@frozen
class Ended:
    """How a terminal's program ended."""

    code: int | None
    """None where nobody is left to say."""
    reason: str = ""
    """Empty if it ended by itself, else a sentence."""


def open_directory(run_dir: Path) -> int:
    """For `address`."""
    return os.open(run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def address(directory: int, name: str = SOCKET) -> str:
    """A short way to the socket: its real path may be longer than the 108 bytes there are."""
    return f"/proc/self/fd/{directory}/{name}"


def line(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, allow_nan=False).encode("ascii") + b"\n"


def fields(data: bytes) -> dict[str, object]:
    """The object in a line; ValueError if there is none."""
    try:
        found = json.loads(data.decode(), parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number")


def refusal(error: AgsError) -> dict[str, object]:
    said = {"what": error.what, "subject": error.subject, "cause": error.cause, "hint": error.hint}
    return {"ok": False, **said, "exit_code": error.exit_code}


def refused(answer: Mapping[str, object]) -> AgsError:
    """The error that the other side raised."""
    words = {name: str(answer.get(name) or "") for name in ("cause", "hint")}
    code = answer.get("exit_code")
    return AgsError(
        str(answer.get("what") or "do that"),
        subject=answer.get("subject"),
        exit_code=code if isinstance(code, int) else 1,
        **words,
    )


def frame(kind: bytes, payload: bytes) -> bytes:
    return _HEAD.pack(kind, len(payload)) + payload


async def read_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    """The next, None at the end of the connection; ValueError if it cannot be one."""
    try:
        kind, length = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        if length > MOST_FRAME:
            raise ValueError(f"a frame of {length} bytes")
        return kind, await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError):
        return None


def pack_size(size: Size) -> bytes:
    return _SIZE.pack(_within(size.rows), _within(size.columns))


def unpack_size(payload: bytes) -> Size:
    if len(payload) != _SIZE.size:
        raise ValueError("a size of another length")
    rows, columns = _SIZE.unpack(payload)
    return fitting(Size(rows, columns))


def size_in(request: Mapping[str, object], *, default: Size) -> Size:
    """What a request to view says about the viewer's terminal."""
    rows, columns = request.get("rows", default.rows), request.get("columns", default.columns)
    if type(rows) is not int or type(columns) is not int:
        raise AgsError("open the terminal", cause="rows and columns are not numbers")
    return fitting(Size(rows, columns))


def fitting(size: Size) -> Size:
    """A size that no terminal has becomes the nearest one."""
    return Size(_within(size.rows), _within(size.columns))


def _within(lines: int) -> int:
    return min(max(lines, 1), MOST_LINES)


def pack_end(ended: Ended) -> bytes:
    return json.dumps({"code": ended.code, "reason": ended.reason}).encode("ascii")


def unpack_end(payload: bytes) -> Ended:
    found = fields(payload)
    code = found.get("code")
    return Ended(code if isinstance(code, int) else None, str(found.get("reason") or ""))
