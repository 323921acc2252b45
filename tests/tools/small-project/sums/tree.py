"""From words to a tree: numbers, and operations on two trees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

BINDING = {"+": 1, "-": 1, "*": 2, "/": 2}


@dataclass(frozen=True)
class Operation:
    sign: str
    left: Tree
    right: Tree


Tree = int | Operation


class Reader:
    def __init__(self, words: Iterable[str]) -> None:
        self._words = [*words, ""]

    def whole(self) -> Tree:
        tree = self.operation(1)
        if self._words[0]:
            raise ValueError(f"left over: {self._words[0]!r}")
        return tree

    def operation(self, binding: int) -> Tree:
        tree = self.operand()
        while BINDING.get(self._words[0], 0) >= binding:
            sign = self._words.pop(0)
            tree = Operation(sign, tree, self.operation(BINDING[sign] + 1))
        return tree

    def operand(self) -> Tree:
        word = self._words.pop(0)
        if word == "(":
            tree = self.operation(1)
            if self._words.pop(0) != ")":
                raise ValueError("a bracket is open")
            return tree
        if not word.isdigit():
            raise ValueError(f"no number: {word!r}")
        return int(word)
