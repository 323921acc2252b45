"""`ags agents`: what is installed, and whether it can talk to its model."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

import click

from ags import programs
from ags.cli.invocation import Invocation, tell
from ags.cli.update_agents import installer
from ags.errors import AgsError
from ags.kernel.watch import human_size
from ags.paint import as_json, cells, padded, paint_for
from ags.programs import Installer
from ags.programs.listing import Row, row
from ags.text import one_line

HEADS = ("AGENT", "INSTALLED", "NEWEST", "LOG-IN", "SIZE")


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
    given = (maker.environ, maker.home, maker.ags_home, maker.settings)
    rows = [row(name, *given) for name in programs.names()]
    newest = {name: _newest(maker, name) for name in programs.names()} if check else {}
    if as_array:
        print(as_json([_entry(each, newest.get(each.name)) for each in rows], indent=1))
        return
    paint = paint_for(sys.stdout, invocation.environ)
    shown = [_words(each, newest) for each in rows]
    heads = HEADS if check else tuple(head for head in HEADS if head != "NEWEST")
    widths = [max(cells(line[at]) for line in (heads, *shown)) for at in range(len(heads))]
    for number, line in enumerate((heads, *shown)):
        text = "  ".join(padded(*pair) for pair in zip(line, widths, strict=True)).rstrip()
        print(text if number else paint(text, "dim"))
    for each in rows:
        if each.problem:
            print(paint(f"{each.name}: {one_line(each.problem)}", "red"))
    if not any(each.installed or each.problem for each in rows):
        print("none is installed yet: `ags update-agents NAME`")


def _newest(maker: Installer, name: str) -> str | None:
    try:
        return asyncio.run(maker.newest(name))
    except AgsError as error:
        tell(f"{name}: {error}")
        return None


def _words(agent: Row, newest: Mapping[str, str | None]) -> tuple[str, ...]:
    found = agent.installed
    version = found.version if found else "damaged" if agent.problem else "-"
    later = (newest[agent.name] or "not known",) if newest else ()
    size = human_size(found.size) if found else "-"
    keys = str(agent.login) if agent.login.keys else ""
    known = ", ".join(filter(None, (keys, agent.subscription)))
    return (agent.name, version, *later, known or "none", size)


def _entry(agent: Row, newest: str | None) -> dict[str, object]:
    found = agent.installed
    return {
        "agent": agent.name,
        "installed": found.version if found else None,
        "problem": agent.problem or None,
        "newest": newest,
        "keys": [{"variable": name, "where": where} for name, where in agent.login.keys],
        "login": agent.subscription or None,
        "size": found.size if found else None,
        "folder": str(found.folder) if found else None,
    }
