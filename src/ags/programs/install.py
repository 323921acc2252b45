"""Installing an agent: chosen and fetched on the host, unpacked and tried in a sealed sandbox."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from ags import places, records
from ags.agents.base import AGENT_DIR, Program
from ags.backends import backend
from ags.backends.base import Backend
from ags.config.load import load
from ags.config.schema import Settings
from ags.errors import AgsError
from ags.frozen import frozen
from ags.model import Bind
from ags.programs import inside, installed, node, npm
from ags.programs.inside import WORK, Cell, checked
from ags.programs.installed import FACTS, UNFINISHED, Facts, Installed
from ags.programs.lock import locked
from ags.programs.release import Document, Release, choose
from ags.programs.table import check_settings, program

MOST_FILES = 1_000_000
OFFLINE = (
    "--offline", "--userconfig=/ags/no-user", "--globalconfig=/ags/no-global",
    f"--cache={WORK}/cache",
)  # fmt: skip


@frozen
class Outcome:
    """What became of one wish."""

    installed: Installed
    new: bool
    """Whether it was not there before."""


@frozen
class Installer:
    """Knows the person's environment and settings, and installs below `ags_home`."""

    environ: Mapping[str, str]
    home: Path
    ags_home: Path
    settings: Settings
    backend: Backend
    tell: Callable[[str], None] = lambda line: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @classmethod
    def configured(
        cls,
        environ: Mapping[str, str],
        home: Path,
        ags_home: Path,
        tell: Callable[[str], None],
        config: Path | None = None,
    ) -> Installer:
        """By the person's settings, or those in the file that they named."""
        settings = load(config, environ, home)
        made_with = backend(settings.sandbox.backend)
        return cls(environ, home, ags_home, settings, made_with, tell)

    async def install(self, agent: str, version: str = "") -> Outcome:
        """The version that is asked for or pinned, else the newest that is old enough."""
        what = program(agent)
        check_settings(self.settings.update)
        place = self._place(agent)
        runner = await node.find(self.environ, self.home, self.ags_home, self.tell)
        asked = version or dict(self.settings.update.versions).get(agent, "")
        async with locked(place, self.tell) as lock:
            try:
                installed.sweep(place)
                tool = npm.npm(runner, self.environ, self.home, lock)
                chosen = await self._choose(tool, agent, what, asked)
                found = self._there(agent, chosen.version)
                new = found is None
                if found is None:
                    found = await self._make(tool, agent, what, chosen)
                installed.switch(self.ags_home, agent, found.version)
            except OSError as error:
                raise records.write_error(f"install {agent}", place, error) from error
        return Outcome(found, new)

    async def newest(self, agent: str) -> str:
        """The one that `install` would take now."""
        what = program(agent)
        runner = await node.find(self.environ, self.home, self.ags_home, self.tell)
        pinned = dict(self.settings.update.versions).get(agent, "")
        tool = npm.npm(runner, self.environ, self.home)
        document = await self._document(tool, agent, what)
        return choose(
            document, pinned, self.settings.update.minimum_release_age, self.now()
        ).version

    def _place(self, agent: str) -> Path:
        places.make_state_folder(self.ags_home)
        place = installed.home_of(self.ags_home, agent)
        try:
            for folder in (place.parent, place):
                folder.mkdir(mode=0o755, exist_ok=True)
                folder.chmod(0o755)
        except OSError as error:
            raise records.write_error(f"install {agent}", place, error) from error
        return place

    def _package(self, agent: str, what: Program) -> str:
        return dict(self.settings.update.packages).get(agent, what.package)

    async def _document(self, tool: npm.Npm, agent: str, what: Program) -> Document:
        with _temporary(self._place(agent)) as empty:
            return await tool.view(self._package(agent, what), empty.folder)

    async def _choose(self, tool: npm.Npm, agent: str, what: Program, asked: str) -> Release:
        document = await self._document(tool, agent, what)
        age = self.settings.update.minimum_release_age
        chosen = choose(document, asked, age, self.now())
        if chosen.note:
            self.tell(f"{agent}: {chosen.note}")
        return chosen

    def _there(self, agent: str, version: str) -> Installed | None:
        """If it is installed already; a damaged one is put out of the way."""
        folder = installed.home_of(self.ags_home, agent) / version
        if not os.path.lexists(folder):
            return None
        try:
            return installed.look(self.ags_home, agent, version)
        except AgsError as error:
            self.tell(f"{agent}: {version} is made anew: {error.cause}")
            installed.put_away(folder)
            return None

    async def _make(self, tool: npm.Npm, agent: str, what: Program, chosen: Release) -> Installed:
        place = installed.home_of(self.ags_home, agent)
        with _temporary(place) as new:
            tree, cache = new.below("tree"), new.below("cache")
            await self._gather(tool, agent, what, chosen, tree, cache)
            self.tell(f"{agent}: unpacking in a sandbox")
            await self._unpack(tool, what, new.folder)
            size = settle(tree, what.path)
            self.tell(f"{agent}: trying it in a sandbox")
            await self._try(tool, agent, what, tree)
            used = str(tool.node.program) if what.node else ""
            facts = Facts(self._package(agent, what), chosen.version, what.path, used, size)
            records.replace_file(tree / FACTS, records.encode(facts))
            (tree / FACTS).chmod(0o644)
            _sync(tree)
            tree.rename(place / chosen.version)
        return installed.look(self.ags_home, agent, chosen.version)

    async def _gather(
        self, tool: npm.Npm, agent: str, what: Program, chosen: Release, tree: Path, cache: Path
    ) -> None:
        package = self._package(agent, what)
        # Under the name that is known, whatever it is called in the person's registry.
        spec = chosen.version if package == what.package else f"npm:{package}@{chosen.version}"
        self.tell(f"{agent}: resolving {package} {chosen.version}")
        await tool.resolve(tree, cache, what.package, spec, chosen)
        wanted = npm.needed(tree, npm.for_this_machine)
        count = f"{len(wanted)} package{'s' if len(wanted) > 1 else ''}"
        self.tell(f"{agent}: fetching {count}")
        await tool.fetch(cache, cache, wanted)

    async def _unpack(self, tool: npm.Npm, what: Program, folder: Path) -> None:
        cell = Cell(self.backend, self.settings, self.environ, self.home)
        # Not `ci`: where a registry lacks an optional part for another system, it would refuse.
        unpack: tuple[str, ...] = ("install", *npm.OURS, *OFFLINE)
        steps = [("unpack the packages", unpack, inside.UNPACK_TIMEOUT)]
        if what.scripts:
            rebuild = ("rebuild", "--foreground-scripts", *OFFLINE, what.package)
            steps.append(("run its scripts", rebuild, inside.SCRIPT_TIMEOUT))
        for title, words, timeout in steps:
            said = await cell.run(
                (*tool.node.command_inside(), *words),
                Bind(folder, WORK, writable=True),
                WORK / "tree",
                also=tool.node.npm_inside(),
                path=(str(PurePosixPath(tool.node.command_inside()[0]).parent),),
                timeout=timeout,
            )
            checked(title, what.package, said)

    async def _try(self, tool: npm.Npm, agent: str, what: Program, tree: Path) -> None:
        """Whether it answers, in the place that it will have."""
        runner = node.node_for_inside(tool.node.program if what.node else None)
        said = await Cell(self.backend, self.settings, self.environ, self.home).run(
            (what.inside, "--version"),
            Bind(tree, PurePosixPath(AGENT_DIR)),
            PurePosixPath("/tmp"),
            also=runner.steps,
            path=(runner.path,) if runner.path else (),
            timeout=inside.TRY_TIMEOUT,
        )
        checked(f"use {agent}", f"{what.package} --version", said)
        if not re.search(r"[0-9]", said.text):
            cause = "it was asked for its version and said none"
            raise AgsError(f"use {agent}", subject=what.package, cause=cause)


class _temporary:
    """A folder beside the versions. One that is left behind is swept by the next installation."""

    def __init__(self, place: Path) -> None:
        self.folder = place / f"{UNFINISHED}{os.urandom(4).hex()}"

    def __enter__(self) -> _temporary:
        self.folder.mkdir(mode=0o700)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def below(self, name: str) -> Path:
        (self.folder / name).mkdir(mode=0o755)
        return self.folder / name


def settle(tree: Path, path: str) -> int:
    """Make it nobody's to change, and tell its size. A sandbox wrote it, so nothing is assumed."""
    size = count = 0
    for folder, folders, files in os.walk(tree, onerror=_raise):
        Path(folder).chmod(0o755)
        for name in (*folders, *files):
            entry = Path(folder, name)
            facts = os.lstat(entry)
            count += 1
            if stat.S_ISLNK(facts.st_mode):
                _check_link(entry, tree)
            elif stat.S_ISREG(facts.st_mode):
                entry.chmod(facts.st_mode & 0o755 | 0o644)
                size += facts.st_size
            elif not stat.S_ISDIR(facts.st_mode):
                raise AgsError("install it", subject=entry, cause="it is neither file nor folder")
        if count > MOST_FILES:
            raise AgsError("install it", cause=f"it has more than {MOST_FILES} files")
    _make_program(tree, path)
    return size


def _raise(error: OSError) -> None:
    raise error


def _check_link(link: Path, tree: Path) -> None:
    """Links stay within: the folder will be seen at another place."""
    leads = os.path.normpath(link.parent / os.readlink(link))
    if os.path.isabs(os.readlink(link)) or not Path(leads).is_relative_to(tree):
        raise AgsError("install it", subject=link, cause="it is a link that leads elsewhere")


def _make_program(tree: Path, path: str) -> None:
    place = tree / path
    if not place.is_file() or not place.resolve().is_relative_to(tree.resolve()):
        cause = "the package has no such file: it may not be made for this machine"
        raise AgsError("find the program", subject=path, cause=cause)
    place.chmod(0o755)


def _sync(tree: Path) -> None:
    """On the disk before it gets its name: after a power cut a file may be empty otherwise."""
    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        ctypes.CDLL(None).syncfs(descriptor)
    finally:
        os.close(descriptor)


async def ensure(installer: Installer, agent: str, ask: Callable[[str], bool] | None) -> Installed:
    """The current version; if there is none, one is offered to whoever can be asked."""
    found = installed.current(installer.ags_home, agent)
    if found is not None:
        return found
    package = dict(installer.settings.update.packages).get(agent, program(agent).package)
    if ask is not None and ask(f"{agent} is not installed yet. Install {package} by npm now?"):
        return (await installer.install(agent)).installed
    raise AgsError(
        f"start {agent}",
        cause="it is not installed yet",
        hint=f"`ags update-agents {agent}` installs it",
    )
