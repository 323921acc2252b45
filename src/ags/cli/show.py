"""`ags show`: everything about one run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from ags import records, runs
from ags.cli.invocation import Invocation, telling
from ags.cli.list import STYLES
from ags.model import GIB, KIB, MIB, Limits, not_held
from ags.paint import Paint, as_json, cells, changes, exact_time, paint_for, short_time
from ags.runs import Applied, Moment, Run
from ags.shelf import Shelf
from ags.text import one_line, plain

LABEL = 11
HEADS = "refs/heads/"


@click.command(short_help="Tell everything about one run.")
@click.option("--json", "as_object", is_flag=True, help="Print the record as one JSON object.")
@click.argument("name")
@click.pass_obj
def command(invocation: Invocation, name: str, as_object: bool) -> None:
    """Tell everything about the run NAME: what it was to do, how it went, and what to do next.

    \b
      ags show fix-login
      ags show --json fix-login | jq .result

    Of variables that were passed to the agent only the names are told.
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        run_dir = shelf.run_dir(name)
        run = runs.load(run_dir)
        if as_object:
            print(as_json(record(run), indent=1))
            return
        print("\n".join(told(run, run_dir, paint_for(sys.stdout, invocation.environ))))


def told(run: Run, run_dir: Path | None, paint: Paint) -> Iterator[str]:
    """`run_dir` is None for a run of another machine."""
    state = paint(run.state, *STYLES[run.state])
    asks = paint(", asks", "yellow", "bold") if run.asking else ""
    yield f"{paint(run.name, 'bold')}  {state}{asks}"
    for label, text in facts(run, run_dir, runs.now()):
        yield _entry(label, text, paint)


def record(run: Run) -> dict[str, object]:
    """As it is kept, but for the values of variables: they may be secrets."""
    made: dict[str, object] = json.loads(records.encode(run))
    made["order"]["environment"] = [each for each, _ in run.order.environment]  # type: ignore[index]
    return made


def _entry(label: str, text: str, paint: Paint) -> str:
    first, *others = plain(text).split("\n")
    space = " " * (LABEL - cells(label))
    style = {"weakened": ("yellow",), "next": ("cyan",)}.get(label, ("dim",))
    body = "\n".join([first, *(f"{' ' * LABEL}{line}" for line in others)])
    return f"{paint(label, *style)}{space}{body}"


def facts(run: Run, run_dir: Path | None, at: Moment) -> Iterator[tuple[str, str]]:
    yield "goal", run.goal.strip() or "(none)"
    yield from _agent(run)
    yield "project", one_line(str(run.project))
    if run.base is not None:
        yield "base", run.base
    if run.branch is not None:
        yield "branch", one_line(run.branch)
    yield from _times(run, at)
    if run.exit_code is not None:
        yield "exit code", str(run.exit_code)
    if run.stopped_by is not None:
        yield "stopped by", run.stopped_by.removeprefix("stopped by ")
    held = f"; held by {run.limited_by}" if run.limited_by else ""
    loose = not_held(run.limits, run.limited_by or "")
    yield "limits", f"{limits(replace(run.limits, cpus=None) if loose else run.limits)}{held}"
    for weakening in run.weakenings:
        yield "weakened", f"{one_line(weakening.name)}: {one_line(weakening.detail)}"
    for note in run.notes:
        yield "note", note
    if run.result is not None:
        result = run.result
        size = changes(result.files, result.insertions, result.deletions)
        yield "result", f"{size}, commit {result.commit}"
    for applied in run.applied:
        yield "applied", _applied(applied, at)
    for pushed in run.pushed:
        ago = short_time(runs.seconds(pushed.at, at))
        where = f"{one_line(pushed.branch)} of {one_line(pushed.remote)}"
        yield "pushed", f"{pushed.commit[:12]} to {where}, {ago} ago"
    yield from _places(run, run_dir)
    yield "next", "\n".join(next_steps(run))


def _agent(run: Run) -> Iterator[tuple[str, str]]:
    where = "in a workspace of its own" if run.mode == "separate" else "in your own folder"
    yield "agent", f"{one_line(run.agent)}, {where}"
    order = run.order
    if order.client:
        yield "client", order.client
    if order.arguments:
        yield "arguments", " ".join(one_line(each) for each in order.arguments)
    for mount in order.mounts:
        yield "mount", f"{mount.flag} {one_line(str(mount.config.host))} ({mount.config.mode})"
    if order.environment:
        yield "variables", ", ".join(one_line(each) for each, _ in order.environment)
    if order.backend is not None:
        yield "backend", one_line(order.backend)


def _times(run: Run, at: Moment) -> Iterator[tuple[str, str]]:
    yield "created", _when(run.created, at)
    if run.started is not None:
        yield "started", _when(run.started, at)
    if run.ended is not None:
        yield "ended", _when(run.ended, at)
    if run.started is not None:
        yield "at work", exact_time(runs.duration(run, at))


def _when(moment: Moment, at: Moment) -> str:
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment.wall))
    return f"{shown} ({short_time(runs.seconds(moment, at))} ago)"


def limits(held: Limits) -> str:
    words = (
        ("{} of memory", held.memory and _size(held.memory)),
        ("{:g} processors", held.cpus),
        ("{} processes", held.pids),
        ("{} at most", held.timeout and exact_time(held.timeout)),
        ("files up to {}", held.file_size and _size(held.file_size)),
        ("{} open files", held.open_files),
        ("{} of disk left free", held.disk_free and _size(held.disk_free)),
    )
    return ", ".join(text.format(value) for text, value in words if value) or "none"


def _size(count: int) -> str:
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


def _applied(applied: Applied, at: Moment) -> str:
    target = one_line(applied.target.removeprefix(HEADS))
    before, after = ((each or "nothing")[:12] for each in (applied.before, applied.after))
    where = applied.how if applied.how == "in place" else f"{applied.how} to {target}"
    text = f"{where} ({before} → {after}), {_when(applied.at, at)}"
    return f"{text}; undone {_when(applied.undone, at)}" if applied.undone else text


def _places(run: Run, run_dir: Path | None) -> Iterator[tuple[str, str]]:
    if run.workspace is not None:
        yield "workspace", one_line(str(run.workspace))
    for label, name in (("log", "events.jsonl"), ("patch", "result.patch")):
        if run_dir is not None and (run_dir / name).exists():
            yield label, one_line(str(run_dir / name))


def next_steps(run: Run) -> list[str]:
    """The commands that make sense now, the likeliest first."""
    name = run.name
    if not run.is_final:
        return [f"ags logs -f {name}", f"ags stop {name}"]
    again = [f"ags restart {name}"] if run.mode == "separate" else []
    if any(each.undone is None for each in run.applied):
        return [f"ags undo {name}", f"ags diff {name}", f"ags rm {name}"]
    if run.result is not None and run.result.files:
        take = [f"ags apply {name}"] if run.mode == "separate" else []
        on = [f'ags tell {name} "…"'] if run.mode == "separate" and run.session else []
        return [f"ags diff {name}", *take, *on, *again]
    if run.result is None and run.started is not None and run.workspace is not None:
        return [f"ags diff {name}  (collects first what it left)", f"ags logs {name}", *again]
    return [f"ags logs {name}", *again, f"ags rm {name}"]
