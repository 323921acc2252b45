"""`ags trust`: what a repository brings for agents, seen and approved."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ags.agents import AGENTS, agent
from ags.cli.invocation import Invocation
from ags.cli.question import agreed
from ags.cli.start import folder as named_folder
from ags.clients import checked_name
from ags.config import trust
from ags.errors import AgsError
from ags.places import make_state_folder
from ags.text import one_line
from ags.workspace.root import find_root


@click.command(short_help="Approve what a repository brings for agents: settings, hooks, servers.")
@click.option("--client", default="default", metavar="NAME", help="For this client's runs.")
@click.option("--yes", is_flag=True, help="Approve without being asked.")
@click.option("--forget", is_flag=True, help="Take an approval back.")
@click.argument("folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path))
@click.pass_obj
def command(
    invocation: Invocation, client: str, yes: bool, forget: bool, folder: Path | None
) -> int:
    """Show what the repository around DIR (default: here) brings for agents, and approve it.

    \b
      ags trust
      ags trust --client acme ~/src/project --yes
      ags trust --forget

    Settings, hooks, plugins and MCP servers in a repository can run programs and change how an
    agent behaves. Until you approve them a run finds empty files in their place. An approval is
    for exactly what is there now: when a byte of it changes, you are asked again.

    Exit code: 0 if it is approved, or if there is nothing to approve; 1 if it is not.
    """
    client = checked_name(client)
    start = named_folder(invocation, folder, "this folder").resolve()
    top = _top(start, invocation)
    if forget:
        was = trust.forget(invocation.ags_home, client, top)
        print(f"{top}: {'approval taken back' if was else 'nothing was approved'}")
        return 0
    wanted = {path for name in AGENTS for path in agent(name).settings}
    found = trust.supplied(top, sorted(wanted), str(start.relative_to(top)))
    if not found.files:
        print(f"{top} brings nothing for agents")
        return 0
    for file in found.files:
        print(f"  {one_line(file)}")
    if trust.approved(invocation.ags_home, client, top, found):
        print("approved")
        return 0
    if not yes and not _asked():
        return 1
    make_state_folder(invocation.ags_home)
    trust.approve(invocation.ags_home, client, top, found)
    print("approved, as it is now")
    return 0


def _top(start: Path, invocation: Invocation) -> Path:
    stop = frozenset((invocation.home.resolve(), Path("/")))
    return find_root(start, os.stat(start).st_uid, stop)


def _asked() -> bool:
    if not sys.stdin.isatty():
        raise AgsError(
            "approve it", cause="nobody can be asked here", hint="look at it, then give --yes"
        )
    return agreed("Let agents use these?")
