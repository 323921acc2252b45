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
from ags.egress import reasons
from ags.errors import AgsError, ConfigError
from ags.model import not_held
from ags.prepare import Preparer, Request
from ags.text import plain

if TYPE_CHECKING:
    from ags.egress.audit import Line
    from ags.network import Network

AGENT = "shell"
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

    Exit code: the command's own; 124 after --timeout; 125 when AGS itself could not run it; 2 when
    these words are not understood.
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
        name = flags.backend or settings.sandbox.backend
        debug = debug or invocation.debug
        return asyncio.run(
            _whole(invocation, flags, preparer, request, name, interactive=interactive, debug=debug)
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


async def _whole(
    invocation: Invocation,
    flags: Flags,
    preparer: Preparer,
    request: Request,
    name: str,
    *,
    interactive: bool,
    debug: bool,
) -> int:
    network = None
    # Only for who asks for one: a command is sealed, unlike an agent.
    if not flags.no_network and (flags.allow or flags.policy):
        network, request = await _fenced(invocation, flags, preparer, request)
    return await accompanied(preparer, request, name, network, interactive=interactive, debug=debug)


async def _fenced(
    invocation: Invocation, flags: Flags, preparer: Preparer, request: Request
) -> tuple[Network, Request]:
    """The fence, and what is asked for with what the fence puts inside."""
    from ags import clients, secrets
    from ags.egress import company, indexes, layers, tools
    from ags.egress.fence import Terms
    from ags.egress.wiring import wire
    from ags.network import Network, extra_roots

    settings, environ = preparer.settings, invocation.environ
    apart = tools.written_here(invocation.ags_home)
    mounted = (*settings.mounts, *(each for _, each in request.mounts))
    wiring = await wire(settings.secrets, AGENT, environ, invocation.ags_home)
    found = await layers.whole(
        AGENT,
        user_file=layers.policy_file(environ, invocation.home),
        run_file=flags.policy,
        allow=flags.allow,
        environ=environ,
        home=invocation.home,
        apart=apart,
        written=(*apart, *(each.host for each in mounted if each.mode == "rw")),
        secrets=wiring.hosts,
    )
    kept = secrets.store(clients.secrets(invocation.ags_home, ""), environ)
    proxy = await company.configured(settings.network, kept, environ)
    terms = Terms(found.policy, wiring.injections, wiring.placeholders)
    network = Network(
        request.run,
        terms,
        environ=environ,
        extra=extra_roots(settings.network.ca),
        record=Refusals().record,
        secret=wiring.lookup,
        proxy=proxy,
        ags_home=invocation.ags_home,
    )
    learnt = await indexes.learn(network.fence, found.indexes)
    network.fence.terms = replace(terms, policy=indexes.extended(found.policy, learnt))
    return network, replace(
        request,
        network=network.plan(),
        environment=(*request.environment, *wiring.inside().items()),
        weakenings=(
            *request.weakenings,
            *wiring.weakenings,
            *((proxy.weakening,) if proxy else ()),
        ),
    )


class Refusals:
    """Told as they come, each once."""

    def __init__(self) -> None:
        self._told: set[tuple[str, int, str]] = set()

    def record(self, line: Line) -> None:
        if line.allowed or (line.host, line.port, line.reason) in self._told:
            return
        self._told.add((line.host, line.port, line.reason))
        hint = reasons.hint(line.reason)
        _tell([f"refused: {line.host}:{line.port} ({line.reason}{f': {hint}' if hint else ''})"])


async def accompanied(
    preparer: Preparer,
    request: Request,
    name: str,
    network: Network | None,
    *,
    interactive: bool,
    debug: bool,
) -> int:
    """Run it at this terminal, or between these pipes, to its end; its exit code."""
    terminal = Terminal(look(interactive))
    try:
        with await preparer.prepare(request) as prepared:
            _tell(f"note: {note}" for note in prepared.notes if debug)
            _tell(f"weakened: {each.name}: {each.detail}" for each in prepared.plan.weakenings)
            if network is not None:
                network.get_ready()
            sandbox = await backend(name).launch(prepared.plan, terminal.open())
            if missing := not_held(prepared.plan.limits, sandbox.limited_by):
                _tell([f"note: {missing}"])
            if debug:
                _tell(f"mount: {step}" for step in prepared.plan.mounts)
                _tell([f"limits: {prepared.plan.limits}, held by {sandbox.limited_by}"])
            try:
                if network is not None:
                    await network.open(sandbox)
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
