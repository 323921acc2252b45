"""`ags undo`: the last apply of a run, taken back."""

from __future__ import annotations

import asyncio

import click

from ags import review
from ags.cli.invocation import Invocation, engine_of
from ags.runs import Applied
from ags.text import one_line
from ags.workspace.apply import HEADS


@click.command(short_help="Take the last apply of a run back.")
@click.argument("name")
@click.pass_obj
def command(invocation: Invocation, name: str) -> None:
    """Take back what `ags apply NAME` did, or what the run did in your own folder.

    \b
      ags undo fix-login

    The branch and your files are then as they were before. Only as long as they are as the run or
    apply left them; later, you are told, and nothing is changed. The run's own branch stays, so
    that it can be applied again.
    """
    with engine_of(invocation) as engine:
        print(told(name, asyncio.run(review.undo(engine, name))))


def told(name: str, undone: Applied) -> str:
    target = one_line(undone.target.removeprefix(HEADS))
    if undone.how == "in place":
        return f"undone {name}: your files are as they were before it started"
    if undone.how == "patch":
        where = "your files and index are as they were"
    elif undone.before is None:
        where = f"{target} has no commit again"
    else:
        where = f"{target} is at {undone.before[:12]} again"
    return f"undone {name}: {where}\n`ags apply {name}` applies it anew"
