"""`ags --agent NAME`: an agent at the person's terminal, in the person's own folder."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import click

from ags import runs, wishes
from ags.agents import AGENTS
from ags.agents.base import LATEST
from ags.cli import offers, options, start
from ags.cli.equip import equip
from ags.cli.invocation import Invocation, engine_of, tell
from ags.cli.options import USUAL, Flags, agent_options, sandbox_options
from ags.cli.view import Detached, view
from ags.engine import Engine, Wish
from ags.errors import AgsError
from ags.prepare import limits_here
from ags.runs import Run
from ags.store import Filter

ARGUMENTS = "ags.arguments"


class WithArguments(click.Command):
    """What comes after `--` is the agent's own, and not ours to read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[ARGUMENTS] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@click.command(cls=WithArguments, short_help="An agent at your terminal, in your own folder.")
@click.option(
    "--agent",
    "-a",
    "agent",
    type=click.Choice(list(AGENTS)),
    help=f"Who it is. [with --client, default: {USUAL}]",
)
@click.option("--name", metavar="NAME", help="What to call the run. [default: made up]")
@click.option("--continue", "go_on", is_flag=True, help="Go on with its last conversation here.")
@click.option(
    "--resume",
    is_flag=True,
    help="Back to the client's session at work; if there is none, to its last conversation.",
)
@agent_options
@sandbox_options
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="PATH", help="Use this settings file."
)
@click.argument("folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path))
@click.pass_context
def command(
    ctx: click.Context,
    /,
    agent: str | None,
    name: str | None,
    go_on: bool,
    resume: bool,
    config: Path | None,
    folder: Path | None,
    **given: object,
) -> int:
    """Work with an agent in DIR (default: here), on your own files; arguments after -- are its own.

    \b
      ags --agent claude
      ags --agent codex --continue
      ags --agent shell ~/src/project -- -lc 'make test'
      ags --client acme ~/src/acme
      ags --client acme --resume

    Your files can be changed, except for the settings of editors and agents. Its git is a private
    one: at the end its commits move your branch forward if you left it alone meanwhile, and wait
    on agent--NAME otherwise. `ags diff NAME` shows what it did, `ags undo NAME` takes it back.

    Ctrl-] detaches and `ags attach NAME` comes back, from any terminal.
    """
    invocation: Invocation = ctx.obj
    flags = Flags.of(given)
    if agent is None and flags.client is None and not resume:
        raise click.UsageError("Missing option '--agent' (or '--client', or '--resume').")
    client = options.client(flags.client)
    with engine_of(invocation) as engine:
        if resume:
            here = None if folder is None else start.folder(invocation, folder, "this folder")
            last = session(engine, client, agent, here)
            if _has_terminal(engine, last):
                return asyncio.run(visit(engine, runs.directory(engine.ags_home, last.id)))
            agent, folder, go_on = last.agent, last.project, True
        agent = agent or USUAL
        order = replace(
            start.order(invocation, flags, config),
            arguments=ctx.meta[ARGUMENTS],
            terminal=os.isatty(0) and os.isatty(1),
            session=LATEST if go_on else "",
        )
        wish = Wish(
            name=name or f"{agent}-{os.urandom(2).hex()}",
            goal="",
            agent=agent,
            folder=start.folder(invocation, folder, "this folder"),
            limits=limits_here(options.settings(invocation, flags, config)),
            mode="inplace",
            order=order,
        )
        wishes.check(engine, wish)
        equip(invocation, agent, order)
        offers.offer(invocation, agent, wish.folder, wish.order)
        return asyncio.run(_run(engine, wish))


def session(engine: Engine, client: str, agent: str | None, folder: Path | None) -> Run:
    """The client's newest session at a terminal that is at work, else its newest one."""
    listed = engine.listing(Filter(mode="inplace", agent=agent)).runs
    there = None if folder is None else os.path.realpath(folder)
    newest = None
    for each in listed:
        run = runs.load(runs.directory(engine.ags_home, each.id))
        if run.order.client != client or there not in (None, os.path.realpath(run.project)):
            continue
        if _has_terminal(engine, run):
            return run
        newest = newest or run
    if newest is None:
        whose = f"{client} has" if client else "you have"
        where = "" if folder is None else f" in {folder}"
        hint = f"begin one: `ags --client {client}`" if client else "begin one: `ags --agent NAME`"
        raise AgsError("resume", subject=client, cause=f"{whose} no session{where}", hint=hint)
    return newest


def _has_terminal(engine: Engine, run: Run) -> bool:
    """Whether one can come back to it."""
    return run.order.terminal and runs.is_alive(runs.directory(engine.ags_home, run.id))


async def _run(engine: Engine, wish: Wish) -> int:
    if not wish.order.terminal:
        return await start.accompany(engine, engine.start(wish))
    run = await engine.start(wish)
    return await visit(engine, runs.directory(engine.ags_home, run.id))


async def visit(engine: Engine, run_dir: Path) -> int:
    """Look at a run's terminal, and say what became of the run if it ended meanwhile."""
    name = runs.load(run_dir).name
    try:
        await engine.answering(run_dir)
        outcome = await view(run_dir, {"do": "attach"}, name=name)
    except AgsError:
        if runs.is_alive(run_dir):
            raise
        outcome = None  # it ended before it had a terminal, which its record explains
    except asyncio.CancelledError:  # Ctrl-C, before there was a terminal to leave
        tell(f"{name} goes on: `ags attach {name}`, `ags stop {name}`")
        raise
    if isinstance(outcome, Detached):
        return 0
    ended = await engine.ended(run_dir)
    if outcome is None:
        for note in ended.notes:
            tell(note)
    start.summary(ended)
    return start.exit_code(ended)
