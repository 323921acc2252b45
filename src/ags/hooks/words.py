"""Reading the words of a shell command: quotes, escapes, parameters, substitutions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Self

from ags.hooks.quoting import ansi_c
from ags.hooks.syntax import Parameter, Piece, Script, Substitution, Text, Word

DEEPEST = 40
LONGEST_SUM = 4000

_PLAIN = re.compile(r"[^\s;&|<>()\\'\"$`]+")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PARAMETER = re.compile(r"([!#]?)(\w+|[@*#?$!-])(\[[^\]]*\])?", re.ASCII)
_BACKQUOTED = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_WITHIN = {
    '"': re.compile(r'[^\\$`"]+'),
    "]": re.compile(r"[^\\$`\]]+"),
    "": re.compile(r"[^\\$`]+"),
}
_IN_BRACES = re.compile(r"[^\\$`\"'}]+")


class Unreadable(ValueError):
    """No shell command, or more than is looked at."""


class WordReader(ABC):
    """A place in a text. What words hold of commands is read by who knows commands."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.deeper(0)

    @abstractmethod
    def script(self, until: tuple[str, ...]) -> Script:
        """The commands up to one of these words."""

    @abstractmethod
    def expect(self, text: str) -> None:
        """Pass over this, which must be next."""

    def another(self, text: str) -> Self:
        return type(self)(text, self.depth + 1)

    def deeper(self, by: int) -> None:
        self.depth += by
        if self.depth > DEEPEST:
            raise Unreadable("it is nested too deeply")

    def look(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def word(self, *, first: bool = False) -> Word:
        """The next, empty if none is here. `first`: in the place of a command's name."""
        pieces: list[Piece] = []
        while self.at < len(self.text) and (pieces or not self.look("#")):
            here = self.text[self.at]
            if plain := self.take(_PLAIN):
                pieces.append(Text(plain, False))
            elif here in "<>" and self.text[self.at + 1 : self.at + 2] == "(" and not pieces:
                self.at += 1
                pieces.append(self._parenthesized(False, file=True))
            elif here == "(" and not first and _is_pattern(pieces):
                pieces.append(self._pattern())
            elif (found := self._special(here)) is not None:
                pieces.extend(found)
            else:
                break
        return tuple(pieces)

    def plain_word(self) -> str:
        return self.take(_PLAIN)

    def name(self) -> str:
        return self.take(_NAME)

    def _pattern(self) -> Piece:
        """One of bash's longer wildcards, such as `@(a|b)`."""
        self.at += 1
        self.deeper(1)
        words: list[Piece] = []
        while not self.look(")"):
            if self.at >= len(self.text):
                raise Unreadable("a parenthesis is not closed")
            words.extend(self.word())
            self.at += not self.look(")")
        self.deeper(-1)
        self.at += 1
        held = tuple(piece for piece in words if not isinstance(piece, Text))
        return Substitution((), False, held, sum=True) if held else Text("*", False)

    def _special(self, here: str) -> list[Piece] | None:
        if here == "\\":
            self.at += 2
            quoted = self.text[self.at - 1 : self.at]
            return [] if quoted == "\n" else [Text(quoted or "\\", True)]
        if here == "'":
            return [Text(self._single_quoted(), True)]
        if here == '"' or self.look('$"'):
            self.at += 1 if here == '"' else 2
            return [Text("", True), *self.within('"')]
        if found := _ANSI_C.match(self.text, self.at):
            self.at = found.end()
            return [Text(ansi_c(found[1]), True)]
        if here == "$":
            return [self._dollar(False)]
        return [self._backquoted(False)] if here == "`" else None

    def _single_quoted(self) -> str:
        stop = self.text.find("'", self.at + 1)
        if stop < 0:
            raise Unreadable("a quote is not closed")
        found, self.at = self.text[self.at + 1 : stop], stop + 1
        return found

    def within(self, end: str) -> Word:
        """What stands between double quotes or in a here-document: up to `end`, and past it."""
        pieces: list[Piece] = []
        while self.at < len(self.text):
            if plain := self.take(_WITHIN[end]):
                pieces.append(Text(plain, True))
            elif end and self.look(end):
                self.at += 1
                return tuple(pieces)
            else:
                pieces.append(self._active(True))
        if end:
            raise Unreadable("a quote is not closed")
        return tuple(pieces)

    def _active(self, quoted: bool) -> Piece:
        """A backslash, a dollar or a backquote, where most else is plain."""
        if self.look("$"):
            return self._dollar(quoted)
        if self.look("`"):
            return self._backquoted(quoted)
        after = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        kept = "" if after == "\n" else after if after in '$`"\\' else "\\" + after
        return Text(kept if after else "\\", True)

    def _backquoted(self, quoted: bool) -> Piece:
        found = _BACKQUOTED.match(self.text, self.at)
        if found is None:
            raise Unreadable("a quote is not closed")
        self.at = found.end()
        reader = self.another(re.sub(r"\\([$`\\])", r"\1", found[1]))
        script = reader.script(())
        if reader.at < len(reader.text):
            raise Unreadable("an odd command in backquotes")
        return Substitution(script, quoted)

    def _dollar(self, quoted: bool) -> Piece:
        self.at += 1
        here = self.text[self.at : self.at + 1]
        if here == "(":
            return self._parenthesized(quoted)
        if here == "{":
            self.at += 1
            return self._parameter(quoted)
        if here == "[":
            self.at += 1
            return Substitution((), quoted, self.within("]"), sum=True)
        if name := self.name():
            return Parameter(name, "", None, quoted)
        if here and here in "@*#?$!-0123456789":
            self.at += 1
            return Parameter(here, "", None, quoted)
        return Text("$", True)

    def _parenthesized(self, quoted: bool, *, file: bool = False) -> Piece:
        if self.look("((") and not file and (inner := self.arithmetic()) is not None:
            return Substitution((), quoted, self.another(inner).within(""), sum=True)
        self.at += 1
        script = self.script((")",))
        self.expect(")")
        return Substitution(script, quoted, file=file)

    def arithmetic(self) -> str | None:
        """What stands between `((` here and its `))`; None if it does not end so."""
        open_ = 0
        for at in range(self.at, min(len(self.text), self.at + LONGEST_SUM)):
            open_ += (self.text[at] == "(") - (self.text[at] == ")")
            if open_ == 1 and self.text[at] == ")":
                if self.text[at + 1 : at + 2] != ")":
                    return None
                inner, self.at = self.text[self.at + 2 : at], at + 2
                return inner
        raise Unreadable("a parenthesis is not closed")

    def _parameter(self, quoted: bool) -> Piece:
        found = _PARAMETER.match(self.text, self.at)
        if found is None:
            raise Unreadable("an odd parameter")
        self.at = found.end()
        rest = self._to_brace(quoted)
        return Parameter(found[2], found[1] + (found[3] or ""), rest or None, quoted)

    def _to_brace(self, quoted: bool) -> Word:
        pieces: list[Piece] = []
        self.deeper(1)
        while not self.look("}"):
            if self.at >= len(self.text):
                raise Unreadable("a brace is not closed")
            if plain := self.take(_IN_BRACES):
                pieces.append(Text(plain, quoted))
            elif self.look("'") and not quoted:
                pieces.append(Text(self._single_quoted(), True))
            elif self.look('"'):
                self.at += 1
                pieces.extend(self.within('"'))
            elif self.look("'"):
                self.at += 1
                pieces.append(Text("'", True))
            else:
                pieces.append(self._active(quoted))
        self.deeper(-1)
        self.at += 1
        return tuple(pieces)


def _is_pattern(pieces: list[Piece]) -> bool:
    last = pieces[-1] if pieces else None
    return isinstance(last, Text) and not last.quoted and last.text.endswith(tuple("?*+@!"))
