"""What an origin answers, read in one way only: its heads, and where each body ends.

Origins are strangers. What could be read in two ways is refused, however common it once was: bare
line feeds, folded lines, a length beside chunks. Bytes are fed as they come; how they were cut
never changes what comes out, and no more than one head or one line of a chunk is ever held.
"""

from __future__ import annotations

import re
from typing import Protocol

from ags.egress.http import FIELDS, MOST_HEAD, MOST_HEADERS, VALUE, Header, Headers
from ags.egress.wire import Refused
from ags.frozen import frozen

MOST_CHUNK_LINE = 1024
"""Bytes of the line before a chunk. What it says beyond the size is for nobody here."""

_HEAD = re.compile(rb"HTTP/1\.[01] [1-9][0-9][0-9](?: " + VALUE + rb")?\r\n" + FIELDS + rb"\r\n")
_TRAILERS = re.compile(FIELDS + rb"\r\n")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;" + VALUE + rb")?\r\n")
_BARE = re.compile(rb"(?<!\r)\n")
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")
_START = b"HTTP/1."


class BadAnswer(Exception):
    """The origin does not say one thing."""

    def __init__(self, reason: str, detail: str) -> None:
        self.refused = Refused(reason, detail)


def _not_http() -> BadAnswer:
    # What was sent is not quoted: a secret may be in it.
    return BadAnswer("protocol", "what the origin sent is not HTTP/1.1")


@frozen
class AnswerHead:
    version: str
    status: int
    reason: bytes
    headers: Headers
    """As sent, but for the spaces around values."""

    def only(self, name: bytes) -> bytes | None:
        """The value of a header that may be there once."""
        found = [value for given, value in self.headers if given.lower() == name]
        if len(found) > 1:
            raise BadAnswer("duplicate", f"the origin says {name.decode()} twice")
        return found[0] if found else None


class AnswerReader:
    """Collects one head after the other; `rest` is what came beyond the last."""

    def __init__(self) -> None:
        self.rest = b""
        self._seen = 0
        """Bytes of `rest` that hold no end of a head."""

    def feed(self, data: bytes) -> AnswerHead | None:
        held = self.rest = self.rest + data if self.rest else data
        end = held.find(b"\r\n\r\n", max(0, self._seen - 3))
        if end < 0:
            self._check_start(held)
            return None
        if end + 4 > MOST_HEAD:
            raise _too_large()
        self.rest, self._seen = held[end + 4 :], 0
        return _head(held[: end + 4])

    def _check_start(self, held: bytes) -> None:
        """Nobody waits for the end of what cannot become a head."""
        if not held.startswith(_START[: len(held)]):
            raise _not_http()
        if _BARE.search(held, self._seen):
            raise _not_http()
        if len(held) >= MOST_HEAD:
            raise _too_large()
        self._seen = len(held)


def _too_large() -> BadAnswer:
    return BadAnswer("too-large", "the head of the origin's answer is too large")


def _head(raw: bytes) -> AnswerHead:
    if not _HEAD.fullmatch(raw):
        raise _not_http()
    first, *lines = raw[:-4].split(b"\r\n")
    if len(lines) > MOST_HEADERS:
        raise _too_large()
    version, status, *reason = first.split(b" ", 2)
    return AnswerHead(
        version[5:].decode("ascii"), int(status), b"".join(reason), tuple(map(_header, lines))
    )


def _header(line: bytes) -> Header:
    name, _, value = line.partition(b":")
    return name, value.strip(b" \t")


class Body(Protocol):
    """Where an answer's body is, in what follows its head."""

    wrong: Refused | None
    """What is read until then counts; nothing after it does."""
    trailers: Headers

    @property
    def ended(self) -> bool: ...

    @property
    def rest(self) -> bytes:
        """Once it has ended: what came after it."""

    def feed(self, data: bytes) -> bytes: ...


def body_of(head: AnswerHead, method: str) -> Body:
    """How its end is told. Raises `BadAnswer` if it is told in more than one way, or in none."""
    coding, length = head.only(b"transfer-encoding"), head.only(b"content-length")
    if coding is not None and length is not None:
        raise BadAnswer("length-and-chunks", "the origin's answer has a length and chunks")
    if coding is not None and (coding.lower() != b"chunked" or head.version != "1.1"):
        raise BadAnswer("transfer-encoding", "the origin's answer is in an unknown encoding")
    if length is not None and not _LENGTH.fullmatch(length):
        raise BadAnswer("content-length", "the length of the origin's answer is no plain number")
    if method == "HEAD" or head.status in (204, 304):
        return Counted(0)
    if coding is not None:
        return Chunks()
    return Counted(int(length)) if length is not None else Endless()


class Counted:
    """A body whose length is known before."""

    def __init__(self, length: int) -> None:
        self.left = length
        self.rest = b""
        self.wrong: Refused | None = None
        self.trailers: Headers = ()

    @property
    def ended(self) -> bool:
        return self.left == 0

    def feed(self, data: bytes) -> bytes:
        body = data[: self.left]
        self.left -= len(body)
        self.rest = data[len(body) :]
        return body


class Endless:
    """A body that ends with its connection, which is for the caller to see."""

    def __init__(self) -> None:
        self.ended = False
        self.rest = b""
        self.wrong: Refused | None = None
        self.trailers: Headers = ()

    def feed(self, data: bytes) -> bytes:
        return data


class Chunks:
    """A body in chunks: their sizes and extensions are left behind."""

    def __init__(self) -> None:
        self.ended = False
        self.wrong: Refused | None = None
        self.trailers: Headers = ()
        self._held, self._at = b"", 0
        self._left = 0
        self._step = self._size

    @property
    def rest(self) -> bytes:
        return self._held[self._at :]

    def feed(self, data: bytes) -> bytes:
        """Every step takes what it can, and says whether the next one is due."""
        self._held, self._at = self.rest + data, 0
        body: list[bytes] = []
        try:
            while not self.ended and self._step(body):
                pass
        except BadAnswer as bad:
            self.wrong = bad.refused
        return b"".join(body)

    def _size(self, body: list[bytes]) -> bool:
        end = self._held.find(b"\n", self._at, self._at + MOST_CHUNK_LINE)
        if end < 0:
            if len(self._held) - self._at >= MOST_CHUNK_LINE:
                raise BadAnswer("too-large", "the line before a chunk is too long")
            return False
        found = _CHUNK.fullmatch(self._held, self._at, end + 1)
        if not found:
            raise BadAnswer("protocol", "a chunk of the origin's answer has no plain size")
        self._at = end + 1
        self._left = int(found[1], 16)
        self._step = self._data if self._left else self._last
        return True

    def _data(self, body: list[bytes]) -> bool:
        piece = self._held[self._at : self._at + self._left]
        self._at += len(piece)
        self._left -= len(piece)
        body.append(piece)
        if not self._left:
            self._step = self._gap
        return not self._left

    def _gap(self, body: list[bytes]) -> bool:
        gap = self._held[self._at : self._at + 2]
        if not b"\r\n".startswith(gap):
            raise BadAnswer("protocol", "a chunk of the origin's answer is longer than it says")
        if len(gap) < 2:
            return False
        self._at += 2
        self._step = self._size
        return True

    def _last(self, body: list[bytes]) -> bool:
        """The lines after the last chunk."""
        rest = self.rest
        end = 2 if rest.startswith(b"\r\n") else rest.find(b"\r\n\r\n") + 4
        if end == 3:
            if _BARE.search(rest):
                raise _not_http()
            if len(rest) >= MOST_HEAD:
                raise _too_large()
            return False
        if end > MOST_HEAD:
            raise _too_large()
        if not _TRAILERS.fullmatch(rest, 0, end):
            raise _not_http()
        self.trailers = tuple(map(_header, rest[:end].split(b"\r\n")[:-2]))
        self._at += end
        self.ended = True
        return False
