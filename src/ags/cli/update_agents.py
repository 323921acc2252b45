"""`ags update-agents`: the agents' programs, installed or brought up to date."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click

from ags import programs
from ags.cli.invocation import Invocation, tell
from ags.errors import AgsError
from ags.kernel.watch import human_size
from ags.programs import Installer


@click.command(short_help="Install agents, or bring them up to date.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--version", metavar="V", default="", help="This version, however new it is. For one agent."
)
@click.pass_obj
def command(invocation: Invocation, names: tuple[str, ...], version: str) -> int:
    """Install agents, or bring them up to date. Without a NAME: all that are installed, or all
    there are if none is.

    \b
      ags update-agents claude
      ags update-agents
      ags update-agents codex --version 0.166.0

    The packages come from the registry of your own npm settings. A version must have been out for
    a day ([update] minimum_release_age). Packages are unpacked and tried in a sandbox, and their
    scripts are not run; one that does not work there leaves the old version as it was.
    """
    wanted = tuple(dict.fromkeys(names)) or _all(invocation.ags_home)
    if version and len(wanted) != 1:
        raise AgsError("use --version", cause="it is for one agent", hint="name that agent")
    for name in wanted:
        programs.program(name)
    maker = installer(invocation)
    failed = [name for name in wanted if not _install(maker, name, version, len(wanted) > 1)]
    return 1 if failed else 0


def installer(invocation: Invocation) -> Installer:
    given = (invocation.environ, invocation.home, invocation.ags_home)
    return Installer.configured(*given, tell, invocation.config)


def _all(ags_home: Path) -> tuple[str, ...]:
    there = tuple(name for name in programs.names() if programs.versions(ags_home, name))
    return there or programs.names()


def _install(maker: Installer, name: str, version: str, go_on: bool) -> bool:
    """With others to come, a failure is told and they have their turn."""
    started = time.monotonic()
    try:
        done = asyncio.run(maker.install(name, version))
    except AgsError as error:
        if not go_on:
            raise
        tell(f"{name}: {error}" + (f"\n  try: {error.hint}" if error.hint else ""))
        return False
    took = time.monotonic() - started
    if done.new:
        size = human_size(done.installed.size)
        print(f"{name} {done.installed.version} installed ({size}, {took:.0f} s)")
    else:
        print(f"{name} {done.installed.version} is installed already")
    return True
