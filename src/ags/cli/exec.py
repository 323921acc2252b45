"""`ags exec`: one command in a sandbox on the current directory."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ags.backends import backend
from ags.cli import options
from ags.cli.invocation import Invocation
from ags.cli.options import Flags, sandbox_options
from ags.cli.terminal import Terminal, look
from ags.config.load import settings_folder
from ags.errors import AgsError, ConfigError
from ags.prepare import Preparer, Request
from ags.text import plain

if TYPE_CHECKING:
    from ags.egress.audit import Line
    from ags.network import Network

OWN_FAILURE = 125
"""The exit code of a failure that is ours and not the command's, as container engines have it."""


@click.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    short_help="Run one command in a sandbox on the current directory.",
)
@sandbox_options
@click.option(
    "-i",
    "--interactive",
    is_flag=True,
    help="Pass the keyboard on although the output goes into a pipe.",
)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="PATH", help="Use this settings file."
)
@click.option("--debug", is_flag=True, help="Tell what is mounted and what limits hold, on stderr.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    command: tuple[str, ...],
    interactive: bool,
    config: Path | None,
    debug: bool,
    **given: object,
) -> int:
    """Run COMMAND in a sandbox on the current directory.

    Inside, the command finds the repository around the current directory (or just the directory),
    the system's programs and your toolchains, an empty home, and no network. It can write to the
    repository, except to its git folder and to the settings of editors and agents in it.

    \b
      ags exec -- make test
      ags exec --memory 2G --timeout 10m -- npm test
      ags exec -- bash

    Exit code: the command's own; 124 after --timeout; 125 when AGS itself could not run it.
    """
    try:
        flags = Flags.of(given)
        settings = options.settings(invocation, flags, config)
        preparer = Preparer(
            environ=invocation.environ,
            home=invocation.home,
            ags_home=invocation.ags_home,
            settings=settings,
            folder=settings_folder(invocation.environ, invocation.home),
            tell=lambda line: _tell([line]),
        )
        request = Request(
            run=f"exec-{os.urandom(3).hex()}",
            command=command,
            cwd=Path(),
            mounts=options.mounts(invocation, flags),
            environment=options.environment(invocation, flags),
            ptrace=flags.ptrace,
        )
        network = _network(invocation, flags, request.run)
        if network is not None:
            request = replace(request, network=network.plan())
        name = flags.backend or settings.sandbox.backend
        debug = debug or invocation.debug
        return asyncio.run(
            _run(preparer, request, name, network, interactive=interactive, debug=debug)
        )
    except AgsError as error:
        error.exit_code = OWN_FAILURE
        error.hint = error.hint or _way_on(error)
        raise


def _way_on(error: AgsError) -> str:
    """For a cause that says all there is to say; still nobody is left without a next step."""
    if isinstance(error, ConfigError):
        return "correct it there, or use another file with `--config PATH`"
    return "`ags exec --help` tells what can be given, `ags doctor` what this machine can do"


def _network(invocation: Invocation, flags: Flags, run: str) -> Network | None:
    """Only for who asks for one: a command is sealed, unlike an agent."""
    if flags.no_network or not (flags.allow or flags.policy):
        return None
    from ags.egress import layers
    from ags.egress.fence import Terms
    from ags.network import Network

    found = layers.layers(
        "shell",
        user_file=settings_folder(invocation.environ, invocation.home) / "policy.yaml",
        run_file=flags.policy,
        allow=flags.allow,
        environ=invocation.environ,
        home=invocation.home,
    )
    refused: set[tuple[str, int]] = set()

    def record(line: Line) -> None:
        if not line.allowed and (line.host, line.port) not in refused:
            refused.add((line.host, line.port))
            _tell([f"refused: {line.host}:{line.port} ({line.reason})"])

    return Network(run, Terms(found), environ=invocation.environ, record=record)


async def _run(
    preparer: Preparer,
    request: Request,
    name: str,
    network: Network | None,
    *,
    interactive: bool,
    debug: bool,
) -> int:
    terminal = Terminal(look(interactive))
    try:
        with await preparer.prepare(request) as prepared:
            _tell(f"note: {note}" for note in prepared.notes if debug)
            _tell(f"weakened: {each.name}: {each.detail}" for each in prepared.plan.weakenings)
            if network is not None:
                network.get_ready()
            sandbox = await backend(name).launch(prepared.plan, terminal.open())
            if debug:
                _tell(f"mount: {step}" for step in prepared.plan.mounts)
                _tell([f"limits: {prepared.plan.limits}, held by {sandbox.limited_by}"])
            try:
                if network is not None:
                    await network.open(sandbox)
                await sandbox.release()
                await terminal.accompany(sandbox)
            except BaseException:
                await sandbox.kill()
                raise
            finally:
                if network is not None:
                    await network.close()
            ending = await sandbox.wait()
            warnings = tuple(prepared.warnings())
    finally:
        terminal.close()
    _tell(warnings)
    if ending.stopped_by:
        _tell([f"stopped: {ending.stopped_by}"])
    return ending.code


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"ags: {plain(line)}", file=sys.stderr)
