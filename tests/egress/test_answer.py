"""An answer is read in one way, however it was cut."""

from __future__ import annotations

import pytest

from ags.egress.answer import AnswerHead, AnswerReader, BadAnswer, Body, Chunks, body_of
from ags.egress.http import MOST_HEAD


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def head_of(data: bytes, size: int = 1 << 20) -> tuple[AnswerHead | None, bytes]:
    reader, found = AnswerReader(), None
    for piece in pieces(data, size):
        if found is None:
            found = reader.feed(piece)
        else:
            reader.rest += piece
    return found, reader.rest


def read(body: Body, data: bytes, size: int) -> bytes:
    out = b""
    for piece in pieces(data, size):
        if not body.ended and not body.wrong:
            out += body.feed(piece)
    return out


@pytest.mark.parametrize("size", [1, 2, 3, 50, 1000])
def test_a_head_is_the_same_in_every_cut(size: int) -> None:
    data = b"HTTP/1.1 200 All right\r\nA: b\r\nC:  d \t\r\nE:\r\n\r\nrest\nof it"
    found, rest = head_of(data, size)
    assert found == AnswerHead("1.1", 200, b"All right", ((b"A", b"b"), (b"C", b"d"), (b"E", b"")))
    assert rest == b"rest\nof it"


@pytest.mark.parametrize("first", [b"HTTP/1.1 200", b"HTTP/1.1 200 ", b"HTTP/1.0 999 \xff"])
def test_a_first_line_may_have_no_phrase_or_an_odd_one(first: bytes) -> None:
    found, _ = head_of(first + b"\r\n\r\n")
    assert found is not None and found.status in (200, 999)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\nA: b\n\n",
        b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.2 200 OK\r\n\r\n",
        b"http/1.1 200 OK\r\n\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * MOST_HEAD + b"\r\n\r\n",
    ],
)
def test_what_is_no_head_is_refused_in_every_cut(data: bytes, size: int) -> None:
    with pytest.raises(BadAnswer):
        head_of(data, size)


CHUNKS = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Sum: 1\r\n\r\nnext"


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_chunks_are_the_same_in_every_cut(size: int) -> None:
    body = Chunks()
    assert read(body, CHUNKS, size) == b"abcde"
    assert body.ended and body.wrong is None and body.trailers == ((b"X-Sum", b"1"),)
    assert b"next".startswith(body.rest)


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_what_comes_before_a_wrong_chunk_is_read_in_every_cut(size: int) -> None:
    body = Chunks()
    assert read(body, b"3\r\nabc\r\nxyz\r\nevil", size) == b"abc"
    assert body.wrong is not None and not body.ended


def test_many_small_chunks_take_time_in_proportion() -> None:
    """And not with its square: each would be copied as often as there are chunks."""
    body = Chunks()
    data = b"1\r\nx\r\n" * 200_000
    assert body.feed(data) == b"x" * 200_000 and body.rest == b""


@pytest.mark.parametrize(
    ("method", "head", "ended"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", True),
        ("GET", b"HTTP/1.1 204 No\r\n\r\n", True),
        ("GET", b"HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", True),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", False),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\n", False),
    ],
)
def test_where_a_body_ends_hangs_on_request_and_head(method: str, head: bytes, ended: bool) -> None:
    found, _ = head_of(head)
    assert found is not None and body_of(found, method).ended is ended
