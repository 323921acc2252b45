"""`ags project`: repositories that runs are made on, cloned once or linked as they are."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from ags.cli.invocation import Invocation, engine_of, tell
from ags.cli.options import current_directory, in_home
from ags.errors import AgsError
from ags.paint import as_json, cells, columns, cut, first_line, padded, short_time
from ags.text import one_line

if TYPE_CHECKING:
    from ags.engine import Engine
    from ags.projects import Branch, Project
    from ags.workspace.remote import Pulled

HEADS = ("NAME", "STATE", "CLIENT", "RUNS", "AGE", "FROM", "ID")
BRANCH_HEADS = ("NAME", "RUN", "AGE", "COMMIT", "TITLE")
SHORT = 10
"""Digits of a commit, for a person."""
SHOWN_NAMES = 6


@click.group(short_help="Add repositories to run agents on; list, pull and remove them.")
def command() -> None:
    """Add repositories to run agents on; list, pull and remove them.

    \b
      ags project add https://git.example.org/shop.git
      ags start --project shop fix-login "the login page accepts an empty password"
      ags project pull shop

    A project is cloned once and kept by ags. In a repository of your own you need none: there,
    `ags start` works by itself. `ags project add --here` makes it known as it is, so that the
    page lists it.
    """


@command.command(short_help="Clone a repository, or link your own.")
@click.option("--client", metavar="NAME", default="", help="Whose it is. [default: your own]")
@click.option(
    "--here", is_flag=True, help="Use your own folder as it is, and clone nothing. The default."
)
@click.argument("url", required=False, metavar="[URL|DIR]")
@click.pass_obj
def add(invocation: Invocation, url: str | None, client: str, here: bool) -> None:
    """Clone the repository at URL: https://, ssh://, git@HOST:PATH, or a folder.

    \b
      ags project add https://git.example.org/shop.git
      ags project add git@git.example.org:team/shop.git --client acme
      ags project add --here ~/src/shop
      ags project add

    Private repositories are reached with what your own git has: credential helpers, keys and
    proxies. None of it is stored with the project or gets into a sandbox, and nothing asks: if git
    would, it fails and says what to do.

    Without URL, or with --here, the repository around the current directory, or around DIR, is
    linked: branches and applies land in your own checkout.
    """
    from ags import projects

    with engine_of(invocation) as engine:
        if here or url is None:
            folder = folder_here(invocation, url or ".")
            made = asyncio.run(projects.link(engine.ags_home, folder, client))
        else:
            made = asyncio.run(_added(engine, url, client))
        how = "linked" if made.linked else "cloned"
        print(added(made.name, made.id, how))


def added(name: str, project_id: str, how: str) -> str:
    return f"{name} ({project_id}) is {how}: `ags start --project {name} NAME GOAL`"


def folder_here(invocation: Invocation, given: str) -> Path:
    folder = current_directory() / in_home(given, invocation.home)
    if not folder.is_dir():
        raise AgsError("use --here", subject=folder, cause="there is no such folder")
    return folder


async def _added(engine: Engine, url: str, client: str) -> Project:
    from ags import projects
    from ags.workspace.remote import checked_url

    judged = checked_url(url, current_directory())
    with Line(sys.stderr, engine.environ) as line:
        return await projects.add(engine, judged, client, line.show)


@command.command("list", short_help="List the projects.")
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array.")
@click.option("--client", metavar="NAME", help="Only this client's; `default`: only your own.")
@click.pass_obj
def list_(invocation: Invocation, as_array: bool, client: str | None) -> None:
    """List the projects, in the order in which they were added.

    \b
      ags project list
      ags project list --json | jq -r '.[] | select(.state == "failed") | .url'
    """
    from ags import projects
    from ags.clients import checked_name

    with engine_of(invocation) as engine:
        whose = None if client is None else checked_name(client)
        found = projects.listed(engine.ags_home, whose)
        counts = [len(projects.runs_of(engine, each)) for each in found]
        facts = [_facts(each, count) for each, count in zip(found, counts, strict=True)]
        if as_array:
            print(as_json(facts, indent=1))
        elif not found:
            print("no projects yet: `ags project add URL` clones one")
        else:
            rows = [row(*pair) for pair in zip(found, counts, strict=True)]
            print("\n".join(table(HEADS, rows, columns(sys.stdout, invocation.environ))))
            for each in found:
                if each.error:
                    tell(f"note: {each.name}: {first_line(each.error, 200)}")


@command.command(short_help="Bring in what is new where a project came from.")
@click.argument("project", metavar="NAME|ID")
@click.pass_obj
def pull(invocation: Invocation, project: str) -> None:
    """Bring in what is new where the project came from.

    \b
      ags project pull shop

    Its branches follow as far as nothing of them is lost. One that has commits of its own, or that
    is gone where it came from, stays as it is, and you are told. The branches of runs are never
    touched.
    """
    from ags import projects

    with engine_of(invocation) as engine:
        found = projects.find(engine.ags_home, project)
        pulled = asyncio.run(_pulled(engine, found.id))
        print(brought(found.name, pulled.updated, pulled.new))
        for line in apart(pulled.diverged, pulled.gone):
            tell(f"note: {line}")


async def _pulled(engine: Engine, project_id: str) -> Pulled:
    from ags import projects

    with Line(sys.stderr, engine.environ) as line:
        return await projects.pull(engine, project_id, line.show)


def brought(project: str, updated: Sequence[str], new: Sequence[str]) -> str:
    told = [*names("updated", updated), *names("new", new)]
    return f"{project}: {'; '.join(told) or 'nothing new'}"


def apart(diverged: Sequence[str], gone: Sequence[str]) -> Iterator[str]:
    yield from names("have commits of their own, and stay", diverged)
    yield from names("are gone where they came from, and stay", gone)


def names(label: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        yield f"{label}: {', '.join(map(one_line, names[:SHOWN_NAMES]))}{more}"


@command.command(short_help="List the branches of a project.")
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array.")
@click.argument("project", metavar="NAME|ID")
@click.pass_obj
def branches(invocation: Invocation, project: str, as_array: bool) -> None:
    """List the branches of a project, the latest first; RUN says whose work one is.

    \b
      ags project branches shop
    """
    from ags import projects

    found = projects.find(invocation.ags_home, project)
    there = asyncio.run(projects.branches(found))
    if as_array:
        print(as_json([branch_facts(each) for each in there], indent=1))
    elif not there:
        print(f"{found.name} has no branch yet: there is no commit in it")
    else:
        rows = [branch_row(each) for each in there]
        print("\n".join(table(BRANCH_HEADS, rows, columns(sys.stdout, invocation.environ))))


@command.command(short_help="Remove projects.")
@click.option("--force", is_flag=True, help="With its runs, even if work is lost.")
@click.argument("project", metavar="NAME|ID")
@click.pass_obj
def remove(invocation: Invocation, project: str, force: bool) -> None:
    """Remove a project. Of a linked one only that it is one: your folder and its runs stay.

    \b
      ags project remove shop
      ags project remove --force shop

    A cloned one is not removed while there are runs on it, or commits that are nowhere else,
    unless you say --force; and never while a run on it is at work.
    """
    from ags import projects

    with engine_of(invocation) as engine:
        found = projects.find(engine.ags_home, project)
        asyncio.run(projects.remove(engine, found.id, force=force))
        stays = f"; {one_line(str(found.folder))} stays" if found.linked else ""
        print(f"removed {found.name}{stays}")


class Line:
    """Progress: on a terminal one line that is written anew, elsewhere a line for each stage."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str]) -> None:
        self._stream = stream
        self._live = stream.isatty() and environ.get("TERM") != "dumb"
        self._width = columns(stream, environ)
        self._stage = ""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live and self._stage:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, stage: str, percent: int | None) -> None:
        if self._live:
            text = stage if percent is None else f"{stage} {percent}%"
            self._stream.write(f"\r\x1b[K{cut(text, self._width - 1)}")
        elif stage != self._stage:
            self._stream.write(f"{stage}\n")
        self._stage = stage
        self._stream.flush()


def _facts(project: Project, runs: int) -> dict[str, object]:
    return {
        "id": project.id,
        "name": project.name,
        "url": project.url,
        "client": project.client,
        "state": project.state,
        "error": project.error,
        "linked": project.linked,
        "folder": str(project.folder),
        "added": project.added,
        "runs": runs,
        "apart": {
            "diverged": project.apart.diverged,
            "gone": project.apart.gone,
            "more": project.apart.more,
        },
    }


def row(project: Project, runs: int) -> tuple[str, ...]:
    state = "linked" if project.linked and project.state == "ready" else project.state
    age = short_time(max(0.0, time.time() - project.added))
    words = (project.name, state, project.client, str(runs), age)
    return (*words, one_line(project.url), project.id)


def branch_facts(branch: Branch) -> dict[str, object]:
    return {
        "name": branch.name,
        "commit": branch.commit,
        "title": branch.title,
        "when": branch.when,
        "run": branch.run,
    }


def branch_row(branch: Branch) -> tuple[str, ...]:
    age = short_time(max(0.0, time.time() - branch.when))
    name, title = one_line(branch.name), one_line(branch.title)
    return (name, branch.run or "", age, branch.commit[:SHORT], title)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    table = [heads, *rows]
    widths = [max(cells(row[column]) for row in table) for column in range(len(heads))]
    for row in table:
        words = (padded(*pair) for pair in zip(row, widths, strict=True))
        yield cut("  ".join(words).rstrip(), width)
