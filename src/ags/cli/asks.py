"""`ags asks`: what runs at work wait to be allowed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence

import click

from ags.asking import Asked, asked
from ags.cli.invocation import Invocation, telling
from ags.logtext import wanted
from ags.paint import Paint, as_json, paint_for, short_time
from ags.shelf import Shelf


@click.command(short_help="Show what runs at work wait to be allowed.")
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def command(invocation: Invocation, as_array: bool) -> None:
    """Show what runs at work wait for your word on: requests that the policy does not allow, and
    tool calls that a hook of yours leaves to you.

    \b
      ags asks
      ags allow ID --for 1h
      ags deny ID

    One that nobody answers is refused after a while.
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        found = asyncio.run(asked(shelf))
        if as_array:
            print(as_json([{"run": each.run, **each.fields} for each in found], indent=1))
        else:
            print("\n".join(told(found, paint_for(sys.stdout, invocation.environ))))


def told(found: Sequence[Asked], paint: Paint) -> Iterator[str]:
    if not found:
        yield "no run asks for anything"
        return
    for each in found:
        yield _line(each, paint)
    yield paint("`ags allow ID [--for 1h|--always]`, `ags deny ID`", "dim")


def _line(one: Asked, paint: Paint) -> str:
    waited, left = (short_time(float(one.fields.get(name, 0))) for name in ("waited", "left"))
    times = paint(f"waits {waited}, {left} left", "dim")
    return f"{paint(one.id, 'yellow', 'bold')}  {one.run}  {wanted(one.fields)}  {times}"
