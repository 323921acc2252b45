"""`ags stop`: a run's end, in order."""

from __future__ import annotations

import asyncio

import click

from ags.cli.invocation import Invocation, engine_of
from ags.cli.start import summary


@click.command(short_help="End a run in order; what it did so far is kept.")
@click.option("--now", is_flag=True, help="Do not give the agent time to end by itself.")
@click.argument("name")
@click.pass_obj
def command(invocation: Invocation, name: str, now: bool) -> None:
    """End the run NAME: the agent is asked to end, and what it did so far is collected.

    \b
      ags stop fix-login
      ags stop --now fix-login

    An agent that does not end within ten seconds is ended.
    """
    with engine_of(invocation) as engine:
        summary(asyncio.run(engine.stop(name, at_once=now)))
