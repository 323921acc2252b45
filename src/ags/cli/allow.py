"""`ags allow`: a run may do what it asked for."""

from __future__ import annotations

import asyncio
from typing import Literal

import click

from ags.asking import Asked, answered, the_one, write_down
from ags.cli.invocation import Invocation, telling
from ags.config.values import parse_duration
from ags.paint import exact_time
from ags.shelf import Shelf

Verdict = Literal["once", "for", "always"]
ELSEWHERE = "other runs at work take it up with `ags policy reload`"


@click.command(short_help="Let a run do what it asks for.")
@click.option("--once", is_flag=True, help="One connection or request; the default.")
@click.option("--for", "time", metavar="TIME", help="For so long in this run, such as 30m or 1h.")
@click.option("--uses", type=click.IntRange(1), metavar="N", help="With --for: so often at most.")
@click.option(
    "--always",
    is_flag=True,
    help="In all runs, of this client if it has one: add it to policy.yaml.",
)
@click.option("--run", metavar="NAME", help="The run that asks, if several ask under this id.")
@click.argument("id_", metavar="ID")
@click.pass_obj
def command(
    invocation: Invocation,
    id_: str,
    once: bool,
    time: str | None,
    uses: int | None,
    always: bool,
    run: str | None,
) -> None:
    """Let a run do what it asks for under ID, as `ags asks` shows it, and nothing else.

    \b
      ags allow kfw1
      ags allow kfw1 --for 1h
      ags allow kfw1 --for 1h --uses 3
      ags allow kfw1 --always
    """
    verdict, seconds = extent(once=once, time=time, uses=uses, always=always)
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        one = asyncio.run(the_one(shelf, id_, run))
        if always:
            asyncio.run(write_down(invocation.environ, invocation.home, one))
            shelf.notes.append(ELSEWHERE)
        asyncio.run(answered(one, verdict, seconds, uses))
        print(told(one, verdict, seconds))


def extent(
    *, once: bool, time: str | None, uses: int | None, always: bool
) -> tuple[Verdict, float]:
    """How far it is allowed, and for how many seconds if that is `for`."""
    if once + (time is not None) + always > 1:
        raise click.UsageError("--once, --for and --always exclude each other")
    if uses is not None and time is None:
        raise click.UsageError("--uses goes with --for")
    seconds = parse_duration(time, "--for") if time is not None else 0.0
    return "always" if always else "for" if seconds else "once", seconds


def told(one: Asked, verdict: Verdict, seconds: float) -> str:
    return f"allowed {f'for {exact_time(seconds)}' if verdict == 'for' else verdict}: {one}"
