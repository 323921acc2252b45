"""`ags list`: the runs there are, one line each."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from ags import runs
from ags.cli.invocation import Invocation, telling
from ags.frozen import frozen
from ags.paint import (
    Paint,
    as_json,
    cells,
    changes,
    columns,
    first_line,
    padded,
    paint_for,
    short_time,
)
from ags.runs import NEXT, Damaged, Moment
from ags.shelf import Shelf
from ags.store import Filter, Summary
from ags.text import one_line

NEWEST = 50
"""Shown without --all, besides those at work."""
LEAST_GOAL = 16
HEADS = ("NAME", "STATE", "AGENT", "AGE", "TIME", "CHANGES", "APPLIED", "GOAL")
STYLES = {
    "queued": ("dim",),
    "preparing": ("cyan",),
    "running": ("cyan", "bold"),
    "collecting": ("cyan",),
    "done": ("green",),
    "failed": ("red",),
    "stopped": ("yellow",),
    "interrupted": ("yellow",),
}


@click.command(short_help="List the runs, newest first.")
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array with all that match.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(list(NEXT)),
    help="Only runs in this state. Repeatable.",
)
@click.option("--agent", metavar="NAME", help="Only runs of this agent.")
@click.option(
    "--project",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Only runs on the project that this folder is in.",
)
@click.option(
    "--client", metavar="NAME", help="Only runs of this client; `default`: only your own."
)
@click.option(
    "--all", "everything", is_flag=True, help=f"All of them, not only the newest {NEWEST}."
)
@click.pass_obj
def command(
    invocation: Invocation,
    as_array: bool,
    states: tuple[runs.State, ...],
    agent: str | None,
    project: Path | None,
    client: str | None,
    everything: bool,
) -> None:
    """List the runs, newest first.

    \b
      ags list
      ags list --state running --state queued
      ags list --project . --all
      ags list --json | jq -r '.[] | select(.state == "failed") | .name'

    AGE is counted from when it was asked for, TIME is how long the agent was at work. Runs at work
    are always shown.
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        whose = None if client is None else _checked(client)
        listing = shelf.listing(Filter(states=states, agent=agent, client=whose))
        found = listing.runs
        if project is not None:
            found = tuple(_within(found, project))
        if as_array:
            shelf.notes += map(_damage, listing.damaged)
            print(as_json([entry(run) for run in found], indent=1))
            return
        paint = paint_for(sys.stdout, invocation.environ)
        if found or not listing.damaged:
            chosen = bool(states or agent or project or client)
            width = columns(sys.stdout, invocation.environ)
            print("\n".join(told(found, width, paint, everything=everything, chosen=chosen)))
        for each in listing.damaged:
            print(paint(_damage(each), "red"))


def told(
    found: Sequence[Summary], width: int, paint: Paint, *, everything: bool, chosen: bool
) -> Iterator[str]:
    """`chosen` are only those that were asked for, of maybe more."""
    shown = found if everything else _recent(found)
    if shown:
        yield from table(shown, runs.now(), width, paint)
    elif chosen:
        yield "no such runs; `ags list` shows all there are"
    else:
        yield 'no runs yet: `ags start NAME "GOAL"`'
    if len(shown) < len(found):
        yield paint(f"{len(found) - len(shown)} older ones: `ags list --all`", "dim")


def _checked(client: str) -> str:
    from ags.clients import checked_name  # here, for a list of all needs nothing of it

    return checked_name(client)


def _within(found: Sequence[Summary], folder: Path) -> Iterator[Summary]:
    """The runs on the project around a folder: the innermost that has any."""
    here = Path(os.path.realpath(folder))
    projects = {run.project for run in found}
    inner = next((each for each in (here, *here.parents) if each in projects), None)
    return (run for run in found if run.project == inner)


def _recent(found: Sequence[Summary]) -> tuple[Summary, ...]:
    return tuple(run for at, run in enumerate(found) if at < NEWEST or run.state not in runs.FINAL)


def _damage(damaged: Damaged) -> str:
    return f"damaged: run {damaged.id}, left as it is: {one_line(damaged.cause)}"


@frozen
class Row:
    """One run in words, ready to be aligned."""

    words: tuple[str, ...]
    styles: tuple[str, ...]
    weakened: bool
    goal: str


def table(found: Iterable[Summary], at: Moment, width: int, paint: Paint) -> Iterator[str]:
    rows = [_row(run, at) for run in found]
    widths = [
        max(cells(head), *(cells(row.words[column]) for row in rows))
        for column, head in enumerate(HEADS[:-1])
    ]
    taken = sum(widths) + 2 * len(widths)
    room = max(LEAST_GOAL, width - taken)
    yield paint(_aligned(HEADS[:-1], widths) + HEADS[-1], "dim")
    for row in rows:
        yield _line(row, widths, room, paint)


def _row(run: Summary, at: Moment) -> Row:
    state = f"{run.state}, asks" if run.asking else run.state
    took = ""
    if run.started is not None:
        took = short_time(runs.seconds(run.started, run.ended or at))
    work = ""
    if run.files is not None:
        work = changes(run.files, run.insertions or 0, run.deletions or 0)
    age = short_time(runs.seconds(run.created, at))
    words = (
        *(run.name, state, first_line(run.agent, 20), age, took, work),
        "applied" if run.applied else "",
    )
    styles = ("yellow", "bold") if run.asking else STYLES[run.state]
    return Row(words, styles, bool(run.weakenings), run.goal)


def _line(row: Row, widths: Sequence[int], room: int, paint: Paint) -> str:
    name, state, *others = (padded(*pair) for pair in zip(row.words, widths, strict=True))
    mark = "weakened: " if row.weakened else ""
    goal = paint(mark, "yellow") + first_line(row.goal, room - len(mark))
    middle = "  ".join(others)
    return f"{name}  {paint(state, *row.styles)}  {middle}  {goal}".rstrip()


def _aligned(words: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{padded(*pair)}  " for pair in zip(words, widths, strict=True))


def entry(run: Summary) -> dict[str, object]:
    return {
        "id": run.id,
        "name": run.name,
        "state": run.state,
        "asking": run.asking,
        "agent": run.agent,
        "goal": run.goal,
        "mode": run.mode,
        "client": run.client,
        "group": run.group,
        "project": str(run.project),
        "branch": run.branch,
        "created": _stamp(run.created),
        "started": _stamp(run.started),
        "ended": _stamp(run.ended),
        "exit_code": run.exit_code,
        "stopped_by": run.stopped_by,
        "weakenings": list(run.weakenings),
        "files": run.files,
        "insertions": run.insertions,
        "deletions": run.deletions,
        "applied": run.applied,
    }


def _stamp(moment: Moment | None) -> str | None:
    """As ISO 8601, in UTC."""
    if moment is None:
        return None
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment.wall))
    return f"{whole}.{int(moment.wall % 1 * 1000):03}Z"
