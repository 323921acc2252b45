"""`ags --server URL project`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from ags import projects
from ags.cli import options
from ags.cli import project as local
from ags.cli.invocation import tell
from ags.cli.remote.verb import There, like
from ags.client.shapes import Apart, Project
from ags.errors import AgsError
from ags.paint import as_json, columns, first_line
from ags.projects.record import missing
from ags.text import one_line
from ags.workspace.root import find_root

PAUSE = 0.2
NOTHING: Apart = {"diverged": [], "gone": [], "more": 0}
"""Of a server that does not tell it yet."""
TOLD = ("id", "name", "url", "client", "state", "error", "linked", "added", "runs", "apart")
"""What `ags project list --json` has, as far as a server tells it."""


def meant(there: There, given: str) -> str:
    """A project for the API: the repository around a folder of the server's machine, or an id."""
    if there.is_here:
        folder = options.current_directory() / options.in_home(given, there.invocation.home)
        if folder.is_dir():
            return str(find_root(folder, os.geteuid()))
    return given if given.startswith("/") else _found(there, given)["id"]


def _found(there: There, text: str) -> Project:
    """By its id or its name."""
    found = [each for each in there.client.projects() if text in (each["id"], each["name"])]
    if not found:
        raise missing(text)
    if len(found) > 1:
        cause = "several have this name: " + ", ".join(each["id"] for each in found)
        raise AgsError("find the project", subject=text, cause=cause, hint="say its id")
    return found[0]


@like(local.add)
def add(there: There, url: str | None, client: str, here: bool) -> None:
    link = here or url is None
    place = _folder(there, url) if here or url is None else url
    made = _followed(there, there.client.add_project(place, client=client or None, link=link))
    how = "linked" if made.get("linked", link) else "cloned"
    print(local.added(one_line(made["name"]), one_line(made["id"]), how))


def _folder(there: There, given: str | None) -> str:
    """On this machine, which has to be the server's."""
    if not there.is_here:
        cause, hint = "only on its own machine can a folder be linked", "give the URL to clone from"
        raise AgsError("link a folder to a server", cause=cause, hint=hint)
    return str(local.folder_here(there.invocation, given or "."))


def _followed(there: There, project: Project) -> Project:
    """Once nobody is at work on it any more."""
    with local.Line(sys.stderr, there.invocation.environ) as line:
        while project["state"] in ("cloning", "pulling"):
            line.show(one_line(project["stage"]) or project["state"], project["progress"])
            time.sleep(PAUSE)
            project = there.client.project(project["id"])
    if project["error"]:
        raise AgsError("bring the project", subject=project["name"], cause=project["error"])
    return project


@like(local.list_)
def list_(there: There, as_array: bool, client: str | None) -> None:
    found = there.client.projects(client=client)
    if as_array:
        told = [{name: each[name] for name in TOLD if name in each} for each in found]  # type: ignore[literal-required]
        print(as_json(told, indent=1))
    elif not found:
        print("no projects yet: `ags project add URL` clones one")
    else:
        rows = [local.row(_value(each), each["runs"]) for each in found]
        width = columns(sys.stdout, there.invocation.environ)
        print("\n".join(local.table(local.HEADS, rows, width)))
        for each in found:
            if each["error"]:
                tell(f"note: {one_line(each['name'])}: {first_line(each['error'], 200)}")


def _value(project: Project) -> projects.Project:
    return projects.Project(
        id=one_line(project["id"]),
        url=project["url"],
        name=one_line(project["name"]),
        client=one_line(project["client"]),
        added=project["added"],
        folder=Path(),
        linked=project.get("linked", False),
        error=project["error"],
        state=project["state"],
    )


@like(local.pull)
def pull(there: There, project: str) -> None:
    found = _found(there, project)
    before = _commits(there, found["id"])
    pulled = _followed(there, there.client.pull(found["id"]))
    after = _commits(there, found["id"])
    new = [name for name in after if name not in before]
    updated = [name for name in after if before.get(name, after[name]) != after[name]]
    print(local.brought(one_line(found["name"]), updated, new))
    apart = pulled.get("apart", NOTHING)
    for line in local.apart(apart["diverged"], apart["gone"]):
        tell(f"note: {line}")
    if apart["more"]:
        tell(f"note: {apart['more']} more branches went apart, and stay")


def _commits(there: There, project: str) -> dict[str, str]:
    """Where its branches stand, but for those of runs."""
    listed = there.client.branches(project)
    return {each["name"]: each["commit"] for each in listed if each["run"] is None}


@like(local.branches)
def branches(there: There, project: str, as_array: bool) -> None:
    found = _found(there, project)
    there_are = there.client.branches(found["id"])
    if as_array:
        print(as_json(there_are, indent=1))
    elif not there_are:
        print(f"{one_line(found['name'])} has no branch yet: there is no commit in it")
    else:
        values = [
            projects.Branch(
                name=each["name"],
                commit=one_line(each["commit"]),
                title=each["title"],
                when=each["when"],
                run=None if each["run"] is None else one_line(each["run"]),
            )
            for each in there_are
        ]
        width = columns(sys.stdout, there.invocation.environ)
        rows = [local.branch_row(each) for each in values]
        print("\n".join(local.table(local.BRANCH_HEADS, rows, width)))


@like(local.remove)
def remove(there: There, project: str, force: bool) -> None:
    found = _found(there, project)
    there.client.remove_project(found["id"], force=force)
    print(f"removed {one_line(found['name'])}")


command = click.Group(
    "project",
    commands=[add, list_, pull, branches, remove],
    help=local.command.help,
    short_help=local.command.short_help,
)
