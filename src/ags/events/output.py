"""From the bytes a program prints to lines of text, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ags.model import KIB

End = Literal["\n", "\r", "cut", ""]


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes that are not UTF-8 show as `\\xff`."""

    text: str
    end: End = "\n"
    """`\\r`: the next line is printed over this one. `cut`: it goes on in the next one. Empty: the
    program ended in the middle of it."""


class OutputSplitter:
    """Lines as they come, in any chunks, and never more than `limit` bytes of one in memory."""

    def __init__(self, limit: int = 8 * KIB) -> None:
        if limit < 4:
            raise ValueError("a character of four bytes must fit")
        self._limit = limit
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[Line]:
        if self._is_whole_and_plain(chunk):
            return [Line(_text(raw)) for raw in chunk[:-1].split(b"\n")]
        if self._is_more_of_the_same(chunk):
            self._rest += chunk
            return []
        *whole, rest = (self._rest + chunk).split(b"\n")
        lines = [line for raw in whole for line in self._ended(bytes(raw), "\n")]
        lines += self._begun(bytes(rest))
        return lines

    def finish(self) -> list[Line]:
        """What is left when nothing more will come."""
        rest, self._rest = bytes(self._rest), bytearray()
        if rest.endswith(b"\r"):
            return list(self._ended(rest[:-1], "\r"))
        return list(self._ended(rest, "")) if rest else []

    def _is_whole_and_plain(self, chunk: bytes) -> bool:
        """As most of what programs print is: nothing to put together, to cut or to look into."""
        return (
            not self._rest
            and len(chunk) <= self._limit
            and chunk.endswith(b"\n")
            and b"\r" not in chunk
        )

    def _is_more_of_the_same(self, chunk: bytes) -> bool:
        return (
            len(self._rest) + len(chunk) <= self._limit
            and b"\n" not in chunk
            and b"\r" not in chunk
            and not self._rest.endswith(b"\r")
        )

    def _ended(self, raw: bytes, end: End) -> Iterator[Line]:
        """All of a line that is complete, its end taken off."""
        if end == "\n":
            raw = raw.removesuffix(b"\r")
        *over, last = raw.split(b"\r") if b"\r" in raw else (raw,)
        for each in over:
            yield from self._pieces(each, "\r")
        yield from self._pieces(last, end)

    def _begun(self, rest: bytes) -> Iterator[Line]:
        """What can be told of a line whose end has not come; a last `\\r` may become `\\r\\n`."""
        held = b"\r" if rest.endswith(b"\r") else b""
        *over, last = rest.removesuffix(b"\r").split(b"\r")
        for each in over:
            yield from self._pieces(each, "\r")
        while len(last) > self._limit:
            at = self._cut(last)
            yield Line(_text(last[:at]), "cut")
            last = last[at:]
        self._rest = bytearray(last + held)

    def _pieces(self, raw: bytes, end: End) -> Iterator[Line]:
        while len(raw) > self._limit:
            at = self._cut(raw)
            yield Line(_text(raw[:at]), "cut")
            raw = raw[at:]
        yield Line(_text(raw), end)

    def _cut(self, raw: bytes) -> int:
        """Where to cut without hurting a character."""
        for at in range(self._limit, self._limit - 4, -1):
            if raw[at] & 0xC0 != 0x80:
                return at
        return self._limit


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")
