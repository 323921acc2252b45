"""`ags tell`: the next turn of a run that has ended."""

from __future__ import annotations

import asyncio
import sys

import click

from ags import events
from ags.cli import stream
from ags.cli.invocation import Invocation, engine_of
from ags.cli.start import accompany, at_work
from ags.engine import Engine


@click.command(short_help="Give a run its next turn: same branch, same conversation.")
@click.option("--detach", is_flag=True, help="Return at once; `ags logs -f NAME` follows it.")
@click.argument("name")
@click.argument("text")
@click.pass_obj
def command(invocation: Invocation, name: str, text: str, detach: bool) -> int:
    """Tell the run NAME what to do next. It goes on where it left off: in its workspace, on its
    branch, and in its agent's own conversation. A TEXT of - is read from standard input.

    \b
      ags tell fix-login "good, now add a test for the empty password"
      ags diff fix-login | ags tell fix-login -

    Exit code: as of `ags start`.
    """
    if text == "-":
        text = sys.stdin.read()
    with engine_of(invocation) as engine:
        return asyncio.run(_tell(engine, name, text, detach=detach))


async def _tell(engine: Engine, name: str, text: str, *, detach: bool) -> int:
    seen = events.last_seq(engine.run_dir(name) / stream.LOG)
    if detach:
        print(at_work((await engine.tell(name, text)).name, " again"))
        return 0
    return await accompany(engine, engine.tell(name, text), seen)
