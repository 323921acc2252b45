"""`ags start`: give an agent a goal, in a workspace and on a branch of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import click

from ags import clients, runs
from ags.agents import AGENTS
from ags.cli import offers, options, stream
from ags.cli.equip import equip
from ags.cli.invocation import Invocation, engine_of, tell
from ags.cli.options import USUAL, Flags, agent_options, sandbox_options
from ags.cli.paint import changes
from ags.cli.show import next_steps
from ags.config.load import load
from ags.engine import Engine, Wish
from ags.errors import AgsError
from ags.prepare import limits_here
from ags.runs import Mount, Order, Run
from ags.text import one_line
from ags.workspace.root import find_root

INTERRUPTED = 130


@click.command(short_help="Give an agent a goal, on a branch of its own.")
@click.option(
    "--agent",
    "-a",
    "agent",
    type=click.Choice(list(AGENTS)),
    default=USUAL,
    help=f"Who does it. [default: {USUAL}]",
)
@click.option(
    "--project",
    "-p",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A git repository. [default: the one around the current directory]",
)
@click.option("--base", default="HEAD", metavar="REF", help="Start from here. [default: HEAD]")
@click.option("--detach", is_flag=True, help="Return at once; `ags logs -f NAME` follows it.")
@agent_options
@sandbox_options
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="PATH", help="Use this settings file."
)
@click.argument("name")
@click.argument("goal")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    name: str,
    goal: str,
    agent: str,
    project: Path | None,
    base: str,
    detach: bool,
    config: Path | None,
    **given: object,
) -> int:
    """Give an agent GOAL (`-` reads it from standard input) under NAME.

    It works in a checkout of its own, in a sandbox that reaches what the policy allows. Whatever
    it does comes back as the branch agent--NAME; your own files and branches stay as they are
    until you apply it.

    \b
      ags start fix-login "the login page accepts an empty password"
      ags start fix-too --agent codex --detach "$(cat goal.md)"
      ags start tidy --agent shell 'sed -i s/colour/color/ *.md'
      ags diff tidy; ags apply tidy

    Ctrl-C stops the run in order and keeps what it did; a second one ends it at once. Closing the
    terminal does neither: the run goes on.

    Exit code: 0 if the run is done, 130 if it was stopped, else the agent's own.
    """
    flags = Flags.of(given)
    if goal == "-":
        goal = sys.stdin.read()
    wish = Wish(
        name=name,
        goal=goal,
        agent=agent,
        folder=folder(invocation, project, "--project"),
        limits=limits_here(options.settings(invocation, flags, config)),
        base=base,
        order=order(invocation, flags, config),
    )
    check(invocation, wish)
    equip(invocation, agent, wish.order)
    offers.offer(invocation, agent, wish.folder, wish.order)
    with engine_of(invocation) as engine:
        return asyncio.run(_start(engine, wish, detach=detach))


def folder(invocation: Invocation, given: Path | None, flag: str) -> Path:
    """The one that is meant: the current one, if none was named."""
    cwd = options.current_directory()
    meant = cwd if given is None else cwd / options.in_home(str(given), invocation.home)
    if not meant.is_dir():
        raise AgsError(f"use {flag}", subject=meant, cause="there is no such folder")
    return meant


def order(invocation: Invocation, flags: Flags, config: Path | None) -> Order:
    """The flags, as they are kept with the run: resolved, for a restart from anywhere."""
    return Order(
        mounts=tuple(Mount(flag, mount) for flag, mount in options.mounts(invocation, flags)),
        environment=options.environment(invocation, flags),
        ptrace=flags.ptrace,
        backend=flags.backend,
        network=not flags.no_network,
        allow=flags.allow,
        ask=flags.ask,
        publish=flags.publish,
        policy=None if flags.policy is None else flags.policy.absolute(),
        config=options.settings_file(invocation, flags, config),
        client=options.client(flags.client),
        model=options.model(flags.model),
        defaults=flags.defaults,
        yolo=flags.yolo,
        login=options.login(invocation, flags),
    )


def check(invocation: Invocation, wish: Wish) -> None:
    """Refuse flags that do not go together, and folders that would bring clients together."""
    order = wish.order
    if order.login is not None and wish.agent != "claude":
        cause = f"it is the log-in of claude, and this is {wish.agent}"
        raise AgsError("use --claude-config", subject=order.login, cause=cause)
    settings = load(order.config, invocation.environ, invocation.home)
    seen = (*settings.mounts, *(each.config for each in order.mounts))
    own = (find_root(wish.folder, os.geteuid()),) if wish.mode == "inplace" else ()
    folders = (*own, *(each.host for each in seen))
    clients.check_apart(invocation.ags_home, invocation.environ, folders)


async def _start(engine: Engine, wish: Wish, *, detach: bool) -> int:
    run = await engine.start(wish)
    if detach:
        print(f"{run.name} is at work: `ags logs -f {run.name}`, `ags stop {run.name}`")
        return 0
    return await accompany(engine, run)


async def accompany(engine: Engine, run: Run, after: int = 0) -> int:
    """Show what the run does until it has ended, and what became of it."""
    ended = await followed(engine, run, after)
    summary(ended)
    return exit_code(ended)


async def followed(engine: Engine, run: Run, after: int = 0) -> Run:
    """The same without the last words."""
    run_dir = runs.directory(engine.ags_home, run.id)
    with Interruptions(engine, run):
        await stream.follow(run_dir, sys.stdout, after)
    return await engine.ended(run_dir)


def exit_code(run: Run) -> int:
    if run.state == "done":
        return 0
    return INTERRUPTED if run.state == "stopped" else run.exit_code or 1


def summary(run: Run) -> None:
    """What became of it, and what makes sense now; apart from what the agent said."""
    why = run.stopped_by or (f"exit code {run.exit_code}" if run.exit_code else "")
    print(f"\n{run.name}: {run.state}{f' ({one_line(why)})' if why else ''}", file=sys.stderr)
    if run.result is not None:
        result = run.result
        size = changes(result.files, result.insertions, result.deletions)
        where = f", on branch {run.branch}" if result.files and run.branch else ""
        print(f"  {size}{where}", file=sys.stderr)
    for step in next_steps(run):
        print(f"  {step}", file=sys.stderr)


class Interruptions:
    """While it holds, Ctrl-C stops the run in order, and a second one at once."""

    def __init__(self, engine: Engine, run: Run) -> None:
        self._engine, self._run = engine, run
        self._asked: list[asyncio.Task[None]] = []

    def __enter__(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._stop)

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def _stop(self) -> None:
        at_once = bool(self._asked)
        tell("ending it at once" if at_once else "stopping it; Ctrl-C again ends it at once")
        self._asked.append(asyncio.create_task(self._ask(at_once=at_once)))

    async def _ask(self, *, at_once: bool) -> None:
        try:
            await self._engine.stop(self._run.name, at_once=at_once)
        except AgsError as error:  # it may just have ended, which is all that was wanted
            if runs.is_alive(runs.directory(self._engine.ags_home, self._run.id)):
                tell(str(error))
