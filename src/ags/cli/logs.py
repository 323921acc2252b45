"""`ags logs`: what happened in a run."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import click

from ags import events, runs
from ags.cli import stream
from ags.cli.invocation import Invocation, telling
from ags.events import Event
from ags.logtext import Stream
from ags.paint import as_json, columns, paint_for
from ags.shelf import Shelf


@click.command(short_help="Show what happened in a run, or follow it.")
@click.option("-f", "--follow", "following", is_flag=True, help="Go on until the run has ended.")
@click.option("--json", "as_lines", is_flag=True, help="Print the events, one JSON object a line.")
@click.option(
    "-n", "--last", type=click.IntRange(min=0), metavar="N", help="Only the last N events."
)
@click.argument("name")
@click.pass_obj
def command(
    invocation: Invocation, name: str, following: bool, as_lines: bool, last: int | None
) -> None:
    """Show what happened in the run NAME: what the agent said, did and printed.

    \b
      ags logs fix-login
      ags logs -f -n 20 fix-login
      ags logs --json fix-login | jq -r 'select(.kind == "message") | .text'

    Long answers of tools are shortened; --json has all that is kept. Ctrl-C ends the following,
    not the run.
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        run_dir = shelf.run_dir(name)
        log = run_dir / stream.LOG
        after = 0 if last is None else max(0, events.last_seq(log) - last)
        if following:
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(_follow(run_dir, after, as_lines=as_lines))
        elif as_lines:
            for event in events.read(log, after):
                print(as_line(event))
        else:
            paint = paint_for(sys.stdout, invocation.environ)
            shown = Stream(paint, columns(sys.stdout, invocation.environ))
            for event in events.read(log, after):
                sys.stdout.writelines(f"{line}\n" for line in shown.render(event))
            sys.stdout.writelines(f"{line}\n" for line in shown.finish())


async def _follow(run_dir: Path, after: int, *, as_lines: bool) -> None:
    if not as_lines:
        await stream.follow(run_dir, sys.stdout, after)
        return
    coming = events.follow(run_dir / stream.LOG, after, lambda: not runs.is_alive(run_dir))
    async with contextlib.aclosing(coming) as found:
        async for event in found:
            print(as_line(event), flush=True)


def as_line(event: Event) -> str:
    head = {"seq": event.seq, "ts": event.ts, "kind": event.kind}
    return as_json(head | dict(event.fields))
