"""`ags cleanup`: room made, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Protocol

import click

from ags import runs
from ags.cli.invocation import Invocation, engine_of
from ags.cli.rm import removed
from ags.engine import Engine
from ags.errors import AgsError
from ags.logins import room
from ags.programs.installed import remove_unused
from ags.runs import FINAL, Run
from ags.store import Filter
from ags.text import one_line


class Remove(Protocol):
    def __call__(self, engine: Engine, name: str, *, force: bool) -> Awaitable[bool]: ...


@click.command(short_help="Remove the workspaces of runs that have ended.")
@click.option("--all", "everything", is_flag=True, help="Remove the runs themselves too.")
@click.option("--force", is_flag=True, help="Even if work is lost that is nowhere else.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.pass_obj
def command(invocation: Invocation, everything: bool, force: bool, dry_run: bool) -> int:
    """Remove the workspaces of runs that have ended and whose work is stored, checkouts kept
    ready, versions of agents that were replaced, and what log-ins left that were killed.

    \b
      ags cleanup --dry-run
      ags cleanup
      ags cleanup --all

    With --all their records and logs go too; their branches stay in your repositories. Runs at work
    are left alone. What holds work that is nowhere else is kept, unless you say --force.

    Exit code: 1 if something was kept back.
    """
    with engine_of(invocation) as engine:
        found = [run for run in _ended(engine) if everything or _made_for(engine, run)]
        spares, rooms = engine.spares(), room.left(engine.ags_home)
        if not found and not spares and not rooms:
            print("nothing to remove")
        if dry_run:
            for run in found:
                print(f"would remove {_what(engine, run, everything=everything)}")
            for spare in spares:
                print(f"would remove a checkout kept ready: {one_line(str(spare))}")
            for place in rooms:
                print(f"would remove what a log-in left: {one_line(str(place))}")
            return 0
        engine.forget_spares()
        if spares:
            print(f"removed {len(spares)} checkouts that were kept ready")
        for place in room.sweep(engine.ags_home):
            print(f"removed what a log-in left: {one_line(str(place))}")
        for old in remove_unused(engine.ags_home):
            print(f"removed {old.parent.name} {old.name}, which no run uses any more")
        remove = removed if everything else _cleaned
        return asyncio.run(_clean(engine, found, remove, force=force))


async def _clean(engine: Engine, found: list[Run], remove: Remove, *, force: bool) -> int:
    gone = [await remove(engine, run.name, force=force) for run in found]
    return 0 if all(gone) else 1


def _ended(engine: Engine) -> list[Run]:
    found = []
    for summary in engine.listing(Filter(states=tuple(sorted(FINAL)))).runs:
        try:
            found.append(runs.load(runs.directory(engine.ags_home, summary.id)))
        except AgsError:
            continue  # removed or damaged since
    return found


def _made_for(engine: Engine, run: Run) -> list[Path]:
    """Its workspace, its git directory and its home, as far as they are still there."""
    home = engine.ags_home
    return [
        path
        for path in (home / "worktrees" / run.name, home / "git" / run.id, home / "home" / run.id)
        if path.exists()
    ]


def _what(engine: Engine, run: Run, *, everything: bool) -> str:
    places = _made_for(engine, run)
    paths = ", ".join(one_line(str(path)) for path in places)
    what = run.name if everything else f"the workspace of {run.name}: {paths}"
    unstored = run.started is not None and run.result is None and places
    return f"{what} (its work is collected first)" if unstored else what


async def _cleaned(engine: Engine, name: str, *, force: bool) -> bool:
    from ags.cli.main import show

    try:
        was_there = await engine.clean(name, force=force)
    except AgsError as error:
        show(error)
        return False
    if was_there:
        print(f"removed the workspace of {name}")
    return True
