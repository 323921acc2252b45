"""What becomes of a project once it is there: pulled, looked at, taken away."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

from ags import proc
from ags.engine import Engine
from ags.errors import AgsError
from ags.frozen import frozen
from ags.projects.record import (
    Apart,
    Project,
    get,
    is_folder,
    load,
    locked,
    note,
    place_of,
    save,
    set_aside,
)
from ags.runs import FINAL
from ags.store import Filter, Summary
from ags.text import one_line
from ags.workspace import git, private, remote
from ags.workspace.remote import Person, Progress, Pulled, checked_url, unheard

MOST_NAMED = 50
"""Branches of each sort that a record names."""


@frozen
class Branch:
    """A branch of a project's own, and its last commit."""

    name: str
    commit: str
    title: str
    when: float
    run: str | None
    """The name of the run whose work it is."""


async def pull(engine: Engine, project_id: str, progress: Progress = unheard) -> Pulled:
    """What is new at where it was cloned from."""
    project = get(engine.ags_home, project_id)
    if project.linked:
        cause, hint = "it is your own folder", f"`git -C {one_line(project.url)} pull`"
        raise AgsError("pull", subject=project.name, cause=cause, hint=hint)
    place = place_of(engine.ags_home, project_id)
    with locked(place, "pull"):
        if not is_folder(project.folder):
            cause = project.error or "it has not been cloned"
            hint = f"`ags project add {one_line(project.url)}` tries again"
            raise AgsError("pull", subject=project.name, cause=cause, hint=hint)
        try:
            url = checked_url(project.url)
            repository = await git.find(project.folder)
            person = Person(engine.environ, engine.home)
            missed = project.apart.gone
            pulled = await remote.fetch(repository, url, person, progress, missed)
        except AgsError as error:
            note(place, error)
            raise
        before = load(place)
        after = replace(before, error="", apart=_apart(pulled))
        if after != before:
            save(place, after)
        return pulled


def _apart(pulled: Pulled) -> Apart:
    """Not all names where there are many: whoever looks at projects reads them again and again."""
    diverged, gone = pulled.diverged[:MOST_NAMED], pulled.gone[:MOST_NAMED]
    all_ = len(pulled.diverged) + len(pulled.gone)
    return Apart(diverged, gone, all_ - len(diverged) - len(gone))


async def branches(project: Project) -> tuple[Branch, ...]:
    """The latest first."""
    repository = await git.find(_ready(project))
    fields = ("refname:lstrip=2", "objectname", "committerdate:unix", "contents:subject")
    listed = await git.run(
        repository,
        *("for-each-ref", "--sort=-committerdate"),
        "--format=" + "%00".join(f"%({field})" for field in fields),
        "refs/heads",
    )
    lines = os.fsdecode(listed.stdout).removesuffix("\n").split("\n")
    return tuple(_branch(*line.split("\0")) for line in lines if line)


def _branch(name: str, commit: str, when: str, title: str) -> Branch:
    run = name.removeprefix("agent--") if private.BRANCH.fullmatch(name) else None
    return Branch(name, commit, title, float(when or 0), run)


async def head(project: Project) -> str:
    """The branch that a run begins at if nobody says otherwise; empty if there is none."""
    position = await private.position(await git.find(_ready(project)))
    return (position.ref or position.commit or "").removeprefix("refs/heads/")


def runs_of(engine: Engine, project: Project) -> tuple[Summary, ...]:
    """A linked folder may be that of several clients, each of which has its own."""
    where = Filter(project=project.folder, client=project.client)
    return engine.listing(where).runs


async def remove(engine: Engine, project_id: str, *, force: bool = False) -> None:
    """Forget a linked one: its folder and its runs stay as they are. Take a cloned one away.

    That is refused while there are runs on it, or commits that are nowhere else; with `force` its
    runs go first. One at work is never taken away.
    """
    project = get(engine.ags_home, project_id)
    place = place_of(engine.ags_home, project_id)
    with locked(place, "remove the project"):
        if not project.linked:
            _check_idle(engine, project)
            if not force:
                _check_unused(engine, project)
                await _check_stored(project)
            for run in runs_of(engine, project):
                await engine.remove(run.name, force=True)
        gone = set_aside(place)
        # A run may have begun there since we looked; without its repository it gets nowhere.
        if not project.linked and runs_of(engine, project):
            os.rename(gone, place)
            _check_idle(engine, project)
            _check_unused(engine, project)
        await proc.aside(partial(shutil.rmtree, gone, ignore_errors=True))


def _check_idle(engine: Engine, project: Project) -> None:
    if working := [run.name for run in runs_of(engine, project) if run.state not in FINAL]:
        cause, hint = f"at work: {', '.join(working)}", f"`ags stop {working[0]}` first"
        raise AgsError("remove the project", subject=project.name, cause=cause, hint=hint)


def _check_unused(engine: Engine, project: Project) -> None:
    if found := [run.name for run in runs_of(engine, project)]:
        names = " ".join(found[:3]) + (" ..." if len(found) > 3 else "")
        cause = f"there are runs on it: {names}"
        hint = f"`ags rm {names}` first; --force removes them, and all work that is only here"
        raise AgsError("remove the project", subject=project.name, cause=cause, hint=hint)


async def _check_stored(project: Project) -> None:
    if not is_folder(project.folder):
        return
    repository = await git.find(project.folder)
    elsewhere = ("--not", "--remotes=origin", "--tags")
    only = await git.run(repository, "rev-list", "--max-count=1", "--branches", *elsewhere)
    if commit := only.text.strip():
        words = ("--count=1", "--format=%(refname:lstrip=2)", "--contains", commit, "refs/heads")
        held = os.fsdecode((await git.run(repository, "for-each-ref", *words)).stdout).strip()
        cause = f"branch {one_line(held)} has commits that are nowhere else"
        hint = f"push them from {project.folder}; --force drops them for good"
        raise AgsError("remove the project", subject=project.name, cause=cause, hint=hint)


def _ready(project: Project) -> Path:
    if not is_folder(project.folder):
        cause = project.error or "it is still being cloned"
        raise AgsError("use the project", subject=project.name, cause=cause)
    return project.folder
