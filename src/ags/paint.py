"""What a person's terminal can show: its colours, its width, and nothing that it would obey."""

from __future__ import annotations

import functools
import json
import os
import sys
import unicodedata
from collections.abc import Mapping
from typing import Literal, TextIO

from ags.frozen import frozen
from ags.text import one_line, utf8

Choice = Literal["auto", "always", "never"]

CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
SIDEWAYS = 200
"""Columns where nobody says how many there are: a file, or a pipe."""


@frozen
class Paint:
    """Colours a text that is harmless already. Written by hand: `rich` takes longer than a list."""

    on: bool = False

    def __call__(self, text: str, *styles: str) -> str:
        if not self.on or not styles or not text:
            return text
        return f"\x1b[{';'.join(CODES[style] for style in styles)}m{text}\x1b[0m"


def paint_for(stream: TextIO, environ: Mapping[str, str], choice: Choice = "auto") -> Paint:
    """Only on a terminal that knows colours, and not if the person wants none (NO_COLOR)."""
    if choice != "auto":
        return Paint(choice == "always")
    wanted = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return Paint(wanted and stream.isatty())


def heading(text: str) -> str:
    return paint_for(sys.stdout, os.environ)(text, "bold")


def columns(stream: TextIO, environ: Mapping[str, str]) -> int:
    given = environ.get("COLUMNS", "")
    if given.isdecimal() and int(given[:6]) > 0:
        return int(given[:6])
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return SIDEWAYS


def cells(text: str) -> int:
    """How wide it is on a terminal."""
    return len(text) if text.isascii() else sum(map(_cells, text))


@functools.lru_cache(4096)
def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, room: int) -> str:
    """At most so many cells of it; `…` says that there was more."""
    text, whole = text[: 4 * room], len(text) <= 4 * room  # marks that take no room have an end too
    if whole and cells(text) <= room:
        return text
    kept = used = 0
    for character in text:
        used += _cells(character)
        if used > room - 1:
            break
        kept += 1
    return f"{text[:kept]}…" if room > 0 else ""


def padded(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def first_line(text: str, room: int) -> str:
    """Of a text from elsewhere, harmless and cut."""
    line = text.strip().partition("\n")[0][: 4 * room + 1]
    return cut(line if line.isprintable() else one_line(line), room)


def as_json(value: object, *, indent: int | None = None) -> str:
    """ASCII, so that no terminal obeys it; and what is no text is visible, not half a surrogate."""
    return json.dumps(_text_only(value), indent=indent)


def _text_only(value: object) -> object:
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, Mapping):
        return {utf8(str(key)): _text_only(each) for key, each in value.items()}
    return [_text_only(each) for each in value] if isinstance(value, list | tuple) else value


def short_time(seconds: float) -> str:
    """`42s`, `3m`, `5h`, `12d`: enough for a glance."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def exact_time(seconds: float) -> str:
    """`1 h 2 min 3 s`."""
    whole = int(seconds)
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or f"{seconds:.1f} s"


def changes(files: int, insertions: int, deletions: int) -> str:
    if not files:
        return "no change"
    return f"+{insertions} −{deletions} in {files} {'file' if files == 1 else 'files'}"
