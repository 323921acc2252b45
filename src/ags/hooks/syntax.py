"""The parts of a shell command, as it was written."""

from __future__ import annotations

from typing import TypeAlias

from ags.frozen import frozen


@frozen
class Text:
    text: str
    quoted: bool


@frozen
class Parameter:
    """`$name`, or `${name...}` with what changes it."""

    name: str
    operation: str
    """`!` or `#` before the name, a subscript behind it."""
    word: Word | None
    """What follows the name, such as `:-default`."""
    quoted: bool


@frozen
class Substitution:
    """`$(...)`, and with `file` `<(...)`; with `sum` an arithmetic one, of which only `word` is."""

    script: Script
    quoted: bool
    word: Word = ()
    file: bool = False
    sum: bool = False


Piece: TypeAlias = Text | Parameter | Substitution
Word: TypeAlias = tuple[Piece, ...]


class Here:
    """Where a redirection leads; the text of a here-document comes only with later lines."""

    def __init__(self, word: Word) -> None:
        self.word = word


@frozen
class Redirect:
    operator: str
    target: Here


@frozen
class Assignment:
    name: str
    words: tuple[Word, ...]
    adds: bool = False
    array: bool = False
    element: bool = False
    """It is one of an array."""


@frozen
class Command:
    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


@frozen
class Pipeline:
    parts: tuple[Node, ...]


@frozen
class Group:
    script: Script
    subshell: bool
    redirects: tuple[Redirect, ...] = ()


@frozen
class Branches:
    """One of these runs."""

    scripts: tuple[Script, ...]


@frozen
class Repeat:
    """Runs any number of times."""

    script: Script


@frozen
class For:
    name: str
    words: tuple[Word, ...]
    script: Script


@frozen
class Function:
    name: str
    script: Script


@frozen
class Test:
    """Words that are looked at and not run, as in `[[ ... ]]`."""

    words: tuple[Word, ...]


@frozen
class Step:
    node: Node
    then: str
    """`;`, `&`, `&&`, `||`, or nothing at the end."""


Node: TypeAlias = Command | Pipeline | Group | Branches | Repeat | For | Function | Test
Script: TypeAlias = tuple[Step, ...]
