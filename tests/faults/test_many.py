"""Twenty runs at once on one repository."""

from __future__ import annotations

from ags.runs import Run
from tests.faults.workshop import Workshop

COUNT = 20


def test_twenty_runs_on_one_repository(workshop: Workshop) -> None:
    own = workshop.own()
    begun = [workshop.start(f"run-{number}", goal(number)) for number in range(COUNT)]
    for number, run in enumerate(begun):
        check_done(workshop, workshop.ended(run, patience=300), number)
    assert len(workshop.engine().listing().runs) == COUNT
    assert workshop.own() == own
    workshop.check_sound()
    workshop.nothing_runs()


def goal(number: int) -> str:
    """All change the same file, each in its own way; every other one commits."""
    work = f"echo {number} > file; echo {number} > new-{number}"
    return f"{work}; git add -A && git commit -qm own-{number}" if number % 2 else work


def check_done(workshop: Workshop, run: Run, number: int) -> None:
    assert (run.state, run.notes) == ("done", ()), run.name
    assert workshop.files(run) == {"file": str(number), f"new-{number}": str(number)}
    said = workshop.project.ask("log", "--format=%s", f"{run.base}..agent--{run.name}")
    assert said == (f"own-{number}" if number % 2 else "Work of shell that was left uncommitted")
