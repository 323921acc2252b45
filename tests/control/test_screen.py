"""Modes and the last lines, from output in pieces that end anywhere."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.control.screen import MOST_TAIL, Screen, calm

QUESTIONS = (
    b"\x1b[6n\x1b[c\x1b[>c\x1b[5n\x1b[?6n\x1b[>q\x1b[18t\x1bZ\x05\x1b]11;?\x07\x1b]52;c;?\x1b\\"
    b"\x1bP+q544e\x1b\\\x1b[?2004$p\x1b[?u\xc2\x85"
)


def fed(*pieces: bytes) -> Screen:
    screen = Screen()
    for piece in pieces:
        screen.feed(piece)
    return screen


@pytest.mark.parametrize("mode", [47, 1047, 1049])
def test_the_alternate_screen_is_noticed_wherever_the_pieces_end(mode: int) -> None:
    enter, leave = b"a\x1b[?%dhb" % mode, b"c\x1b[?%dld" % mode
    for cut in range(len(enter) + 1):
        assert fed(enter[:cut], enter[cut:]).alternate == mode
        assert fed(enter, leave[:cut], leave[cut:]).alternate == 0


def test_byte_by_byte_it_is_the_same() -> None:
    output = b"one\r\n\x1b[?25l\x1b[?1049;2004h\x1b[?1hmiddle\x1b[?1049ltwo\x1b[>1u\x1b="
    whole, bytewise = fed(output), fed(*(bytes([byte]) for byte in output))
    assert whole.picture() == bytewise.picture()
    assert whole.leaving() == bytewise.leaving()


def test_a_mode_among_others_and_a_reset_are_noticed() -> None:
    assert fed(b"\x1b[?25;1049;2004h").alternate == 1049
    assert fed(b"\x1b[?1049h\x1bc").alternate == 0
    assert fed(b"\x1b[1049h\x1b?1049h[?1049h").alternate == 0


def test_only_the_main_screen_is_kept() -> None:
    screen = fed(b"before\r\n\x1b[?1049hfull\x1b[2Jscreen\x1b[?1049lafter")
    assert screen.tail() == b"before\r\nafter"
    assert b"full" not in screen.picture()


def test_the_tail_is_bounded_and_begins_with_a_line() -> None:
    screen = Screen()
    for number in range(100_000):
        screen.feed(b"line %d\r\n" % number)
    tail = screen.tail()
    assert MOST_TAIL - 20 < len(tail) <= MOST_TAIL
    assert tail.startswith(b"line ") and tail.endswith(b"line 99999\r\n")


def test_a_tail_without_the_start_of_a_line_is_not_shown() -> None:
    assert fed(b"x" * (MOST_TAIL + 1)).tail() == b""
    assert fed(b"x" * MOST_TAIL).tail() == b"x" * MOST_TAIL


def test_a_later_terminal_gets_the_modes_that_are_on_and_no_others() -> None:
    picture = fed(b"\x1b[?1000h\x1b[?25l\x1b[?2004h\x1b[?1000l\x1b[>5u\x1b[>4;2m").picture()
    assert picture == b"\x1b[0m\x1b[?25l\x1b[?2004h\x1b[>5u\x1b[>4;2m"
    assert fed(b"\x1b[>5u\x1b[<u\x1b[>4;2m\x1b[>4;0m\x1b=\x1b>").picture() == b"\x1b[0m"


def test_a_later_terminal_gets_the_first_half_of_what_is_under_way() -> None:
    assert fed(b"text\x1b[3").picture().endswith(b"text\x1b[3")


def test_leaving_undoes_what_was_done_and_leaves_the_main_screen_alone() -> None:
    assert b"\x1b[?1049l" in fed(b"\x1b[?1049h").leaving()
    assert b"1049" not in fed(b"\x1b[?1049h\x1b[?1049l").leaving()
    assert b"\x1b[<2u" in fed(b"\x1b[>1u\x1b[>1u").leaving()
    assert re.search(rb"\[\?[0-9;]*2004[0-9;]*l", Screen().leaving())


def test_questions_titles_and_the_clipboard_are_not_replayed() -> None:
    text = b"\x1b[31mred\x1b[0m \xc3\xa4\r\n\x1b[2K\x1b[1Aup\x1b(0x\x1b(B"
    assert calm(QUESTIONS + text + QUESTIONS) == text


PIECES = [bytes([byte]) for byte in b"\x1b[]?>6ncP\\\x07;(0Z\x05uq$yt \xc2\x9bA"]


@given(st.lists(st.sampled_from(PIECES)).map(b"".join))
def test_whatever_is_replayed_asks_nothing(data: bytes) -> None:
    calmed = calm(data)
    assert calm(calmed) == calmed
    assert not re.search(rb"\x1b\[[0-?]*[ -/]*[cnqtpuyx]|\x1b[\]P^_XZc]|\x05|\xc2\x9b", calmed)
