"""What `exec`, `start` and `--agent` have in common: the flags that say what a run may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from ags import clients
from ags.backends import BACKENDS
from ags.cli.invocation import Invocation
from ags.config.limits import PARSERS, limited
from ags.config.load import load
from ags.config.schema import MountConfig, Settings, parse_mount_flag
from ags.errors import AgsError
from ags.frozen import frozen

F = TypeVar("F", bound=Callable[..., Any])

USUAL = "claude"
"""Who does it, if nobody is named."""

_OPTIONS = (
    click.option(
        "--mount",
        "mounts",
        multiple=True,
        metavar="HOST[:TARGET]",
        help="Show a file or folder inside, read-only. Repeatable.",
    ),
    click.option(
        "--mount-rw",
        "writable",
        multiple=True,
        metavar="HOST[:TARGET]",
        help="The same, but it may be changed inside. Repeatable.",
    ),
    click.option(
        "-d",
        "--add-dir",
        "folders",
        multiple=True,
        metavar="PATH",
        help="A further folder to work on, at its own path, writable. Repeatable.",
    ),
    click.option(
        "-e",
        "--env",
        "variables",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Set a variable inside, or pass yours. Repeatable.",
    ),
    click.option("--memory", metavar="SIZE", help="Such as 2G, 50%, none. [default: 75%]"),
    click.option("--cpus", metavar="N", help="Such as 1.5, none. [default: none]"),
    click.option("--pids", metavar="N", help="Processes and threads. [default: 4096]"),
    click.option("--timeout", metavar="TIME", help="Such as 90s, 10m, none. [default: none]"),
    click.option(
        "--allow",
        multiple=True,
        metavar="DOMAIN",
        help="Let it reach this name too, such as api.example.com or *.example.com. Repeatable.",
    ),
    click.option(
        "--policy",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A policy for this run, on top of ~/.config/ags/policy.yaml.",
    ),
    click.option(
        "--ask/--no-ask", default=None, help="Let a refused request wait for your answer."
    ),
    click.option(
        "--publish",
        multiple=True,
        type=click.IntRange(1, 65535),
        metavar="PORT",
        help="Bring a port of it to this machine's loopback. Repeatable.",
    ),
    click.option("--no-network", is_flag=True, help="No network at all."),
    click.option("--firewall", is_flag=True, hidden=True, help="It is always on."),
    click.option("--ptrace", is_flag=True, help="Let processes inside debug one another."),
    click.option(
        "--backend",
        type=click.Choice(list(BACKENDS)),
        help="What the sandbox is made with. [default: bubblewrap]",
    ),
)

_OF_AGENTS = (
    click.option(
        "--client",
        metavar="NAME",
        help="Whose work it is: with homes, secrets, policy and history apart from all others.",
    ),
    click.option("--model", metavar="NAME", help="As the agent names it. [default: its choice]"),
    click.option(
        "-D", "--defaults", is_flag=True, help="The agent works without asking before each step."
    ),
    click.option(
        "--yolo", is_flag=True, help="The same, and the guard on its tool calls is off as well."
    ),
    click.option(
        "--claude-config",
        "login",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Share the log-in of Claude that is kept in this folder, such as ~/.claude.",
    ),
)


def sandbox_options(command: F) -> F:
    """Give a command these flags. It gets them by name, for `Flags.of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def agent_options(command: F) -> F:
    """The same for those flags that only an agent has a use for."""
    for option in reversed(_OF_AGENTS):
        command = option(command)
    return command


def client_option(help_: str) -> Callable[[F], F]:
    """`--client` for verbs that only look, or keep something."""
    return click.option("--client", metavar="NAME", help=help_)


@frozen
class Flags:
    """As they were written."""

    mounts: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    memory: str | None = None
    cpus: str | None = None
    pids: str | None = None
    timeout: str | None = None
    allow: tuple[str, ...] = ()
    policy: Path | None = None
    ask: bool | None = None
    publish: tuple[int, ...] = ()
    no_network: bool = False
    firewall: bool = False
    ptrace: bool = False
    backend: str | None = None
    client: str | None = None
    model: str | None = None
    defaults: bool = False
    yolo: bool = False
    login: Path | None = None

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Flags:
        """From what click passes to a command with `sandbox_options`, and maybe `agent_options`."""
        return cls(**given)  # type: ignore[arg-type]


def current_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise AgsError(
            "use the current directory", cause="it was removed", hint="`cd` to one that is there"
        ) from error


def mounts(invocation: Invocation, flags: Flags) -> tuple[tuple[str, MountConfig], ...]:
    """Each with the flag it came from, for a refusal to name."""
    home, cwd = invocation.home, current_directory()

    def parsed(given: str, flag: str, *, rw: bool) -> tuple[str, MountConfig]:
        return flag, parse_mount_flag(given, rw, home=home, cwd=cwd, subject=flag)

    return (
        *(parsed(given, "--mount", rw=False) for given in flags.mounts),
        *(parsed(given, "--mount-rw", rw=True) for given in flags.writable),
        *(
            ("--add-dir", MountConfig(host=cwd / in_home(given, home), mode="rw"))
            for given in flags.folders
        ),
    )


def in_home(given: str, home: Path) -> Path:
    """A shell leaves the `~` of `--add-dir=~/x` to us."""
    first, _, rest = given.partition("/")
    return home / rest.lstrip("/") if first == "~" else Path(given)


def environment(invocation: Invocation, flags: Flags) -> tuple[tuple[str, str], ...]:
    return tuple(_variable(given, invocation) for given in flags.variables)


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


def client(given: str | None) -> str:
    """As it is kept with a run: empty for the person's own work."""
    return "" if given is None else clients.checked_name(given)


def login(invocation: Invocation, flags: Flags) -> Path | None:
    if flags.login is None:
        return None
    folder = current_directory() / in_home(str(flags.login), invocation.home)
    if not folder.is_dir():
        raise AgsError("use --claude-config", subject=folder, cause="there is no such folder")
    return folder


def settings_file(invocation: Invocation, flags: Flags, config: Path | None) -> Path | None:
    """The one that was named, else the client's own; None: the person's."""
    named = config or invocation.config
    if named is not None:
        return named.absolute()
    return clients.settings_file(invocation.environ, invocation.home, client(flags.client))


def settings(invocation: Invocation, flags: Flags, config: Path | None) -> Settings:
    """The settings for this call, with what the flags say in the place of their limits."""
    file = settings_file(invocation, flags, config)
    read = load(file, invocation.environ, invocation.home)
    return limited(read, {name: getattr(flags, name) for name in PARSERS})
