"""The settings: what may be written, and what holds where nothing is written."""

# No `from __future__ import annotations`: a key's reader is taken from its annotation.

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, get_args

from ags.config import values
from ags.config.reading import (
    Place,
    count_up_to,
    each,
    host_path,
    inner_path,
    one_of,
    or_none,
    processors,
    search_folder,
    switch,
    table,
    tables,
    text,
    variables,
)
from ags.config.values import MAX_PIDS, Percent, matching, parse_size
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import GIB, MIB, Limits

BACKENDS = ("bubblewrap",)
MAX_OPEN_FILES = 1 << 30

Mode = Literal["ro", "rw"]
Kind = Literal["dir", "file"]
HardLinks = Literal["unshare", "refuse", "allow"]
Deliver = Literal["wire", "env"]

_size = text(parse_size)
_variable = text(matching(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "name of a variable"))
_variables = text(
    matching(
        r"[A-Za-z_][A-Za-z0-9_]{0,127}|[A-Za-z][A-Za-z0-9_]{0,126}_\*",
        "name of a variable",
        'write it like "EDITOR", or "MYAPP_*" for all that start so',
    )
)
_hostname = text(matching(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?", "host name"))
_tool_name = text(
    matching(r"[a-z0-9][a-z0-9._-]{0,63}", "tool name", "small letters, digits and . _ - only")
)


@frozen
class Sandbox:
    """What a command finds around it."""

    backend: Annotated[str, one_of(BACKENDS)] = "bubblewrap"
    passthrough_env: Annotated[tuple[str, ...], each(_variables)] = ()
    tmp_size: Annotated[int, _size] = 2 * GIB
    home_size: Annotated[int, _size] = 2 * GIB
    shm_size: Annotated[int, _size] = 256 * MIB
    ptrace: Annotated[bool, switch] = False
    toolchains: Annotated[bool, switch] = True
    package_scripts: Annotated[bool, switch] = False
    hostname: Annotated[str, _hostname] = "ags"

    def passes(self, variable: str) -> bool:
        """Whether a variable of the person's goes inside."""
        return any(
            variable.startswith(name[:-1]) if name.endswith("*") else variable == name
            for name in self.passthrough_env
        )


@frozen
class LimitsConfig:
    """Limits as written: memory may depend on the machine."""

    memory: Annotated[int | Percent | None, text(values.parse_memory)] = Percent(75)
    cpus: Annotated[float | None, or_none(processors)] = None
    pids: Annotated[int | None, or_none(count_up_to(MAX_PIDS))] = 4096
    timeout: Annotated[float | None, text(values.parse_timeout)] = None
    file_size: Annotated[int | None, or_none(_size)] = 16 * GIB
    open_files: Annotated[int | None, or_none(count_up_to(MAX_OPEN_FILES))] = 65536
    disk_free: Annotated[int | None, or_none(_size)] = 1 * GIB
    memory_free: Annotated[int | None, or_none(_size)] = 256 * MIB

    def resolve(self, total_memory: int) -> Limits:
        """On a machine with this many bytes of memory."""
        memory = self.memory.of(total_memory) if isinstance(self.memory, Percent) else self.memory
        return Limits(
            memory=memory,
            cpus=self.cpus,
            pids=self.pids,
            timeout=self.timeout,
            file_size=self.file_size,
            open_files=self.open_files,
            disk_free=self.disk_free,
            memory_free=self.memory_free,
        )


@frozen
class MountConfig:
    """A directory or file of the person's that is there inside."""

    host: Annotated[Path, host_path]
    container: Annotated[PurePosixPath | None, inner_path] = None
    mode: Annotated[Mode, one_of(get_args(Mode))] = "ro"
    kind: Annotated[Kind | None, one_of(get_args(Kind))] = None
    create: Annotated[bool, switch] = False
    optional: Annotated[bool, switch] = False

    @property
    def target(self) -> PurePosixPath:
        """The path inside: the same as outside, unless another is given."""
        return self.container or PurePosixPath(self.host)

    @property
    def writable(self) -> bool:
        return self.mode == "rw"


def _mount(value: object, place: Place) -> MountConfig:
    mount: MountConfig = table(MountConfig)(value, place)
    if mount.create and mount.kind == "file":
        raise place.below("create").error("makes directories only", 'leave out kind = "file"')
    return mount


def _set_variable(value: object, place: Place) -> str:
    name: str = _variable(value, place)
    if name == "PATH":
        raise place.error("is not set here", "name the directories in `path` of the tool")
    return name


@frozen
class Tool:
    """A program the person brings along, with its directories and variables."""

    name: Annotated[str, _tool_name]
    path: Annotated[tuple[PurePosixPath, ...], each(search_folder)] = ()
    env: Annotated[tuple[tuple[str, str], ...], variables(_set_variable, text(str))] = ()
    directories: Annotated[tuple[MountConfig, ...], tables(_mount), "directory"] = ()


def _tools(value: object, place: Place) -> tuple[Tool, ...]:
    tools: tuple[Tool, ...] = tables(table(Tool))(value, place)
    names = [tool.name for tool in tools]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise place.below(index).below("name").error(f'there is a tool "{name}" already')
    return tools


def _protected(written: str) -> PurePosixPath:
    if "*" in written or "?" in written:
        # As a plain name it would protect nothing, and nobody would notice.
        raise AgsError("protect it", cause="patterns are not known here", hint="name each path")
    return values.parse_relative(written)


def _copied(written: str) -> PurePosixPath:
    path = values.parse_relative(written)
    if path.parts[:1] == (".git",):
        raise AgsError("copy it", cause="a run has a git directory of its own")
    return path


@frozen
class Workspace:
    """What of the person's folder stays as it is, and what a folder of a run's own is given."""

    protect: Annotated[tuple[PurePosixPath, ...], each(text(_protected))] = ()
    unprotect: Annotated[tuple[PurePosixPath, ...], each(text(values.parse_relative))] = ()
    hard_links: Annotated[HardLinks, one_of(get_args(HardLinks))] = "unshare"
    copy: Annotated[tuple[PurePosixPath, ...], each(text(_copied))] = ()
    setup: Annotated[str, text(str)] = ""
    spare: Annotated[bool, switch] = True


# What follows is loaded only by who has secrets: hosts and headers take longer than a start may.


def _secret_name(written: str) -> str:
    from ags.secrets import checked_name

    return checked_name(written)


def _one_host(written: str) -> str:
    from ags.egress.hosts import canonical_host

    return canonical_host(written)


def _proxy(written: str) -> str:
    from ags.egress.company import parse

    if written:
        parse(written)
    return written


def _proxy_login(written: str) -> str:
    return _secret_name(written) if written else ""


def _port(value: object, place: Place) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise place.wrong_type("a port", value)
    if not 0 < value < 1 << 16:
        raise place.error("a port is from 1 to 65535")
    return value


def _command(value: object, place: Place) -> tuple[str, ...]:
    words: tuple[str, ...] = each(text(str))(value, place)
    if not words or not words[0]:
        raise place.error("names no program")
    return words


@frozen
class SecretConfig:
    """A secret of the person's, what it is called inside, and the one place it may go to."""

    name: Annotated[str, text(_secret_name)]
    env: Annotated[str, _set_variable]
    from_env: Annotated[str | None, _variable] = None
    from_file: Annotated[Path | None, host_path] = None
    command: Annotated[tuple[str, ...], _command] = ()
    secret_store: Annotated[str | None, text(_secret_name)] = None
    deliver: Annotated[Deliver, one_of(get_args(Deliver))] = "wire"
    host: Annotated[str | None, text(_one_host)] = None
    port: Annotated[int, _port] = 443
    header: Annotated[str, text(str)] = "Authorization"
    template: Annotated[str | None, text(str)] = None

    @property
    def sent_as(self) -> str:
        """What the header says, {} being the secret."""
        usual = "Bearer {}" if self.header.lower() == "authorization" else "{}"
        return usual if self.template is None else self.template


_SOURCES = ("from_env", "from_file", "command", "secret_store")


def _secret(value: object, place: Place) -> SecretConfig:
    secret: SecretConfig = table(SecretConfig)(value, place)
    given = value if isinstance(value, dict) else {}
    sources = [key for key in _SOURCES if key in given]
    if len(sources) > 1:
        raise place.below(sources[1]).error(f"there is `{sources[0]}` already", "choose one")
    if secret.deliver == "env":
        for key in ("host", "port", "header", "template"):
            if key in given:
                raise place.below(key).error('is of no use with deliver = "env"', "leave it out")
    elif secret.host is None:
        raise place.below("host").error("is missing", "the one host that is sent the secret")
    else:
        _check_sendable(secret, secret.host, place)
    return secret


def _check_sendable(secret: SecretConfig, host: str, place: Place) -> None:
    from ags.egress.inject import Injection, problem

    made = Injection(secret.name, host, secret.port, "tls", secret.header, secret.sent_as)
    if cause := problem(made):
        key = "header" if "header" in cause else "template"
        raise place.below(key).error(cause)


def _secrets(value: object, place: Place) -> tuple[SecretConfig, ...]:
    found: tuple[SecretConfig, ...] = tables(_secret)(value, place)
    for key in ("name", "env"):
        said = [getattr(secret, key) for secret in found]
        for index, word in enumerate(said):
            if word in said[:index]:
                cause = f'there is a secret with "{word}" already'
                raise place.below(index).below(key).error(cause)
    return found


@frozen
class Network:
    """How runs reach what the policy lets them reach."""

    ca: Annotated[tuple[Path, ...], each(host_path)] = ()
    proxy: Annotated[str, text(_proxy)] = ""
    proxy_login: Annotated[str, text(_proxy_login)] = ""
    """The secret that has user:password for it."""


_exact_version = text(
    matching(
        r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(?:[-+][0-9A-Za-z.+-]{1,64})?",
        "version",
        'name one version, like "1.2.3"',
    )
)
_npm_package = text(
    matching(
        r"(?:@[a-z0-9~][a-z0-9._~-]{0,100}/)?[a-z0-9~][a-z0-9._~-]{0,100}",
        "npm package",
        'write its name alone, like "@scope/name"',
    )
)


@frozen
class Update:
    """Which programs `ags update-agents` installs."""

    minimum_release_age: Annotated[float | None, text(values.parse_timeout)] = 86400.0
    """Seconds since it was published: a bad release is mostly found within a day."""
    versions: Annotated[
        tuple[tuple[str, str], ...], variables(_tool_name, _exact_version), "version"
    ] = ()
    packages: Annotated[
        tuple[tuple[str, str], ...], variables(_tool_name, _npm_package), "package"
    ] = ()


@frozen
class Settings:
    """All of a settings file."""

    source: Path | None = None
    """The file all this was read from."""
    sandbox: Annotated[Sandbox, table(Sandbox)] = Sandbox()
    limits: Annotated[LimitsConfig, table(LimitsConfig)] = LimitsConfig()
    mounts: Annotated[tuple[MountConfig, ...], tables(_mount), "mount"] = ()
    tools: Annotated[tuple[Tool, ...], _tools, "tool"] = ()
    workspace: Annotated[Workspace, table(Workspace)] = Workspace()
    network: Annotated[Network, table(Network)] = Network()
    update: Annotated[Update, table(Update)] = Update()
    secrets: Annotated[tuple[SecretConfig, ...], _secrets, "secret"] = ()


def parse_mount_flag(
    written: str, writable: bool, *, home: Path, cwd: Path | None = None, subject: object = None
) -> MountConfig:
    """`HOST[:TARGET]`. With `cwd`, a real path, HOST may be relative to it."""
    host, colon, target = written.partition(":")
    if target in get_args(Mode) or ":" in target:
        raise AgsError(
            "use this mount",
            subject=subject,
            cause=f"{values.shown(written)} is not HOST or HOST:TARGET",
            hint="--mount is read-only, --mount-rw is not; a path with a colon goes into [[mount]]",
        )
    return MountConfig(
        host=values.parse_path(_joined(host, cwd), home, subject),
        container=PurePosixPath(values.parse_path(target, home, subject)) if colon else None,
        mode="rw" if writable else "ro",
    )


def _joined(host: str, cwd: Path | None) -> str:
    parts = PurePosixPath(host).parts
    if cwd is None or not host or host.startswith(("/", "~", "$")):
        return host
    # Steps up from the real working directory are safe to take by name; any later .. is not.
    while parts[:1] == ("..",):
        cwd, parts = cwd.parent, parts[1:]
    return str(cwd.joinpath(*parts))
