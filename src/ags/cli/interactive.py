"""`ags --agent NAME`: an agent at the person's terminal, in the person's own folder."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import click

from ags import runs
from ags.agents import AGENTS
from ags.cli import options, start
from ags.cli.invocation import Invocation, engine_of, tell
from ags.cli.options import Flags, sandbox_options
from ags.cli.view import Detached, view
from ags.engine import Engine, Wish
from ags.errors import AgsError
from ags.prepare import limits_here

ARGUMENTS = "ags.arguments"


class WithArguments(click.Command):
    """What comes after `--` is the agent's own, and not ours to read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[ARGUMENTS] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@click.command(cls=WithArguments, short_help="An agent at your terminal, in your own folder.")
@click.option(
    "--agent", "-a", "agent", type=click.Choice(list(AGENTS)), required=True, help="Who it is."
)
@click.option("--name", metavar="NAME", help="What to call the run. [default: made up]")
@sandbox_options
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="PATH", help="Use this settings file."
)
@click.argument("folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path))
@click.pass_context
def command(
    ctx: click.Context,
    /,
    agent: str,
    name: str | None,
    config: Path | None,
    folder: Path | None,
    **given: object,
) -> int:
    """Work with an agent in DIR (default: here), on your own files; arguments after -- are its own.

    \b
      ags --agent shell
      ags --agent shell ~/src/project -- -lc 'make test'

    Your files can be changed, except for the settings of editors and agents. Its git is a private
    one: at the end its commits move your branch forward if you left it alone meanwhile, and wait
    on agent--NAME otherwise. `ags diff NAME` shows what it did, `ags undo NAME` takes it back.

    Ctrl-] detaches and `ags attach NAME` comes back, from any terminal.
    """
    invocation: Invocation = ctx.obj
    flags = Flags.of(given)
    terminal = os.isatty(0) and os.isatty(1)
    order = start.order(invocation, flags, config)
    wish = Wish(
        name=name or f"{agent}-{os.urandom(2).hex()}",
        goal="",
        agent=agent,
        folder=start.folder(invocation, folder, "this folder"),
        limits=limits_here(options.settings(invocation, flags, config)),
        mode="inplace",
        order=replace(order, arguments=ctx.meta[ARGUMENTS], terminal=terminal),
    )
    with engine_of(invocation) as engine:
        return asyncio.run(_run(engine, wish))


async def _run(engine: Engine, wish: Wish) -> int:
    run = await engine.start(wish)
    if not wish.order.terminal:
        return await start.accompany(engine, run)
    return await visit(engine, runs.directory(engine.ags_home, run.id))


async def visit(engine: Engine, run_dir: Path) -> int:
    """Look at a run's terminal, and say what became of the run if it ended meanwhile."""
    name = runs.load(run_dir).name
    await engine.answering(run_dir)
    try:
        outcome = await view(run_dir, {"do": "attach"}, name=name)
    except AgsError:
        if runs.is_alive(run_dir):
            raise
        outcome = None  # it ended before it had a terminal, which its record explains
    if isinstance(outcome, Detached):
        return 0
    ended = await engine.ended(run_dir)
    if outcome is None:
        for note in ended.notes:
            tell(note)
    start.summary(ended)
    return start.exit_code(ended)
