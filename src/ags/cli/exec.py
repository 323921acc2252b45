"""`ags exec`: one command in a sandbox on the current directory."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import click

from ags.backends import BACKENDS, backend
from ags.cli.invocation import Invocation
from ags.cli.terminal import Terminal, look
from ags.config import values
from ags.config.load import load, settings_folder
from ags.config.schema import MountConfig, Settings, parse_mount_flag
from ags.engine import Engine, Request
from ags.errors import AgsError, ConfigError
from ags.text import plain

OWN_FAILURE = 125
"""The exit code of a failure that is ours and not the command's, as container engines have it."""


@click.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    short_help="Run one command in a sandbox on the current directory.",
)
@click.option(
    "--mount",
    "mounts",
    multiple=True,
    metavar="HOST[:TARGET]",
    help="Show a file or folder inside, read-only. Repeatable.",
)
@click.option(
    "--mount-rw",
    "writable",
    multiple=True,
    metavar="HOST[:TARGET]",
    help="The same, but the command may change it. Repeatable.",
)
@click.option(
    "-d",
    "--add-dir",
    "folders",
    multiple=True,
    metavar="PATH",
    help="A further folder to work on, at its own path, writable. Repeatable.",
)
@click.option(
    "-e",
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Set a variable inside, or pass yours. Repeatable.",
)
@click.option("--memory", metavar="SIZE", help="Such as 2G, 50%, none. [default: 75%]")
@click.option("--cpus", metavar="N", help="Such as 1.5, none. [default: none]")
@click.option("--pids", metavar="N", help="Processes and threads. [default: 4096]")
@click.option("--timeout", metavar="TIME", help="Such as 90s, 10m, none. [default: none]")
@click.option("--ptrace", is_flag=True, help="Let processes inside debug one another.")
@click.option(
    "-i",
    "--interactive",
    is_flag=True,
    help="Pass the keyboard on although the output goes into a pipe.",
)
@click.option(
    "--backend",
    "backend_name",
    type=click.Choice(list(BACKENDS)),
    help="What the sandbox is made with. [default: bubblewrap]",
)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="PATH", help="Use this settings file."
)
@click.option("--debug", is_flag=True, help="Tell what is mounted and what limits hold, on stderr.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
@click.pass_obj
def command(
    invocation: Invocation,
    command: tuple[str, ...],
    mounts: tuple[str, ...],
    writable: tuple[str, ...],
    folders: tuple[str, ...],
    variables: tuple[str, ...],
    memory: str | None,
    cpus: str | None,
    pids: str | None,
    timeout: str | None,
    ptrace: bool,
    interactive: bool,
    backend_name: str | None,
    config: Path | None,
    debug: bool,
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
        settings = _limited(
            load(config or invocation.config, invocation.environ, invocation.home),
            memory=memory,
            cpus=cpus,
            pids=pids,
            timeout=timeout,
        )
        engine = Engine(
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
            mounts=_mounts(invocation, mounts, writable, folders),
            environment=tuple(_variable(given, invocation) for given in variables),
            ptrace=ptrace,
        )
        name = backend_name or settings.sandbox.backend
        debug = debug or invocation.debug
        return asyncio.run(_run(engine, request, name, interactive=interactive, debug=debug))
    except AgsError as error:
        error.exit_code = OWN_FAILURE
        error.hint = error.hint or _way_on(error)
        raise


def _way_on(error: AgsError) -> str:
    """For a cause that says all there is to say; still nobody is left without a next step."""
    if isinstance(error, ConfigError):
        return "correct it there, or use another file with `--config PATH`"
    return "`ags exec --help` tells what can be given, `ags doctor` what this machine can do"


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise AgsError(
            "use the current directory", cause="it was removed", hint="`cd` to one that is there"
        ) from error


def _mounts(
    invocation: Invocation,
    mounts: tuple[str, ...],
    writable: tuple[str, ...],
    folders: tuple[str, ...],
) -> tuple[tuple[str, MountConfig], ...]:
    home, cwd = invocation.home, _cwd()

    def parsed(given: str, flag: str, *, rw: bool) -> tuple[str, MountConfig]:
        return flag, parse_mount_flag(given, rw, home=home, cwd=cwd, subject=flag)

    return (
        *(parsed(given, "--mount", rw=False) for given in mounts),
        *(parsed(given, "--mount-rw", rw=True) for given in writable),
        *(
            ("--add-dir", MountConfig(host=cwd / _in_home(given, home), mode="rw"))
            for given in folders
        ),
    )


def _in_home(given: str, home: Path) -> Path:
    """A shell leaves the `~` of `--add-dir=~/x` to us."""
    first, _, rest = given.partition("/")
    return home / rest.lstrip("/") if first == "~" else Path(given)


def _variable(given: str, invocation: Invocation) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not name.isidentifier() or not name.isascii():
        raise AgsError(
            "use --env",
            subject=given,
            cause="that is no name of a variable",
            hint="NAME=VALUE, or NAME to pass yours; letters, digits and _ make a name",
        )
    if not equals and name not in invocation.environ:
        raise AgsError(
            "use --env",
            subject=name,
            cause="you have no such variable to pass on",
            hint=f"export it first, or give the value: --env {name}=VALUE",
        )
    return name, value if equals else invocation.environ[name]


PARSERS = {
    "memory": values.parse_memory,
    "cpus": values.parse_cpus,
    "pids": values.parse_pids,
    "timeout": values.parse_timeout,
}


def _limited(settings: Settings, **flags: str | None) -> Settings:
    """The settings, with what the flags say in the place of their limits."""
    given = {
        name: PARSERS[name](text, f"--{name}") for name, text in flags.items() if text is not None
    }
    return replace(settings, limits=replace(settings.limits, **given))  # type: ignore[arg-type]


async def _run(
    engine: Engine, request: Request, name: str, *, interactive: bool, debug: bool
) -> int:
    terminal = Terminal(look(interactive))
    try:
        with await engine.prepare(request) as prepared:
            _tell(f"note: {note}" for note in prepared.notes if debug)
            _tell(f"weakened: {each.name}: {each.detail}" for each in prepared.plan.weakenings)
            sandbox = await backend(name).launch(prepared.plan, terminal.open())
            if debug:
                _tell(f"mount: {step}" for step in prepared.plan.mounts)
                _tell([f"limits: {prepared.plan.limits}, held by {sandbox.limited_by}"])
            try:
                await sandbox.release()
                await terminal.accompany(sandbox)
            except BaseException:
                await sandbox.kill()
                raise
            ending = await sandbox.wait()
            replaced, made = prepared.replaced(), prepared.new_repositories()
    finally:
        terminal.close()
    _tell(
        f"look at {path}: it was replaced during the run, and from then on could be changed inside"
        for path in replaced
    )
    _tell(
        f"look at {path} before you use git there: the run made this repository, and git obeys it"
        for path in made
    )
    if ending.stopped_by:
        _tell([f"stopped: {ending.stopped_by}"])
    return ending.code


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"ags: {plain(line)}", file=sys.stderr)
