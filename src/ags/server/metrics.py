"""What the server counts, as Prometheus reads it."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ags.frozen import frozen

BUCKETS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
"""Seconds. A stream is counted where it ends, with how long it was open left out."""


@frozen
class Facts:
    """What is so just now, and is not counted by us."""

    runs: Mapping[str, int]
    asking: int
    clones: int
    """Pulls too."""


class Metrics:
    """Plain numbers: there is one thread, so nobody else counts at the same time."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.streams = 0
        """Open now, board and runs and terminals together."""
        self.subscribers = 0
        """Of the board."""
        self.sent = 0
        """Events, over all streams."""
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._timed = 0

    def request(self, route: str, method: str, status: int, seconds: float | None) -> None:
        self._requests[route, method, f"{status // 100}xx"] += 1
        if seconds is None:
            return
        self._timed += 1
        self._seconds += seconds
        for bound in BUCKETS:
            self._buckets[bound] += seconds <= bound

    def text(self, facts: Facts) -> str:
        return "".join(f"{line}\n" for line in self._lines(facts))

    def _lines(self, facts: Facts) -> Iterator[str]:
        states = (({"state": state}, n) for state, n in sorted(facts.runs.items()))
        yield from _family("ags_runs", "gauge", "Runs by state.", states)
        yield from _one("ags_runs_asking", "gauge", "Runs that wait for an answer.", facts.asking)
        requests = (
            ({"route": route, "method": method, "status": status}, n)
            for (route, method, status), n in sorted(self._requests.items())
        )
        yield from _family("ags_requests_total", "counter", "Requests answered.", requests)
        yield from self._histogram()
        yield from _one("ags_streams_open", "gauge", "Streams open now.", self.streams)
        yield from _one("ags_board_subscribers", "gauge", "Who follows all.", self.subscribers)
        yield from _one("ags_events_sent_total", "counter", "Events sent on streams.", self.sent)
        yield from _one("ags_clones_open", "gauge", "Clones and pulls under way.", facts.clones)
        yield from _one("process_resident_memory_bytes", "gauge", "Memory held.", _memory())
        up = time.monotonic() - self.began
        yield from _one("ags_uptime_seconds", "gauge", "Since the server began.", round(up, 3))

    def _histogram(self) -> Iterator[str]:
        name = "ags_request_seconds"
        yield f"# HELP {name} How long answers took, streams left out."
        yield f"# TYPE {name} histogram"
        for bound in BUCKETS:
            yield f'{name}_bucket{{le="{bound:g}"}} {self._buckets[bound]}'
        yield f'{name}_bucket{{le="+Inf"}} {self._timed}'
        yield f"{name}_sum {self._seconds:.6f}"
        yield f"{name}_count {self._timed}"


def _one(name: str, kind: str, help_: str, value: float) -> Iterator[str]:
    return _family(name, kind, help_, [({}, value)])


def _family(
    name: str, kind: str, help_: str, values: Iterable[tuple[Mapping[str, str], float]]
) -> Iterator[str]:
    yield f"# HELP {name} {help_}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values:
        told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{told}}} {value}" if told else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _memory() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
