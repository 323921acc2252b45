"""From a tree to its value."""

from __future__ import annotations

import operator
from collections.abc import Callable

from sums.tree import Reader, Tree
from sums.words import words

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}


def evaluate(text: str) -> int:
    return value(Reader(words(text)).whole())


def value(tree: Tree) -> int:
    if isinstance(tree, int):
        return tree
    return OPERATORS[tree.sign](value(tree.left), value(tree.right))
