"""`ags deny`: a run may not do what it asked for."""

from __future__ import annotations

import asyncio

import click

from ags.asking import Asked, answered, the_one
from ags.cli.invocation import Invocation, telling
from ags.shelf import Shelf


@click.command(short_help="Refuse a run what it asks for.")
@click.option("--run", metavar="NAME", help="The run that asks, if several ask under this id.")
@click.argument("id_", metavar="ID")
@click.pass_obj
def command(invocation: Invocation, id_: str, run: str | None) -> None:
    """Refuse what a run asks for under ID, as `ags asks` shows it: a request for as long as the run
    lasts, a tool's call that a hook of yours asks about just this once.

    \b
      ags deny kfw1
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        one = asyncio.run(the_one(shelf, id_, run))
        asyncio.run(answered(one, "deny"))
        print(told(one))


def told(one: Asked) -> str:
    # What a hook asks is about one call; its next may be asked again.
    return f"denied: {one}" if "tool" in one.fields else f"denied for the rest of the run: {one}"
