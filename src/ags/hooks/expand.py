"""From a word as written to the words a program would get, as far as they can be known.

What cannot be known stays in them as a mark: characters that no text has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from ags.hooks.syntax import Parameter, Piece, Substitution, Text, Word

UNKNOWN = "\ufdd0"
"""Some text."""
SPREAD = "\ufdd1"
"""Some text that the shell may split into any number of words."""
WILD = "\ufdd2"
"""A wildcard."""
HIDDEN = "\ufdd3"
"""Some text that was decoded, as if to be read by nobody before."""
_BREAK = "\ufdd4"
_MARKS = re.compile(f"[{UNKNOWN}-{_BREAK}]")

MOST_WORDS = 256
LONGEST_BRACES = 2000

_Char = tuple[str, str]
"""A character and where it is from: `w`ritten plainly, `q`uoted, or `v`alue of something."""
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(\.\.-?\d+)?")


class Scope(Protocol):
    """What names and commands stand for, where a word is expanded."""

    home: str

    @property
    def separators(self) -> str | None:
        """What words are split at, None if that is unknown."""

    def value(self, parameter: Parameter) -> tuple[str, ...] | None:
        """Its words, None if unknown."""

    def output(self, substitution: Substitution) -> str | None:
        """What a command would print, None if unknown."""


def unmarked(text: str) -> str:
    """Text from elsewhere cannot speak in marks."""
    return _MARKS.sub("\ufffd", text)


def is_known(text: str) -> bool:
    return not any(mark in text for mark in (UNKNOWN, SPREAD, HIDDEN))


def is_open(text: str) -> bool:
    """Whether it may be any number of words, so also an option."""
    return SPREAD in text or HIDDEN in text


def as_text(text: str) -> str:
    """Read once more as a command, a wildcard is what it was written as."""
    return text.replace(WILD, "*")


def fields(word: Word, scope: Scope) -> list[str]:
    """The words that it becomes: none, one or many."""
    found: list[str] = []
    for braced in _braces(_characters(word, scope)):
        found += _split(_with_home(braced, scope.home), scope.separators or "")
        if len(found) > MOST_WORDS:
            return [SPREAD]
    return found


def joined(word: Word, scope: Scope) -> str:
    """As one text, as in an assignment."""
    characters = _with_home(_characters(word, scope), scope.home)
    return "".join(c for c, _ in characters).replace(_BREAK, " ").replace(SPREAD, UNKNOWN)


def _characters(word: Word, scope: Scope) -> list[_Char]:
    return [character for piece in word for character in _of(piece, scope)]


def _of(piece: Piece, scope: Scope) -> Iterator[_Char]:
    match piece:
        case Text(text, quoted):
            yield from (("", "q"),) if quoted and not text else ()
            yield from ((c, "q" if quoted else "w") for c in text)
        case Parameter():
            if piece.word is not None:
                _characters(piece.word, scope)  # what it runs has to be seen
            yield from _value(scope.value(piece), piece.quoted, scope)
        case Substitution():
            _characters(piece.word, scope)
            printed = scope.output(piece)
            yield from _value(None if printed is None else (printed,), piece.quoted, scope)


def _value(words: tuple[str, ...] | None, quoted: bool, scope: Scope) -> Iterator[_Char]:
    if words is None or (scope.separators is None and not quoted):
        yield (UNKNOWN, "q") if quoted else (SPREAD, "v")
        return
    for number, word in enumerate(words):
        if number:
            yield _BREAK, "q"
        if quoted and not word:
            yield "", "q"
        yield from ((c, "q" if quoted else "v") for c in word)


def _with_home(characters: list[_Char], home: str) -> list[_Char]:
    if characters[:1] != [("~", "w")]:
        return characters
    ends = (i for i, (c, how) in enumerate(characters) if c == "/" or how != "w")
    end = next(ends, len(characters))
    user = "".join(c for c, _ in characters[1:end])
    folder = home if user in ("", "+") else "/root" if user == "root" else f"/home/{user}"
    return [*((c, "q") for c in folder), *characters[end:]]


def _braces(characters: list[_Char]) -> Iterable[list[_Char]]:
    if ("{", "w") not in characters:
        return (characters,)
    if len(characters) > LONGEST_BRACES:
        return [[(SPREAD, "v")]]
    done: list[list[_Char]] = []
    waiting = [characters]
    while waiting and len(done) + len(waiting) <= MOST_WORDS:
        first = waiting.pop(0)
        if (found := _first_braces(first)) is None:
            done.append(first)
        else:
            start, end, choices = found
            waiting = [[*first[:start], *each, *first[end:]] for each in choices] + waiting
    return [[(SPREAD, "v")]] if waiting else done


def _first_braces(characters: list[_Char]) -> tuple[int, int, list[list[_Char]]] | None:
    """Where the first group with a choice is, and its choices."""
    for start, character in enumerate(characters):
        if character == ("{", "w") and (found := _choices(characters, start)) is not None:
            return start, *found
    return None


def _choices(characters: list[_Char], start: int) -> tuple[int, list[list[_Char]]] | None:
    choices: list[list[_Char]] = [[]]
    depth = 0
    for at in range(start, len(characters)):
        character = characters[at]
        depth += (character == ("{", "w")) - (character == ("}", "w"))
        if depth == 0:
            return (at + 1, _several(choices)) if _several(choices) else None
        if depth == 1 and character == (",", "w"):
            choices.append([])
        elif at > start:
            choices[-1].append(character)
    return None


def _several(choices: list[list[_Char]]) -> list[list[_Char]]:
    if len(choices) > 1:
        return choices
    text = "".join(c for c, _ in choices[0])
    # A range makes words of no interest here: numbers or letters.
    return [[(UNKNOWN, "q")]] if _RANGE.fullmatch(text) else []


def _split(characters: list[_Char], separators: str) -> list[str]:
    words: list[list[str]] = []
    apart = True
    for character, how in characters:
        if character == _BREAK or (how == "v" and character and character in separators):
            apart = True
            continue
        if apart:
            words.append([])
            apart = False
        words[-1].append(WILD if how != "q" and character in ("*", "?", "[") else character)
    return ["".join(word) for word in words]
