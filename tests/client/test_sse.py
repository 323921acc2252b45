"""Server-sent events, in whatever pieces they come."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.client.sse import Parser, Sent

SAMPLE = (
    b"\xef\xbb\xbfretry: 1000\r\n\r\n"
    b": beat\r\r"
    b"id: 1\nevent: output\ndata: {\"a\": 1}\n\n"
    b"id:2\rdata:first\rdata: second\rdata\r\r"
    b"data: \xc3\xa4\r\nunknown: x\r\n\r\n"
    b"event: nothing\n\n"
    b"id: 3\ndata:  two spaces\n\n"
    b"id: 4\ndata: not fin"
)  # fmt: skip
EVENTS = [
    Sent("output", '{"a": 1}', "1"),
    Sent("message", "first\nsecond\n", "2"),
    Sent("message", "ä", "2"),
    Sent("message", " two spaces", "3"),
]


def parsed(*pieces: bytes, most: int = 1000) -> list[Sent]:
    parser = Parser(most)
    return [sent for piece in pieces for sent in parser.feed(piece)]


def test_a_stream_is_read_with_every_kind_of_line_end() -> None:
    assert parsed(SAMPLE) == EVENTS


def test_byte_by_byte_it_is_the_same() -> None:
    assert parsed(*(SAMPLE[at : at + 1] for at in range(len(SAMPLE)))) == EVENTS


@given(st.lists(st.integers(0, len(SAMPLE)), max_size=8))
def test_however_it_is_cut_it_is_the_same(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(SAMPLE)]
    pieces = [SAMPLE[start:end] for start, end in itertools.pairwise(places)]
    assert parsed(*pieces) == EVENTS


def test_an_id_with_a_nul_is_none() -> None:
    assert parsed(b"id: 7\ndata: x\n\nid: 8\0\ndata: y\n\n")[1].id == "7"


def test_what_was_begun_before_is_gone_on_with() -> None:
    assert Parser(100, "41").feed(b"data: x\n\n") == [Sent("message", "x", "41")]


@pytest.mark.parametrize(
    "piece",
    [b"data: " + b"x" * 2000, b"x" * 2000, b"data: xxxx\n" * 500, b"data:\n" * 500, b":" * 2000],
)
def test_an_event_without_end_is_refused(piece: bytes) -> None:
    with pytest.raises(ValueError, match="larger than 1000"):
        parsed(*(piece[at : at + 50] for at in range(0, len(piece), 50)))


def test_beats_without_end_are_no_event_without_end() -> None:
    assert parsed(*[b": beat\n\n: beat\n"] * 1000, b"data: x\n\n") == [Sent("message", "x", "")]


def test_large_events_take_little_more_than_themselves() -> None:
    size = 8 << 20
    parser = Parser(size + 100)
    tracemalloc.start()
    found = [*parser.feed(b"data: ")]
    for _ in range(size >> 16):
        found += parser.feed(b"x" * 65536)
    found += parser.feed(b"\n\n")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found[0].data) == size and peak < 6 * size
