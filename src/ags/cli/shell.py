"""`ags shell`: a second process in the sandbox of a run at work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ags import runs
from ags.cli.invocation import Invocation, engine_of
from ags.cli.view import Detached, view
from ags.engine import Engine


@click.command(short_help="Open a shell in the sandbox of a run at work.")
@click.argument("name")
@click.pass_obj
def command(invocation: Invocation, /, name: str) -> int:
    """Open a shell in the sandbox of the run NAME, beside its agent.

    It sees what the agent sees, its processes included, behind the same walls and within the same
    limits. It ends with the run; and Ctrl-], or closing the terminal, ends it as well.
    """
    with engine_of(invocation) as engine:
        run_dir = engine.at_work(name, "open a shell")
        return asyncio.run(_shell(engine, run_dir, invocation.environ.get("TERM")))


async def _shell(engine: Engine, run_dir: Path, term: str | None) -> int:
    await engine.answering(run_dir)
    wish = {"do": "enter", "term": term}
    outcome = await view(run_dir, wish, name=runs.load(run_dir).name, lasting=False)
    return 0 if isinstance(outcome, Detached) else outcome.code or 0
