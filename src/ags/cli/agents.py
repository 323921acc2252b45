"""`ags agents`: what is installed, and whether it can talk to its model."""

from __future__ import annotations

import asyncio
import sys

import click

from ags import programs
from ags.cli.invocation import Invocation, tell
from ags.cli.paint import as_json, cells, padded, paint_for
from ags.cli.update_agents import installer
from ags.errors import AgsError
from ags.frozen import frozen
from ags.kernel.watch import human_size
from ags.logins import state as logins
from ags.programs import Installed, Installer, Login
from ags.text import one_line

HEADS = ("AGENT", "INSTALLED", "NEWEST", "LOG-IN", "SIZE")


@frozen
class Row:
    """One agent."""

    name: str
    installed: Installed | None
    problem: str
    """Why what is installed cannot be used."""
    newest: str | None
    """None: not asked for, or not known."""
    login: Login
    subscription: str
    """What is known of a log-in; empty if there is none."""


@click.command(short_help="List the agents: what is installed, and their log-ins.")
@click.option("--check", is_flag=True, help="Ask the registry which version is the newest.")
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def command(invocation: Invocation, check: bool, as_array: bool) -> None:
    """List the agents: which version is installed, and which of their keys is there.

    \b
      ags agents
      ags agents --check
      ags agents --json | jq -r '.[] | select(.installed) | .agent'

    NEWEST is the version that `ags update-agents` would install now. Of keys only the names are
    looked at.
    """
    maker = installer(invocation)
    rows = [_row(maker, name, check) for name in programs.names()]
    if as_array:
        print(as_json([_entry(row) for row in rows], indent=1))
        return
    paint = paint_for(sys.stdout, invocation.environ)
    shown = [_words(row, check) for row in rows]
    heads = HEADS if check else tuple(head for head in HEADS if head != "NEWEST")
    widths = [max(cells(line[at]) for line in (heads, *shown)) for at in range(len(heads))]
    for number, line in enumerate((heads, *shown)):
        text = "  ".join(padded(*pair) for pair in zip(line, widths, strict=True)).rstrip()
        print(text if number else paint(text, "dim"))
    for row in rows:
        if row.problem:
            print(paint(f"{row.name}: {one_line(row.problem)}", "red"))
    if not any(row.installed or row.problem for row in rows):
        print("none is installed yet: `ags update-agents NAME`")


def _row(maker: Installer, name: str, check: bool) -> Row:
    found, problem = None, ""
    try:
        found = programs.current(maker.ags_home, name)
    except AgsError as error:
        problem = f"{error}; {error.hint}"
    login = programs.login_state(name, maker.environ, maker.ags_home, maker.settings)
    held = logins.found(name, maker.home, maker.ags_home, "", maker.environ)
    subscription = "" if held.where == "none" else str(held)
    newest = _newest(maker, name) if check else None
    return Row(name, found, problem, newest, login, subscription)


def _newest(maker: Installer, name: str) -> str | None:
    try:
        return asyncio.run(maker.newest(name))
    except AgsError as error:
        tell(f"{name}: {error}")
        return None


def _words(row: Row, check: bool) -> tuple[str, ...]:
    version = row.installed.version if row.installed else "damaged" if row.problem else "-"
    newest = (row.newest or "not known",) if check else ()
    size = human_size(row.installed.size) if row.installed else "-"
    known = ", ".join(filter(None, (str(row.login) if row.login.keys else "", row.subscription)))
    return (row.name, version, *newest, known or "none", size)


def _entry(row: Row) -> dict[str, object]:
    found = row.installed
    return {
        "agent": row.name,
        "installed": found.version if found else None,
        "problem": row.problem or None,
        "newest": row.newest,
        "keys": [{"variable": name, "where": where} for name, where in row.login.keys],
        "login": row.subscription or None,
        "size": found.size if found else None,
        "folder": str(found.folder) if found else None,
    }
