"""Bytes in, lines out."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.events import LINE, Line, OutputSplitter
from ags.events.event import encode

telling = st.sampled_from([b"\n", b"\r", b"\r\n", "€".encode(), b"\xff", b"x" * 9])
printed = st.lists(st.binary(max_size=12) | telling).map(b"".join)


def lines(data: bytes, limit: int = 8192) -> list[Line]:
    splitter = OutputSplitter(limit)
    return splitter.feed(data) + splitter.finish()


@given(printed, st.integers(4, 20), st.lists(st.integers(1, 7)))
def test_any_chunking_gives_the_same_lines(data: bytes, limit: int, sizes: list[int]) -> None:
    splitter, got, at = OutputSplitter(limit), [], 0
    for size in sizes:
        got += splitter.feed(data[at : at + size])
        at += size
    got += splitter.feed(data[at:]) + splitter.finish()
    assert got == lines(data, limit)


@given(printed, st.integers(4, 20))
def test_nothing_is_lost_between_the_lines(data: bytes, limit: int) -> None:
    ends = {"\n": "\n", "\r": "\r", "cut": "", "": ""}
    shown = "".join(line.text + ends[line.end] for line in lines(data, limit))
    plain = data.replace(b"\r\n", b"\n")
    if all(line.end != "cut" for line in lines(data, limit)):
        assert shown == plain.decode(errors="backslashreplace")
    else:  # a cut in the middle of bytes that are no text may show them otherwise
        assert len(shown) >= len(plain.decode(errors="ignore"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [Line("")]),
        (b"a\nb", [Line("a"), Line("b", "")]),
        (b"a\r\nb\r\n", [Line("a"), Line("b")]),
        (b"10%\r20%\r\n", [Line("10%", "\r"), Line("20%")]),
        (b"10%\r", [Line("10%", "\r")]),
        (b"a\r\r\n", [Line("a", "\r"), Line("")]),
        (b"caf\xe9 \x80\n", [Line("caf\\xe9 \\x80")]),
        (b"\xed\xa0\x80\n", [Line("\\xed\\xa0\\x80")]),
        ("€uro\n".encode(), [Line("€uro")]),
    ],
)
def test_what_is_printed_is_what_is_told(data: bytes, expected: list[Line]) -> None:
    assert lines(data) == expected


def test_a_line_that_is_printed_over_is_told_as_soon_as_that_is_certain() -> None:
    splitter = OutputSplitter()
    assert splitter.feed(b"10%\r") == []
    assert splitter.feed(b"2") == [Line("10%", "\r")]


def test_an_over_long_line_comes_in_marked_pieces() -> None:
    assert lines(b"abcdefghij\nk\n", 4) == [
        Line("abcd", "cut"),
        Line("efgh", "cut"),
        Line("ij"),
        Line("k"),
    ]
    assert lines(b"abcd\r\n", 4) == [Line("abcd")]


def test_a_character_is_not_cut_in_two() -> None:
    assert lines("ab€cd€\n".encode(), 4) == [Line("ab", "cut"), Line("€c", "cut"), Line("d€")]


def test_one_line_of_a_gigabyte_takes_no_memory() -> None:
    splitter, chunk, pieces = OutputSplitter(), b"x" * (1 << 20), 0
    tracemalloc.start()
    for _ in range(64):  # the first and the last megabyte are alike, so 64 tell of a thousand
        pieces += len(splitter.feed(chunk))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pieces == 64 * 128 - 1 and peak < 8 << 20


def test_a_long_line_in_small_chunks_is_not_copied_each_time() -> None:
    splitter = OutputSplitter(4 << 20)
    assert [line for _ in range(4096) for line in splitter.feed(b"y" * 1024)] == []
    assert splitter.feed(b"\n") == [Line("y" * (4 << 20))]


@given(st.sampled_from([b"\x00", b"\xff", b"\\", b'"', b"\x1b", "€".encode()]))
def test_a_piece_always_fits_into_one_event(unit: bytes) -> None:
    for line in lines(unit * 20_000):
        encoded = encode(1 << 60, 1e12, "output", {"text": line.text, "stream": "stdout"})
        assert len(encoded) <= LINE and b'"cut":{' not in encoded
