"""What git prints about a diff, read back. Bytes in, values out; any doubt is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ags.errors import AgsError
from ags.text import decode

Kind = Literal["added", "deleted", "modified", "renamed", "copied", "type-changed", "mode-changed"]
LineKind = Literal["context", "added", "removed"]


@dataclass(frozen=True, slots=True)
class Line:
    kind: LineKind
    text: str
    no_newline: bool = False
    """It is the last of its file and does not end in a line break."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Neighbouring changes with the lines around them. A side that is empty starts at 0."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    heading: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class RawChange:
    """An entry of git's list of changed files. `counts` is None for a binary file."""

    path: str
    kind: Kind
    old_path: str | None
    old_mode: int
    new_mode: int
    old_id: str
    new_id: str
    counts: tuple[int, int] | None


_ENTRY = re.compile(
    rb":([0-7]{6}) ([0-7]{6}) "
    rb"([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([ACDMRT])\d{0,3}"
)
_COUNTS = re.compile(rb"(?:(\d{1,18})\t(\d{1,18})|-\t-)\t(.*)", re.DOTALL)
_FILE = re.compile(rb"diff --git a/(\d{8}) b/(\d{8})")
_HUNK = re.compile(
    rb"@@ -(\d{1,18})(?:,(\d{1,18}))? \+(\d{1,18})(?:,(\d{1,18}))? @@(?: (.*))?", re.DOTALL
)
_KINDS: dict[bytes, Kind] = {
    b"A": "added",
    b"C": "copied",
    b"D": "deleted",
    b"M": "modified",
    b"R": "renamed",
    b"T": "type-changed",
}
_LINES: dict[bytes, LineKind] = {b" ": "context", b"+": "added", b"-": "removed"}


def parse_raw(printed: bytes) -> list[RawChange]:
    """Read `diff-tree -z --raw --numstat`: first all entries, then all counts, the same files."""
    records = iter(printed.removesuffix(b"\0").split(b"\0") if printed else ())
    entries: list[tuple[re.Match[bytes], bytes | None, bytes]] = []
    counts: dict[bytes, tuple[int, int] | None] = {}
    for record in records:
        if entry := _ENTRY.fullmatch(record):
            if counts:
                raise _unreadable("an entry after the counts")
            old = _next(records) if entry[5] in b"RC" else None
            entries.append((entry, old, _next(records)))
        elif count := _COUNTS.fullmatch(record):
            # Of a rename the two names follow, as records of their own.
            path = count[3] or (_next(records), _next(records))[1]
            counts[path] = (int(count[1]), int(count[2])) if count[1] else None
        else:
            raise _unreadable("neither an entry nor a count")
    return [_raw_change(entry, old, path, counts) for entry, old, path in entries]


def _raw_change(
    entry: re.Match[bytes],
    old_path: bytes | None,
    path: bytes,
    counts: dict[bytes, tuple[int, int] | None],
) -> RawChange:
    kind = _KINDS[entry[5]]
    if kind == "modified" and entry[3] == entry[4]:
        kind = "mode-changed"
    return RawChange(
        path=decode(path),
        kind=kind,
        old_path=None if old_path is None else decode(old_path),
        old_mode=int(entry[1], 8),
        new_mode=int(entry[2], 8),
        old_id=entry[3].decode(),
        new_id=entry[4].decode(),
        counts=counts.get(path, (0, 0)),
    )


def parse_patch(printed: bytes) -> dict[int, tuple[tuple[Hunk, ...], int]]:
    """Read the patch of files whose names are numbers: each one's hunks and their size in bytes.

    A hunk ends when the lines it announced are there, so that no content passes for a header.
    """
    found: dict[int, list[Hunk]] = {}
    sizes: dict[int, int] = {}
    number: int | None = None
    lines = iter(printed.split(b"\n"))
    pushed: list[bytes] = []
    while (line := pushed.pop() if pushed else next(lines, None)) is not None:
        if file := _FILE.fullmatch(line):
            number = int(file[1])
            found.setdefault(number, [])
        elif header := _HUNK.fullmatch(line):
            if number is None:
                raise _unreadable("a hunk of no file")
            hunk, size = _hunk(header, lines, pushed)
            found[number].append(hunk)
            sizes[number] = sizes.get(number, 0) + size + len(line)
    return {number: (tuple(hunks), sizes.get(number, 0)) for number, hunks in found.items()}


def _hunk(header: re.Match[bytes], lines: Iterator[bytes], pushed: list[bytes]) -> tuple[Hunk, int]:
    old_lines, new_lines = int(header[2] or 1), int(header[4] or 1)
    left = {"removed": old_lines, "added": new_lines}
    body: list[Line] = []
    size = 0
    while True:
        line = next(lines, None)
        if line is not None and line.startswith(b"\\") and body and not body[-1].no_newline:
            body[-1] = Line(body[-1].kind, body[-1].text, no_newline=True)
            continue
        if not left["removed"] and not left["added"]:
            pushed.extend(() if line is None else (line,))
            break
        kind = _LINES.get(line[:1]) if line else None
        if line is None or kind is None:
            raise _unreadable("a hunk is cut short")
        for side in ("removed", "added") if kind == "context" else (kind,):
            left[side] -= 1
            if left[side] < 0:
                raise _unreadable("a hunk has more lines than it says")
        body.append(Line(kind, decode(line[1:])))
        size += len(line) + 1
    heading = decode(header[5] or b"")
    return Hunk(int(header[1]), old_lines, int(header[3]), new_lines, heading, tuple(body)), size


def _next(records: Iterator[bytes]) -> bytes:
    record = next(records, None)
    if not record:
        raise _unreadable("a name is missing")
    return record


def _unreadable(cause: str) -> AgsError:
    return AgsError("read the diff", cause=f"git printed something unexpected: {cause}")
