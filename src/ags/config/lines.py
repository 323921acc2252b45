"""Where a key of a TOML text stands: tomllib keeps no line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

KeyPath = tuple[str | int, ...]

MAX_DEPTH = 32
MAX_WORD = 1000

# Every text is cut into tokens in linear time: a string without an end runs to the end of its line
# (or, with three quotes, of the text), and what is nothing else is a bare word.
_TOKEN = re.compile(
    r"""
      (?P<skip> [^\S\n]+ | \#[^\n]* )
    | \n | [\[\]{}=,.]
    | \"{3} (?: \\. | . )*? (?: \"{3,5} | \Z )
    | '{3} .*? (?: '{3,5} | \Z )
    | " (?: \\[^\n] | [^"\\\n] )* "?
    | ' [^'\n]* '?
    | [^\s\[\]{}=,.\#"']+
    """,
    re.VERBOSE | re.DOTALL,
)
_END = ""
_BEFORE_KEY = frozenset(("\n", "=", ",", "[", "{"))
_AFTER_VALUE = frozenset(("\n", ",", "]", "}", _END))


def line_of(text: str, path: KeyPath) -> int | None:
    """The line of a key of this valid TOML text, or of the nearest key around it."""
    lines = line_numbers(text)
    around = (path[:length] for length in range(len(path), 0, -1))
    return next((lines[key] for key in around if key in lines), None)


def line_numbers(text: str) -> dict[KeyPath, int]:
    """The line where each key and each element of an array of this valid TOML text begins."""
    return _Scanner(text).scan()


def excess(text: str) -> tuple[int, str] | None:
    """The first line of any text, and what is wrong there, that no parser should be made to read.

    tomllib needs memory by the square of a dotted key's length, recurses for each bracket, and
    has no line for a number too long to convert.
    """
    depth = dots = 0
    for word, line in _tokens(text):
        dots = 0 if word in _BEFORE_KEY else dots + (word == ".")
        depth += (word in ("[", "{")) - (word in ("]", "}"))
        if max(depth, dots) > MAX_DEPTH:
            return line, f"nested more than {MAX_DEPTH} deep"
        if len(word) > MAX_WORD and word[0] not in "\"'":
            return line, f"a word or number of more than {MAX_WORD} characters"
    return None


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield match.group(), line
        line += match.group().count("\n")


class _Scanner:
    """Reads only as much of the grammar as it takes to follow the keys."""

    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text), (_END, text.count("\n") + 1)]
        self._at = 0
        self._lines: dict[KeyPath, int] = {}
        self._newest: dict[KeyPath, int] = {}
        """Arrays of tables, and the index of the last table of each."""

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self._peek() != _END:
            if self._take("["):
                table = self._header()
            elif not self._take("\n"):
                self._pair(table)
        return self._lines

    def _header(self) -> KeyPath:
        """`a.b]` or `[a.b]]`, the first bracket being read already."""
        array = self._take("[")
        line = self._line()
        names = self._names()
        path: KeyPath = ()
        for position, name in enumerate(names, 1):
            path = self._note((*path, name), line)
            if array and position == len(names):
                self._newest[path] = self._newest.get(path, -1) + 1
            if path in self._newest:
                path = self._note((*path, self._newest[path]), line)
        while self._peek() not in ("\n", _END):
            self._next()
        return path

    def _pair(self, table: KeyPath) -> None:
        path, line = table, self._line()
        for name in self._names():
            path = self._note((*path, name), line)
        self._take("=")
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        self._note(path, self._line())
        if self._take("["):
            self._array(path)
        elif self._take("{"):
            while not self._take("}") and self._peek() != _END:
                self._pair(path)
                self._take(",")
        else:
            self._next()
            while self._peek() not in _AFTER_VALUE:
                self._next()

    def _array(self, path: KeyPath) -> None:
        for index in count():
            self._skip_lines()
            if self._take("]") or self._peek() == _END:
                return
            self._value((*path, index))
            self._skip_lines()
            self._take(",")

    def _names(self) -> list[str]:
        names = [_name(self._next())]
        while self._take("."):
            names.append(_name(self._next()))
        return names

    def _note(self, path: KeyPath, line: int) -> KeyPath:
        self._lines.setdefault(path, line)
        return path

    def _skip_lines(self) -> None:
        while self._take("\n"):
            pass

    def _peek(self) -> str:
        return self._tokens[self._at][0]

    def _line(self) -> int:
        return self._tokens[self._at][1]

    def _next(self) -> str:
        token = self._peek()
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._next()
        return True


def _name(token: str) -> str:
    if token.startswith('"') and "\\" in token:
        import tomllib

        unescaped: str = tomllib.loads(f"key = {token}")["key"]
        return unescaped
    return token[1:-1] if token[:1] in ("'", '"') else token
