"""`ags restart`: the same goal once more."""

from __future__ import annotations

import asyncio

import click

from ags import events
from ags.cli import stream
from ags.cli.invocation import Invocation, engine_of
from ags.cli.start import accompany, at_work
from ags.engine import Engine


@click.command(short_help="Give a run its goal again, from the same base.")
@click.option("--detach", is_flag=True, help="Return at once; `ags logs -f NAME` follows it.")
@click.argument("name")
@click.pass_obj
def command(invocation: Invocation, name: str, detach: bool) -> int:
    """Give the run NAME its goal again, from the same commit, in a fresh workspace.

    \b
      ags restart fix-login
      ags restart --detach fix-login

    What it brought before is kept in the repository until the run is removed. Ctrl-C stops it in
    order, a second one at once.

    Exit code: as of `ags start`.
    """
    with engine_of(invocation) as engine:
        return asyncio.run(_restart(engine, name, detach=detach))


async def _restart(engine: Engine, name: str, *, detach: bool) -> int:
    seen = events.last_seq(engine.run_dir(name) / stream.LOG)
    if detach:
        print(at_work((await engine.restart(name)).name, " again"))
        return 0
    return await accompany(engine, engine.restart(name), seen)
