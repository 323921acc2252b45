"""What was measured, what it is compared with, and whether that is what we owe."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ags.errors import AgsError

NS_PER_MS = 1_000_000

Once = Callable[[], float]
"""Does the thing one time and returns what it took."""


@dataclass(frozen=True, slots=True)
class Series:
    """The same thing measured over and over."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles: half of all values lie between them."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high


@dataclass(frozen=True, slots=True)
class Missing:
    """A peer that cannot be measured here, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom we are compared with."""

    name: str
    figure: Series | Missing


@dataclass(frozen=True, slots=True)
class Mark:
    """What we owe. `holds` is asked with the ratio or, where there is no peer, with our figure."""

    text: str
    holds: Callable[[float], bool]


def at_most(ratio: float, text: str) -> Mark:
    return Mark(text, lambda found: found <= ratio)


FASTER = Mark("faster", lambda ratio: ratio < 1)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report."""

    bench: str
    case: str
    ours: Series | Missing
    unit: str = "ms"
    peer: Peer | None = None
    mark: Mark | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the peer's figure ours is. None without both, or nothing to divide by."""
        ours, theirs = median(self.ours), median(self.peer.figure) if self.peer else None
        return ours / theirs if ours is not None and theirs else None

    @property
    def met(self) -> bool | None:
        """None: nothing is owed, or it could not be found out."""
        figure = self.ratio if self.peer else median(self.ours)
        return self.mark.holds(figure) if self.mark and figure is not None else None


def median(figure: Series | Missing) -> float | None:
    return figure.median if isinstance(figure, Series) else None


def interleaved(contenders: Mapping[str, Once], rounds: int) -> dict[str, Series]:
    """Everyone once in each round, beginning with another each time, so that drift hits all alike.

    A round that does not count goes before: it fills caches and makes what is made on first use.
    """
    names = list(contenders)
    values: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-1, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            value = contenders[name]()
            if number >= 0:
                values[name].append(value)
    return {name: Series(tuple(found)) for name, found in values.items()}


def time_command(
    argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None
) -> float:
    """Milliseconds from the start of a command to its end."""
    begun = time.monotonic_ns()
    finish(argv, cwd=cwd, env=env)
    return (time.monotonic_ns() - begun) / NS_PER_MS


def finish(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> bytes:
    """Run a command that must succeed, and return what it printed."""
    try:
        done = subprocess.run(
            [str(word) for word in argv], cwd=cwd, env=env, input=stdin, capture_output=True
        )
    except OSError as error:
        raise AgsError(f"run {argv[0]}", cause=error.strerror or str(error)) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise AgsError(f"run {argv[0]}", cause=said or f"exit code {done.returncode}")
    return done.stdout
