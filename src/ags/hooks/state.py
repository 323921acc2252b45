"""What a shell knows in the middle of a script, as far as it can be known from outside."""

from __future__ import annotations

from collections.abc import Sequence

from ags.frozen import frozen


@frozen
class Feed:
    """What a command reads on its standard input."""

    text: str | None = None
    """None if it cannot be known."""
    roots: tuple[str, ...] = ()
    """Names of files below these, as `find` prints them."""
    hidden: bool = False
    """It was decoded just before."""


class State:
    """Variables, folder and arguments. A name without a value here may stand for anything."""

    def __init__(self, cwds: frozenset[str | None], values: dict[str, tuple[str, ...]]) -> None:
        self.cwds = cwds
        """The folders it may be in; None is any."""
        self.values = values
        self.arguments: tuple[str, ...] | None = None
        self.feed = Feed()
        self.strict = False
        """A command that fails ends the script."""

    def copy(self) -> State:
        made = State(self.cwds, dict(self.values))
        made.arguments, made.feed, made.strict = self.arguments, self.feed, self.strict
        return made

    def assign(self, name: str, value: tuple[str, ...]) -> None:
        self.values[name] = value

    def forget(self, name: str) -> None:
        self.values.pop(name, None)

    def become(self, others: Sequence[State]) -> None:
        """One of these, nobody knows which: what they have in common stays known."""
        first, *rest = others
        shared = first.values.items()
        for other in rest:
            shared = {n: v for n, v in shared if other.values.get(n) == v}.items()
        self.values = dict(shared)
        self.cwds = frozenset[str | None]().union(*(other.cwds for other in others))
        self.strict = all(other.strict for other in others)
