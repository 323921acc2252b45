"""Package tools, asked for their own default: outside, away from every workspace, without network.

They are the person's programs, found as the person's shell would find them: the system's, or those
of a version manager. Nothing that an agent could have written is run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ags import proc, toolchains
from ags.egress import registries
from ags.egress.registries import QUESTIONS, Found
from ags.errors import AgsError
from ags.frozen import frozen
from ags.workspace.root import find_root

TIMEOUT = 10.0
SYSTEM = (Path("/usr"), Path("/bin"), Path("/sbin"))
# A namespace of its own has no way out at all; the variables are for machines that refuse one.
ALONE = ("/usr/bin/unshare", "--map-current-user", "--net", "--")
_NOWHERE = "http://127.0.0.1:9"
QUIET = {
    "COREPACK_ENABLE_NETWORK": "0",
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "http_proxy": _NOWHERE,
    "https_proxy": _NOWHERE,
}


@frozen
class Bench:
    """Where tools are looked for, and what they are given."""

    path: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    apart: tuple[str, ...]
    """Folders that agents write to, links resolved."""

    def find(self, name: str) -> str | None:
        paths = (f"{folder}/{name}" for folder in self.path)
        return next((path for path in paths if self._is_sound(path)), None)

    def _is_sound(self, path: str) -> bool:
        real = os.path.realpath(path)
        within = any(real.startswith(f"{folder}/") for folder in self.apart)
        return not within and os.path.isfile(real) and os.access(real, os.X_OK)

    @property
    def environ(self) -> dict[str, str]:
        return {**dict(self.environment), "PATH": ":".join(self.path)}


async def tool_defaults(
    names: Iterable[str], environ: Mapping[str, str], home: Path, apart: Sequence[Path]
) -> dict[str, Found]:
    """What these tools themselves say their default is. `apart` is where agents write."""
    asked = [name for name in names if name in QUESTIONS]
    if not asked:
        return {}
    bench = _bench(environ, home, apart)
    alone = await _alone()
    answers = await asyncio.gather(*(_answer(name, bench, alone) for name in asked))
    return {name: found for name, found in zip(asked, answers, strict=True) if found.rules}


def written_here(ags_home: Path) -> tuple[Path, ...]:
    """Where agents write, seen from the current directory: its project, and our own folder."""
    try:
        return (find_root(Path.cwd(), os.geteuid()), ags_home)
    except (AgsError, OSError):
        return (ags_home,)


def _bench(environ: Mapping[str, str], home: Path, apart: Sequence[Path]) -> Bench:
    # A folder that holds the home is no project: all of the person's tools would be in it.
    closed = [folder for folder in map(Path.absolute, apart) if folder not in (home, *home.parents)]
    try:
        found = toolchains.discover(
            home, environ, uid=os.geteuid(), gid=os.getegid(), covered=SYSTEM, forbidden=closed
        )
    except AgsError:  # a home that is none: the system's own tools are left
        found = toolchains.Toolchains((), toolchains.STANDARD_PATH, (), ())
    given = {**dict(found.environment), **QUIET, "HOME": str(home), "LC_ALL": "C.UTF-8"}
    return Bench(
        tuple(folder for folder in found.path if not _is_a_projects(folder)),
        tuple(given.items()),
        tuple(os.path.realpath(folder) for folder in closed),
    )


def _is_a_projects(folder: str) -> bool:
    """An environment that was made for a project lies in it, whichever project it is."""
    environment = os.path.exists(os.path.join(os.path.dirname(folder), "pyvenv.cfg"))
    return environment or folder.endswith("/node_modules/.bin")


async def _alone() -> tuple[str, ...]:
    """What keeps a tool from the network, where this machine lets us."""
    try:
        await proc.run((*ALONE, "/bin/true"), timeout=TIMEOUT)
    except proc.ProcessError:
        return ()
    return ALONE


async def _answer(tool: str, bench: Bench, alone: tuple[str, ...]) -> Found:
    for program, *arguments in QUESTIONS[tool]:
        if (path := bench.find(program)) is None:
            continue
        # Not in the caller's folder: settings in a workspace are the agent's to write.
        argv = (*alone, "/usr/bin/env", "--chdir=/", path, *arguments)
        try:
            printed = await proc.run(argv, env=bench.environ, timeout=TIMEOUT)
        except proc.ProcessError:
            continue
        if (found := registries.answered(tool, printed.text)).rules:
            return found
    return Found()
