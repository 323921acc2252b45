"""`ags attach`: back to the terminal of a run."""

from __future__ import annotations

import asyncio

import click

from ags.cli.interactive import visit
from ags.cli.invocation import Invocation, engine_of


@click.command(short_help="Come back to the terminal of a run.")
@click.argument("name")
@click.pass_obj
def command(invocation: Invocation, /, name: str) -> int:
    """Show the terminal of the run NAME on this one.

    Several can look at it and type at once; it is as large as the terminal used last. Ctrl-]
    detaches: the run goes on, as it does when the terminal is closed.
    """
    with engine_of(invocation) as engine:
        return asyncio.run(visit(engine, engine.at_work(name, "attach")))
