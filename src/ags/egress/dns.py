"""What a resolver inside is told. Nothing is looked up: a name gets a made address, or none.

Whether a name is allowed is not asked here but at the connection, where a refusal can be spoken. So
an allowed name, a refused one and one that does not exist look the same, and no query ever leaves.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from enum import IntEnum
from ipaddress import IPv4Address

from ags.egress.hosts import BadHost, canonical_host, is_public_name
from ags.egress.pool import Pool
from ags.errors import AgsError
from ags.frozen import frozen

TTL = 30
MAX_LABEL, MAX_NAME = 63, 255
MOST_FRAMED = 4096
"""Bytes of one query over TCP: a name of full length with every option comes to far less."""
UDP_SIZE = 1232
A, SOA, OPT, INTERNET = 1, 6, 41, 1

HEADER = struct.Struct("!6H")
RESPONSE, OPCODE, RECURSE, AVAILABLE, UNCHECKED = 0x8000, 0x7800, 0x0100, 0x0080, 0x0010
THE_QUESTION = b"\xc0\x0c"
"""A name by reference: the one that was asked for."""
ROOT = b"\0"


class Code(IntEnum):
    """What became of a query, as the protocol counts it."""

    FINE = 0
    MALFORMED = 1
    FAILED = 2
    NO_SUCH_NAME = 3
    NOT_IMPLEMENTED = 4
    REFUSED = 5
    BAD_VERSION = 16


class BadFrame(AgsError):
    """A length over TCP that no query has."""

    def __init__(self, length: int) -> None:
        super().__init__("read a DNS query", cause=f"it says that it has {length} bytes")


@frozen
class Question:
    """One question, its bytes as they came: case and all go back as they are."""

    labels: tuple[bytes, ...]
    type: int
    class_: int
    wire: bytes


@frozen
class Query:
    """A whole query."""

    id: int
    flags: int
    question: Question
    extended: int | None
    """The version of EDNS that is spoken, if any."""


class _Malformed(Exception):
    """Not as the protocol has it."""


def answer(query: bytes, pool: Pool, extra: Collection[str] = ()) -> bytes | None:
    """The reply; None where silence is right. `extra` has names that are not public, yet known."""
    if len(query) < HEADER.size:
        return None
    id_, flags, *_ = HEADER.unpack_from(query)
    if flags & RESPONSE:  # two that answer each other's answers never end
        return None
    if flags & OPCODE:
        return _bare(id_, flags, Code.NOT_IMPLEMENTED)
    try:
        asked = parse(query)
    except _Malformed:
        return _bare(id_, flags, Code.MALFORMED)
    return _reply(asked, *_judge(asked, pool, extra))


def parse(query: bytes) -> Query:
    """Exactly one question, at most EDNS beside it, and nothing behind."""
    id_, flags, questions, answers, authorities, additional = HEADER.unpack_from(query)
    if (questions, answers, authorities) != (1, 0, 0) or additional > 1:
        raise _Malformed
    question, end = _question(query, HEADER.size)
    extended = None
    if additional:
        extended, end = _extension(query, end)
    if end != len(query):
        raise _Malformed
    return Query(id_, flags, question, extended)


def _question(query: bytes, start: int) -> tuple[Question, int]:
    labels: list[bytes] = []
    at = start
    while length := _byte(query, at):
        # Also refuses references: the first name of a message has nothing to refer to.
        if length > MAX_LABEL or at + 1 + length - start >= MAX_NAME:
            raise _Malformed
        labels.append(query[at + 1 : at + 1 + length])
        at += 1 + length
    end = at + 5
    if end > len(query):
        raise _Malformed
    type_, class_ = struct.unpack_from("!HH", query, at + 1)
    return Question(tuple(labels), type_, class_, query[start:end]), end


def _byte(query: bytes, at: int) -> int:
    if at >= len(query):
        raise _Malformed
    return query[at]


def _extension(query: bytes, at: int) -> tuple[int, int]:
    """Its version, and where it ends. What options there are does not matter here."""
    if len(query) < at + 11:
        raise _Malformed
    name, type_, _, _, version, _, size = struct.unpack_from("!BHHBBHH", query, at)
    if name != 0 or type_ != OPT:
        raise _Malformed
    return version, at + 11 + size


def _judge(asked: Query, pool: Pool, extra: Collection[str]) -> tuple[Code, str | None]:
    if asked.extended:
        return Code.BAD_VERSION, None
    if asked.question.class_ != INTERNET:
        return Code.REFUSED, None
    name = _name(asked.question.labels)
    if name is None or not (is_public_name(name) or name in extra):
        return Code.NO_SUCH_NAME, None
    # For any other type "no such name" would be wrong, and musl would take it for the address too.
    if asked.question.type != A:
        return Code.FINE, None
    address = pool.address(name)
    return (Code.FINE if address else Code.FAILED), address


def _name(labels: tuple[bytes, ...]) -> str | None:
    """In its one spelling. A dot within a label would make two of it once they are joined."""
    if any(b"." in label or not label.isascii() for label in labels):
        return None
    try:
        return canonical_host(b".".join(labels).decode("ascii"))
    except BadHost:
        return None


def _bare(id_: int, flags: int, code: Code) -> bytes:
    return HEADER.pack(id_, _flags(flags, code), 0, 0, 0, 0)


def _flags(asked: int, code: Code) -> int:
    return RESPONSE | asked & (OPCODE | RECURSE | UNCHECKED) | AVAILABLE | code & 0xF


def _reply(asked: Query, code: Code, address: str | None) -> bytes:
    answers = [_record(THE_QUESTION, A, IPv4Address(address).packed)] if address else []
    # Without it, a resolver that caches would not know how long there is nothing.
    empty = code in (Code.FINE, Code.NO_SUCH_NAME) and not address
    authority = [_record(ROOT, SOA, ROOT * 2 + struct.pack("!5I", 1, 60, 60, 60, TTL))]
    opt = ROOT + struct.pack("!HHBBHH", OPT, UDP_SIZE, code >> 4, 0, 0, 0)
    parts = (answers, authority if empty else [], [opt] if asked.extended is not None else [])
    head = HEADER.pack(asked.id, _flags(asked.flags, code), 1, *map(len, parts))
    return head + asked.question.wire + b"".join(record for part in parts for record in part)


def _record(name: bytes, type_: int, content: bytes) -> bytes:
    return name + struct.pack("!HHIH", type_, INTERNET, TTL, len(content)) + content


def question(host: str) -> bytes:
    """A query for the address of a name, as a program sends it."""
    labels = b"".join(bytes((len(each),)) + each for each in host.encode("ascii").split(b"."))
    return HEADER.pack(1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", 1, 1)


def framed(message: bytes) -> bytes:
    """As it goes over TCP."""
    return struct.pack("!H", len(message)) + message


def unframed(received: bytes) -> tuple[tuple[bytes, ...], bytes]:
    """The whole messages at the start, and what is left. Raises BadFrame."""
    messages: list[bytes] = []
    at = 0
    while len(received) - at >= 2:
        length = int.from_bytes(received[at : at + 2], "big")
        if not HEADER.size <= length <= MOST_FRAMED:
            raise BadFrame(length)
        if len(received) - at - 2 < length:
            break
        messages.append(received[at + 2 : at + 2 + length])
        at += 2 + length
    return tuple(messages), received[at:]
