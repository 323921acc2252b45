"""YAML with line numbers, and no more of it than a person writes by hand.

Read from PyYAML's events, not from its values: those have no lines, take the last of two equal
keys, read `no` as false and `22:22` as 1342, and let nine aliases stand for a billion strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ags.config.values import shown
from ags.errors import ConfigError
from ags.frozen import frozen

MAX_DEPTH = 12
MAX_NODES = 20_000
MAX_CHARACTERS = 1 << 18

_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a mapping"),
)


@frozen
class Node:
    """A value of the document, and where it stands."""

    value: Any
    """None, bool, int, str, a list of nodes, or a dict of them by key."""
    file: object
    line: int
    key: str = ""

    def error(self, cause: str, hint: str = "") -> ConfigError:
        return ConfigError(self.file, self.line, self.key, cause, hint)

    def wrong(self, wanted: str, hint: str = "") -> ConfigError:
        found = next((name for kind, name in _KINDS if isinstance(self.value, kind)), "nothing")
        return self.error(f"must be {wanted}, not {found}", hint)

    def text(self, wanted: str = "text") -> str:
        if not isinstance(self.value, str):
            raise self.wrong(wanted)
        return self.value

    def switch(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def items(self, hint: str = "") -> list[Node]:
        if not isinstance(self.value, list):
            raise self.wrong("a list", hint)
        return [replace(item, key=f"{self.key}[{index}]") for index, item in enumerate(self.value)]

    def mapping(self, known: tuple[str, ...] = (), hint: str = "") -> dict[str, Node]:
        """By key; with known keys, no others."""
        if not isinstance(self.value, dict):
            raise self.wrong("a mapping", hint)
        named = {key: replace(n, key=_below(self.key, key)) for key, n in self.value.items()}
        for key, node in named.items():
            if known and key not in known:
                raise node.error("is unknown", near_miss(key, known))
        return named


def read_document(text: str, file: object, ours: bool = False) -> Node:
    """The one document in this text. Ours may go through the C parser, whose errors say less."""
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(file, None, "", f"has more than {MAX_CHARACTERS >> 10} thousand letters")
    return _Reader(text, file, ours).document()


def near_miss(key: str, known: tuple[str, ...]) -> str:
    import difflib  # only a mistake pays for it

    if near := difflib.get_close_matches(key.lower(), known, n=1):
        return f"did you mean `{near[0]}`?"
    return f"known here: {', '.join(known)}"


class _Reader:
    def __init__(self, text: str, file: object, ours: bool) -> None:
        self._file = file
        self._events = self._parsed(text, ours)
        self._nodes = 0

    def document(self) -> Node:
        node = Node(None, self._file, 1)
        for kind, event in self._events:
            if kind == "DocumentStart":
                if self._nodes:
                    raise self._error(event, "has more than one document")
                node = self._node(*next(self._events), 0)
        return node

    def _parsed(self, text: str, ours: bool) -> Iterator[tuple[str, Any]]:
        import yaml  # type: ignore[import-untyped]

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader) if ours else yaml.SafeLoader
        try:
            for event in yaml.parse(text, Loader=loader):
                yield type(event).__name__.removesuffix("Event"), event
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else None
            raise ConfigError(self._file, line, "", error.problem or "is not YAML") from error
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            # A character outside of YAML, or a number in a directive or an escape beyond any.
            at = getattr(error, "position", None)
            line = None if at is None else text.count("\n", 0, at) + 1
            cause = "has a character or an escape that YAML does not have"
            raise ConfigError(self._file, line, "", cause) from error

    def _node(self, kind: str, event: Any, depth: int) -> Node:  # noqa: ANN401
        self._nodes += 1
        if kind == "Alias" or event.anchor:
            raise self._error(event, "has an anchor or an alias", "write the value out")
        if event.tag is not None:
            raise self._error(event, f"has the tag {shown(event.tag)}", "leave tags out")
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise self._error(event, "is nested too deep or has too many values")
        if kind == "SequenceStart":
            return self._made(event, list(self._sequence(depth)))
        if kind == "MappingStart":
            return self._made(event, self._mapping(depth))
        return self._made(event, event.value if event.style else _plain(event.value))

    def _sequence(self, depth: int) -> Iterator[Node]:
        for kind, event in self._events:
            if kind == "SequenceEnd":
                return
            yield self._node(kind, event, depth + 1)

    def _mapping(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for kind, event in self._events:
            if kind == "MappingEnd":
                break
            if kind != "Scalar":
                raise self._error(event, "a key must be text")
            self._node(kind, event, depth + 1)
            if event.value in found:
                first = found[event.value].line
                raise self._error(event, f"{shown(event.value)} is there twice (see line {first})")
            value = self._node(*next(self._events), depth + 1)
            # A key and its value may be lines apart; a person looks for the key.
            found[event.value] = replace(value, line=event.start_mark.line + 1)
        return found

    def _made(self, event: Any, value: Any) -> Node:  # noqa: ANN401
        return Node(value, self._file, event.start_mark.line + 1)

    def _error(self, event: Any, cause: str, hint: str = "") -> ConfigError:  # noqa: ANN401
        return ConfigError(self._file, event.start_mark.line + 1, "", cause, hint)


def _plain(text: str) -> str | int | bool | None:
    """A word without quotes: whole numbers, true, false and null; all else is text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return int(text) if re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text, re.ASCII) else text


def _below(key: str, step: str) -> str:
    name = step if re.fullmatch(r"[\w.*@-]{1,60}", step, re.ASCII) else shown(step)
    return f"{key}.{name}" if key else name
