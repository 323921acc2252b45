"""One program that a script would start."""

from __future__ import annotations

from collections.abc import Iterator

from ags.frozen import frozen
from ags.hooks.state import Feed


@frozen
class Program:
    name: str
    """Without its folder."""
    words: tuple[str, ...]
    """Its arguments, with marks where they are not known."""
    cwds: frozenset[str | None]
    feed: Feed = Feed()


@frozen
class Inner:
    """What a program starts in turn."""

    words: tuple[str, ...]
    cwds: frozenset[str | None] | None = None
    """If they are others."""


@frozen
class Inline:
    """A script that a program is given as a word."""

    text: str
    arguments: tuple[str, ...] | None = None


def options(words: tuple[str, ...]) -> Iterator[str]:
    """Those before `--`, wherever they stand among the operands."""
    for word in words:
        if word == "--":
            return
        if word.startswith("-") and len(word) > 1:
            yield word


def operands(words: tuple[str, ...]) -> tuple[str, ...]:
    """All that is no option; the value of an option counts, since few are known here."""
    if "--" in words:
        at = words.index("--")
        return (*operands(words[:at]), *words[at + 1 :])
    return tuple(word for word in words if not word.startswith("-") or word == "-")


def has(words: tuple[str, ...], short: str = "", *long: str) -> bool:
    """Whether one of these options is given, also in a cluster, also cut short."""
    for option in options(words):
        if option.startswith("--"):
            name = option[2:].partition("=")[0]
            if any(full.startswith(name) for full in long):
                return True
        elif any(letter in option[1:] for letter in short):
            return True
    return False
