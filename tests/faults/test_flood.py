"""An agent that prints without end: its log stays small, and its neighbour does not notice (R1)."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

from ags.events.writer import STANDARD
from ags.model import MIB
from ags.runs import Run
from tests.faults.workshop import CHANGED, WORK, Workshop, wait_for

COUNT = 100_000
LINES = (
    f"{WORK}; yes '{'a long line, as a compiler prints it, ' * 24}' | head -n {COUNT}; "
    "until test -e enough; do sleep 0.1; done; rm enough"
)
ONE_LINE = (
    f"{WORK}; "
    "{ until test -e enough; do head -c 8M /dev/zero; done; head -c 192M /dev/zero; }"
    " | tr '\\0' x; rm enough"
)
"""Goes on for as long as it is needed, and then a while."""
MOST_MEMORY = 60 * MIB


def test_floods_of_output_are_bounded_and_hurt_nobody(workshop: Workshop) -> None:
    lines, one_line = floods = workshop.start("lines", LINES), workshop.start("one-line", ONE_LINE)
    wait_for("they are at work", lambda: all("said" in first(workshop, run) for run in floods))
    other = workshop.ended(workshop.start("other"))
    assert (other.state, workshop.files(other)) == ("done", CHANGED)
    assert not workshop.load(one_line).is_final  # so it was meanwhile
    most = {run: memory(workshop, run) for run in floods}
    for run in floods:
        workspace = workshop.load(run).workspace
        assert workspace is not None
        (workspace / "enough").touch()

    while any(workshop.load(run).state == "running" for run in floods):
        most = {run: max(most[run], memory(workshop, run)) for run in floods}
        time.sleep(0.1)
    for run in floods:
        ended = workshop.ended(run)
        assert (ended.state, workshop.files(run)) == ("done", CHANGED)
        assert 0 < most[run] < MOST_MEMORY
        took = ended.ended.uptime - ended.started.uptime  # type: ignore[union-attr]
        # Some seconds more, in which it was on its way into these states.
        assert log(workshop, run).stat().st_size < STANDARD.burst + STANDARD.rate * (took + 10)
    assert kept(workshop, lines) + dropped(workshop, lines) == COUNT + 1
    assert dropped(workshop, one_line) > 0


def log(workshop: Workshop, run: Run) -> Path:
    return workshop.run_dir(run) / "events.jsonl"


def first(workshop: Workshop, run: Run) -> str:
    path = log(workshop, run)
    return path.open().read(4000) if path.exists() else ""


def kept(workshop: Workshop, run: Run) -> int:
    """Counted in the file: to read them as events takes as long as the flood."""
    return log(workshop, run).read_bytes().count(b'"kind":"output"')


def dropped(workshop: Workshop, run: Run) -> int:
    return sum(map(int, re.findall(rb'"dropped":(\d+)', log(workshop, run).read_bytes())))


def memory(workshop: Workshop, run: Run) -> int:
    """The most that its supervisor has had, so far."""
    for pid in workshop.supervisors(run):
        with suppress(OSError):  # it may end by itself meanwhile
            found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
            return int(found[1]) * 1024 if found else 0
    return 0
