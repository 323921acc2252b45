"""`ags --server URL start`."""

from __future__ import annotations

import sys

import click

from ags import runs
from ags.cli import start as local
from ags.cli.options import Flags
from ags.cli.remote.following import accompany
from ags.cli.remote.project import meant
from ags.cli.remote.verb import There, like
from ags.errors import AgsError
from ags.text import one_line

LIMITS = ("memory", "cpus", "pids", "timeout")
HERE = (
    "mounts",
    "writable",
    "folders",
    "variables",
    "policy",
    "ptrace",
    "defaults",
    "yolo",
    "login",
)
"""What only the command line of the server's own machine may ask for."""

PROJECT = click.Option(
    ("--project", "-p"),
    metavar="PROJECT",
    help="One that the server knows, by its name or id, or a folder of its machine. [default, if"
    " that is this machine: the repository around the current directory]",
)


@like(local.command, PROJECT)
def command(
    there: There,
    name: str,
    goal: str,
    agent: str,
    project: str | None,
    base: str,
    detach: bool,
    config: object,
    attempts: int,
    **given: object,
) -> int:
    flags = Flags.of(given)
    _check(flags, config)
    runs.checked_name(name)
    made = there.client.start(
        project=_project(there, project),
        goal=sys.stdin.read() if goal == "-" else goal,
        agent=agent,
        name=name,
        base=base,
        client=flags.client,
        model=flags.model,
        backend=flags.backend,
        limits={each: text for each in LIMITS if (text := getattr(flags, each)) is not None},
        network=not flags.no_network,
        allow=flags.allow,
        ask=flags.ask,
        publish=flags.publish,
        attempts=attempts,
    )
    if attempts > 1:
        for each in made:
            print(f"{one_line(each['name'])} is at work")
        print(local.several_at_work(name))
        return 0
    started = one_line(made[0]["name"])
    if detach:
        print(local.at_work(started))
        return 0
    return accompany(there, started)


def _check(flags: Flags, config: object) -> None:
    usual = Flags()
    refused = [name for name in HERE if getattr(flags, name) != getattr(usual, name)]
    if config is not None or refused:
        flag = _flag("config" if config is not None else refused[0])
        raise AgsError(
            f"use {flag} with a server",
            cause="what it names is on this machine, or is for the server's own settings to say",
            hint="leave it out, or start the run on the server's machine",
        )


def _flag(name: str) -> str:
    """As it is written."""
    found = next(each for each in local.command.params if each.name == name)
    return max(found.opts, key=len)


def _project(there: There, given: str | None) -> str:
    if given is None and not there.is_here:
        cause, hint = "the server is not on this machine", "--project ID; see `ags project list`"
        raise AgsError("use the current directory", cause=cause, hint=hint)
    return meant(there, given or ".")
