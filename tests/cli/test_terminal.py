"""Which stream goes where, decided from what they are."""

from __future__ import annotations

import itertools

import pytest

from ags.cli.terminal import Wiring, wire

YES, NO = True, False


@pytest.mark.parametrize(
    ("on_terminal", "into_pipe", "foreground", "interactive", "keyboard", "outlet"),
    [
        ((YES, YES, YES), NO, YES, NO, YES, 1),
        ((NO, YES, YES), NO, NO, NO, NO, 1),
        ((YES, NO, YES), NO, YES, NO, YES, 2),
        ((YES, NO, NO), NO, YES, NO, YES, 0),
        ((YES, NO, YES), YES, YES, NO, NO, 2),
        ((YES, NO, YES), YES, YES, YES, YES, 2),
        ((YES, NO, NO), YES, YES, NO, NO, None),
        ((YES, YES, YES), NO, NO, NO, NO, 1),
        ((YES, YES, YES), NO, NO, YES, NO, 1),
        ((NO, NO, NO), YES, NO, YES, NO, None),
    ],
    ids=[
        "all on the terminal",
        "input from a pipe",
        "output to a file",
        "output and errors to files",
        "output into a pipe",
        "output into a pipe, keyboard asked for",
        "output and errors into a pipe",
        "in the background",
        "in the background, keyboard asked for",
        "no terminal at all",
    ],
)
def test_streams_are_wired_by_what_they_are(
    on_terminal: tuple[bool, bool, bool],
    into_pipe: bool,
    foreground: bool,
    interactive: bool,
    keyboard: bool,
    outlet: int | None,
) -> None:
    made = wire(on_terminal, into_pipe=into_pipe, foreground=foreground, interactive=interactive)
    assert (made.keyboard, made.outlet) == (keyboard, outlet)


def test_a_terminal_is_made_whenever_one_goes_inside_and_never_otherwise() -> None:
    for stdin, stdout, stderr, *rest in itertools.product((YES, NO), repeat=6):
        made: Wiring = wire(
            (stdin, stdout, stderr), into_pipe=rest[0], foreground=rest[1], interactive=rest[2]
        )
        needed = made.keyboard or any(made.on_terminal[1:])
        assert (made.outlet is not None) == needed
        assert made.outlet is None or made.on_terminal[made.outlet]
