"""From what a person asks for to a run that can be, by the command line or by the server."""

from __future__ import annotations

import itertools
import os
import re

from ags import clients, runs
from ags.agents import agent as known
from ags.config.load import load
from ags.engine import Engine, Wish
from ags.errors import AgsError, Unfit
from ags.workspace import git
from ags.workspace.git import Repository
from ags.workspace.root import find_root

MOST_ATTEMPTS = 20
LONGEST_NAME = 40
"""Characters that are made from a goal: room is left for a number."""
MOST_WORDS = 5
UNSAID = frozenset(("a", "an", "and", "for", "in", "is", "it", "of", "on", "please", "the", "to"))
BRANCHES = "refs/heads/agent--"


def model(given: str) -> str:
    """It becomes an argument of the agent's, and must not be read as an option there."""
    if not given or given.startswith("-") or not given.isprintable():
        cause = "that is no name of a model"
        raise Unfit("use --model", subject=ascii(given)[:60], cause=cause)
    return given


def check(engine: Engine, wish: Wish) -> None:
    """Refuse what does not go together, and folders that would bring clients together."""
    order = wish.order
    if order.login is not None and wish.agent != "claude":
        cause = f"it is the log-in of claude, and this is {wish.agent}"
        raise AgsError("use --claude-config", subject=order.login, cause=cause)
    settings = load(order.config, engine.environ, engine.home)
    seen = (*settings.mounts, *(each.config for each in order.mounts))
    own = (find_root(wish.folder, os.geteuid()),) if wish.mode == "inplace" else ()
    folders = (*own, *(each.host for each in seen))
    clients.check_apart(engine.ags_home, engine.environ, folders)


async def ready(engine: Engine, agent: str) -> None:
    """Its program is installed, or it is an error that names the command."""
    if known(agent).program is None:
        return
    from ags import programs  # npm and all that is not what a shell needs

    given = (engine.environ, engine.home, engine.ags_home, engine.notes.append)
    await programs.ensure(programs.Installer.configured(*given), agent, None)


async def names(
    engine: Engine, project: Repository, wanted: str | None, goal: str, attempts: int = 1
) -> tuple[str, ...]:
    """One for each attempt: the wanted one, or else made of the goal's words, and free."""
    if not 1 <= attempts <= MOST_ATTEMPTS:
        cause = f"{attempts} is not between 1 and {MOST_ATTEMPTS}"
        raise Unfit("make so many attempts", cause=cause)
    if wanted is not None:
        made = numbered(runs.checked_name(wanted), attempts)
        for name in made:
            runs.check_free(engine.ags_home, name)
        return made
    taken = await _taken(engine, project)
    stem = _stem(goal)
    made = numbered(stem, attempts)
    versions = itertools.count(2)
    while taken.intersection(made):
        made = numbered(f"{stem}-v{next(versions)}", attempts)
    return made


def numbered(stem: str, attempts: int) -> tuple[str, ...]:
    if attempts == 1:
        return (stem,)
    return tuple(f"{stem}-{number}" for number in range(1, attempts + 1))


async def _taken(engine: Engine, project: Repository) -> frozenset[str]:
    """The names of runs, and of those whose branch is all that is left of them."""
    listed = await git.run(project, "for-each-ref", "--format=%(refname)", f"{BRANCHES}*")
    left = {each.removeprefix(BRANCHES) for each in listed.text.split()}
    return frozenset(left | set(runs.names(engine.ags_home)))


def _stem(goal: str) -> str:
    made = ""
    for word in re.findall(r"[a-z0-9]+", goal.lower()[:400]):
        if word not in UNSAID and len(made) + len(word) < LONGEST_NAME:
            made = f"{made}-{word}" if made else word
        if made.count("-") == MOST_WORDS - 1:
            break
    return made or "run"
