"""`ags start`: give an agent a goal, in a workspace and on a branch of its own."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Self

import click

from ags import runs, wishes
from ags.agents import AGENTS
from ags.cli import offers, options, stream
from ags.cli.equip import equip
from ags.cli.invocation import Invocation, engine_of, tell
from ags.cli.options import USUAL, Flags, agent_options, sandbox_options
from ags.cli.show import next_steps
from ags.engine import Engine, Wish
from ags.errors import AgsError
from ags.paint import changes
from ags.prepare import limits_here
from ags.runs import Mount, Order, Run
from ags.text import one_line
from ags.workspace import git

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
    metavar="DIR|PROJECT",
    help="A git repository, or a project of `ags project list`. [default: the repository around"
    " the current directory]",
)
@click.option("--base", default="HEAD", metavar="REF", help="Start from here. [default: HEAD]")
@click.option(
    "--attempts",
    type=click.IntRange(1, wishes.MOST_ATTEMPTS),
    default=1,
    metavar="N",
    help="Start N runs with this goal, NAME-1 to NAME-N, to choose from. Implies --detach.",
)
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
    attempts: int,
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
      ags start faster --attempts 3 "make the parser twice as fast"
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
        folder=_project(invocation, project, options.client(flags.client)),
        limits=limits_here(options.settings(invocation, flags, config)),
        base=base,
        order=order(invocation, flags, config),
    )
    with engine_of(invocation) as engine:
        wishes.check(engine, wish)
        equip(invocation, agent, wish.order)
        offers.offer(invocation, agent, wish.folder, wish.order)
        if attempts > 1:
            return asyncio.run(_start_several(engine, wish, attempts))
        return asyncio.run(_start(engine, wish, detach=detach))


def _project(invocation: Invocation, given: Path | None, client: str) -> Path:
    """A folder, or a project by its name or id."""
    if given is not None and len(given.parts) == 1 and not given.is_dir():
        from ags import projects  # most runs are on a folder

        if known := projects.folder_of(invocation.ags_home, str(given), client):
            return known
    return folder(invocation, given, "--project")


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
        model="" if flags.model is None else wishes.model(flags.model),
        defaults=flags.defaults,
        yolo=flags.yolo,
        login=options.login(invocation, flags),
    )


async def _start(engine: Engine, wish: Wish, *, detach: bool) -> int:
    if detach:
        print(at_work((await engine.start(wish)).name))
        return 0
    return await accompany(engine, engine.start(wish))


def at_work(name: str, again: str = "") -> str:
    """For who does not want to look on."""
    return f"{name} is at work{again}: `ags logs -f {name}`, `ags stop {name}`"


async def _start_several(engine: Engine, wish: Wish, attempts: int) -> int:
    project = await git.find(wish.folder)
    for name in await wishes.names(engine, project, wish.name, wish.goal, attempts):
        run = await engine.start(replace(wish, name=name, group=wish.name))
        print(f"{run.name} is at work")
    print(several_at_work(wish.name))
    return 0


def several_at_work(name: str) -> str:
    return f"`ags list` shows how they do, `ags diff {name}-1` what one of them did"


async def accompany(engine: Engine, starting: Awaitable[Run], after: int = 0) -> int:
    """Start a run, show what it does until it has ended, and what became of it."""
    ended = await followed(engine, starting, after)
    summary(ended)
    return exit_code(ended)


async def followed(engine: Engine, starting: Awaitable[Run], after: int = 0) -> Run:
    """The same without the last words."""
    with Interruptions(engine) as interruptions:
        run = interruptions.run = await starting
        run_dir = runs.directory(engine.ags_home, run.id)
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
    """While it holds, Ctrl-C stops the run in order, and a second one at once.

    As long as there is no run, it ends the start. It is heard between two steps only, so one that
    comes as the run begins stops it.
    """

    def __init__(self, engine: Engine) -> None:
        self.run: Run | None = None
        self._engine = engine
        self._asked: list[asyncio.Task[None]] = []
        self._given_up = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._stop, task)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        if self._given_up and kind is asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def _stop(self, starting: asyncio.Task[object]) -> None:
        if self.run is None:
            self._given_up = starting.cancel()
            return
        at_once = bool(self._asked)
        tell("ending it at once" if at_once else "stopping it; Ctrl-C again ends it at once")
        self._asked.append(asyncio.create_task(self._ask(self.run, at_once=at_once)))

    async def _ask(self, run: Run, *, at_once: bool) -> None:
        try:
            await self._engine.stop(run.name, at_once=at_once)
        except AgsError as error:  # it may just have ended, which is all that was wanted
            if runs.is_alive(runs.directory(self._engine.ags_home, run.id)):
                tell(str(error))
