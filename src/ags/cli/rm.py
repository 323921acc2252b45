"""`ags rm`: a run's record and workspace, gone."""

from __future__ import annotations

import asyncio

import click

from ags.cli.invocation import Invocation, engine_of
from ags.engine import Engine
from ags.errors import AgsError
from ags.text import one_line


@click.command(short_help="Remove runs; their branches stay.")
@click.option("--force", is_flag=True, help="Even if work is lost that is nowhere else.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.pass_obj
def command(invocation: Invocation, names: tuple[str, ...], force: bool) -> int:
    """Remove runs: their records, logs and workspaces. Their branches stay in your repository.

    \b
      ags rm fix-login
      ags rm first-try second-try
      ags rm --force fix-login

    A run at work is not removed; stop it first. Nor is one whose work is on no branch any more,
    unless you say --force.

    Exit code: 1 if any of them is kept.
    """
    with engine_of(invocation) as engine:
        return asyncio.run(_remove(engine, names, force=force))


async def _remove(engine: Engine, names: tuple[str, ...], *, force: bool) -> int:
    gone = [await removed(engine, name, force=force) for name in dict.fromkeys(names)]
    return 0 if all(gone) else 1


async def removed(engine: Engine, name: str, *, force: bool) -> bool:
    """Whether it is gone. What keeps one of them is told, and does not keep the others."""
    from ags.cli.main import show

    try:
        run = await engine.remove(name, force=force)
    except AgsError as error:
        show(error)
        return False
    stays = f"; {run.branch} stays" if run is not None and await engine.has_branch(run) else ""
    print(f"removed {run.name if run else one_line(name)}{stays}")
    return True
