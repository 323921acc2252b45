"""`ags client`: whose work the runs are, what is kept of each of them, and an end to it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator

import click

from ags import runs
from ags.agents import AGENTS
from ags.cli.invocation import Invocation, tell, telling
from ags.cli.question import agreed
from ags.clients import Cabinet, Kept, checked_name
from ags.errors import AgsError
from ags.paint import as_json, columns, first_line
from ags.runs import Run
from ags.shelf import Shelf
from ags.text import one_line

LABEL = 11
HEADS = ("NAME", "RUNS", "AT WORK", "HOMES", "SECRETS", "POLICY")


@click.group(short_help="List and remove clients, whose work never meets.")
def command() -> None:
    """List, show and remove clients: those whose work is kept apart.

    \b
      ags --client acme ~/src/acme
      ags client show acme

    A client is there as soon as something of it is: a run, a secret, or a folder in
    ~/.config/ags/clients with a policy.yaml or a config.toml.
    """


@command.command("list", short_help="List the clients.")
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def list_(invocation: Invocation, as_array: bool) -> None:
    """List the clients, and how much is kept of each.

    \b
      ags client list
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        cabinet, found = _cabinet(invocation), _runs(shelf)
        facts = [
            _facts(cabinet, cabinet.kept(name, AGENTS), _of(found, name))
            for name in cabinet.names(run.order.client for run in found)
        ]
        if as_array:
            print(as_json(facts, indent=1))
        elif not facts:
            print("no clients yet: `ags --client NAME` begins one")
        else:
            print("\n".join(_table(facts, columns(sys.stdout, invocation.environ))))


@command.command(short_help="Tell what is kept of a client.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object.")
@click.argument("name")
@click.pass_obj
def show(invocation: Invocation, name: str, as_object: bool) -> None:
    """Tell what is kept of the client NAME, and where. Of secrets only the names are told.

    \b
      ags client show acme
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        cabinet, kept, found = _looked_up(invocation, shelf, name)
        if as_object:
            print(as_json(_facts(cabinet, kept, found), indent=1))
            return
        print(kept.name)
        for label, text in _told(cabinet, kept):
            print(f"{label:<{LABEL}}{one_line(text)}")
        working = [run.name for run in found if not run.is_final]
        if working:
            print(f"{'at work':<{LABEL}}{', '.join(working)}")
        print(f"{'runs':<{LABEL}}{len(found)}: `ags list --client {kept.name}`")


@command.command(short_help="Remove what is kept of a client.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("name")
@click.pass_obj
def remove(invocation: Invocation, name: str, yes: bool) -> int:
    """Remove what is kept of the client NAME: homes with conversations and history, secrets,
    log-ins, policy, settings and approvals. Its runs stay until `ags rm`.

    \b
      ags client remove acme
      ags client remove --yes acme

    A client that has a run at work is not removed; stop it first.
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        cabinet, kept, found = _looked_up(invocation, shelf, name)
        _check_idle(kept.name, found)
        if not kept:
            print(f"nothing is kept of {kept.name} but its runs")
        elif not _is_agreed(cabinet, kept, yes=yes):
            return 1
        else:
            # Somebody may have begun one while the person thought about it.
            _check_idle(kept.name, _of(_runs(shelf), kept.name))
            left = asyncio.run(cabinet.remove(kept))
            print(f"removed {kept.name}")
            for folder in left:
                tell(f"note: {folder} stays: there is something in it that ags did not make")
        if found:
            names = " ".join(run.name for run in found[:3]) + (" ..." if len(found) > 3 else "")
            tell(f"note: its runs and their logs stay: `ags rm {names}`")
        return 0


def _looked_up(
    invocation: Invocation, shelf: Shelf, given: str
) -> tuple[Cabinet, Kept, tuple[Run, ...]]:
    name = checked_name(given)
    if not name:
        cause = "that is your own work, and no client's"
        raise AgsError("find the client", subject=given, cause=cause)
    cabinet, found = _cabinet(invocation), _of(_runs(shelf), name)
    if name not in cabinet.names(run.order.client for run in found):
        cause, hint = "there is nothing of a client of this name", "see `ags client list`"
        raise AgsError("find the client", subject=name, cause=cause, hint=hint)
    return cabinet, cabinet.kept(name, AGENTS), found


def _cabinet(invocation: Invocation) -> Cabinet:
    return Cabinet(invocation.ags_home, invocation.environ, invocation.home)


def _runs(shelf: Shelf) -> tuple[Run, ...]:
    shelf.sweep()
    found, damaged = runs.load_all(shelf.ags_home)
    shelf.notes += (f"run {each.id} is damaged: whose it is cannot be told" for each in damaged)
    return tuple(found)


def _of(found: tuple[Run, ...], name: str) -> tuple[Run, ...]:
    return tuple(run for run in found if run.order.client == name)


def _check_idle(name: str, found: tuple[Run, ...]) -> None:
    working = [run.name for run in found if not run.is_final]
    if working:
        cause = f"at work: {', '.join(working)}"
        hint = f"`ags stop {working[0]}` first"
        raise AgsError("remove the client", subject=name, cause=cause, hint=hint)


def _is_agreed(cabinet: Cabinet, kept: Kept, *, yes: bool) -> bool:
    if yes:
        return True
    if not os.isatty(0):
        cause, hint = "there is nobody to ask", f"`ags client remove --yes {kept.name}`"
        raise AgsError("remove the client", subject=kept.name, cause=cause, hint=hint)
    print("this goes, for good:")
    for label, text in _told(cabinet, kept):
        print(f"  {label:<{LABEL}}{one_line(text)}")
    return agreed(f"remove {kept.name}?")


def _told(cabinet: Cabinet, kept: Kept) -> Iterator[tuple[str, str]]:
    for home in kept.homes:
        yield "home", str(home)
    if names := [name for name, _ in cabinet.store(kept.name).list()]:
        yield "secrets", ", ".join(names)
    if kept.logins:
        yield "log-ins", str(kept.logins)
    for file in kept.settings:
        yield "policy" if file.suffix == ".yaml" else "settings", str(file)
    for project in kept.approved:
        yield "approved", f"what {project} brings for agents"


def _facts(cabinet: Cabinet, kept: Kept, found: tuple[Run, ...]) -> dict[str, object]:
    return {
        "name": kept.name,
        "runs": len(found),
        "working": sum(not run.is_final for run in found),
        "homes": [home.name for home in kept.homes],
        "secrets": [name for name, _ in cabinet.store(kept.name).list()],
        "logins": kept.logins is not None,
        "settings": [str(file) for file in kept.settings],
        "approved": [str(project) for project in kept.approved],
    }


def _table(facts: list[dict[str, object]], width: int) -> Iterator[str]:
    rows = [HEADS, *map(_row, facts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    for row in rows:
        words = (f"{word:<{size}}" for word, size in zip(row, widths, strict=True))
        yield first_line("  ".join(words).rstrip(), width)


def _row(facts: dict[str, object]) -> tuple[str, ...]:
    homes, secrets, settings = (facts[key] for key in ("homes", "secrets", "settings"))
    assert isinstance(homes, list) and isinstance(secrets, list) and isinstance(settings, list)
    own = any(each.endswith(".yaml") for each in settings)
    counts = (str(facts["runs"]), str(facts["working"]), ", ".join(homes), str(len(secrets)))
    return (str(facts["name"]), *counts, "own" if own else "")
