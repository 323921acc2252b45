"""From what is asked for to a plan that can be launched."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from ags import clients, host, identity, places, plan, toolchains
from ags.config.schema import MountConfig, Settings
from ags.errors import AgsError
from ags.frozen import frozen
from ags.kernel import cgroup
from ags.model import Bind, Identity, Limits, MountStep, Plan, Weakening
from ags.places import Places
from ags.workspace import git, protect, unshare
from ags.workspace.root import find_root
from ags.workspace.steered import steered
from ags.workspace.survey import Survey, survey
from ags.workspace.tree import Owner

MOST_SECOND_LOOKS = 3
WORTH_TELLING = 200
"""Files to copy before a start: more take long enough for a person to wonder."""
# Seen from inside, root's files have another owner than the index says, which is no change.
GIT_INSIDE = {"core.checkStat": "minimal"}


@frozen
class Request:
    """One command on one directory, as flags or an API call have it."""

    run: str
    command: tuple[str, ...]
    cwd: Path
    mounts: tuple[tuple[str, MountConfig], ...] = ()
    """Each with the flag it came from, for a refusal to name."""
    environment: tuple[tuple[str, str], ...] = ()
    ptrace: bool = False
    workspace: Path | None = None
    """One that AGS made for the run. Otherwise it is the person's own, found around `cwd`."""
    git: tuple[MountStep, ...] = ()
    """The run's own git directory, mounted over the workspace's."""
    limits: Limits | None = None
    """Instead of those in the settings."""
    network: plan.Network | None = None
    path: tuple[str, ...] = ()
    """Folders that programs are looked for in first."""
    home: Path | None = None
    """A folder of ours that becomes its home."""
    given: tuple[MountStep, ...] = ()
    """See `plan.Spec`."""
    weakenings: tuple[Weakening, ...] = ()
    """Chosen elsewhere: such as a secret that goes inside."""


@frozen
class Folder:
    """A writable folder of the person's, and what is held in it."""

    root: Path
    repositories: frozenset[str]
    """Those that were there before the start, the top one included."""
    held: tuple[protect.Held, ...]
    steps: tuple[MountStep, ...]
    notes: tuple[str, ...]
    weakenings: tuple[Weakening, ...]


@frozen
class Prepared:
    """A plan, and what is held on the host's side for as long as it runs."""

    plan: Plan
    notes: tuple[str, ...]
    """What the person should hear of before the start."""
    folders: tuple[Folder, ...]
    held: contextlib.ExitStack

    def replaced(self) -> tuple[Path, ...]:
        """Protected paths that somebody replaced during the run: from then on nothing held them."""
        return tuple(
            folder.root / path
            for folder in self.folders
            for path in protect.adrift(folder.root, folder.held)
        )

    def new_repositories(self) -> tuple[Path, ...]:
        """Those that the run made. git obeys their settings as soon as somebody steps in."""
        return tuple(
            folder.root / path
            for folder in self.folders
            for path in sorted(
                _repositories(folder.root, survey(folder.root)) - folder.repositories
            )
        )

    def warnings(self) -> Iterator[str]:
        """After the run: where the person should look before they go on."""
        for path in self.replaced():
            yield f"look at {path}: it was replaced meanwhile, and then could be changed inside"
        for path in self.new_repositories():
            yield f"look at {path} before you use git there: it is new, and git obeys it"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.held.close()


class Preparer:
    """Knows the person's environment, folders and settings, and what of them a run may have."""

    def __init__(
        self,
        environ: Mapping[str, str],
        home: Path,
        ags_home: Path,
        settings: Settings,
        folder: Path,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`tell` is for what takes long, while it does."""
        self.environ = environ
        self.home = home
        self.ags_home = ags_home
        self.settings = settings
        self.settings_folder = folder
        self._tell = tell

    async def prepare(self, request: Request) -> Prepared:
        """Judge every path, protect the workspace, and build the plan."""
        places.make_state_folder(self.ags_home)
        cgroup.sweep()  # of runs whose supervisor was killed
        if request.workspace is None:
            cwd, root, facts = self._workspace(request.cwd)
        else:
            cwd, root = request.cwd, request.workspace
            facts = os.stat(root, follow_symlinks=False)
        who = identity.resolve(facts, self.home)
        guarded = self._places(who.home)
        binds, weakenings = self._binds(request, _judged(root, facts), guarded)
        with contextlib.ExitStack() as stack:
            theirs = binds if request.workspace is None else binds[1:]
            folders = tuple([each async for each in self._protect(theirs, who, guarded, stack)])
            tools = self._toolchains(who, guarded, binds)
            spec = plan.Spec(
                run=request.run,
                command=request.command,
                cwd=cwd,
                identity=who,
                limits=request.limits or limits_here(self.settings),
                sizes=self._sizes(),
                binds=binds,
                toolchains=tools.steps,
                protections=(
                    *(step for folder in folders for step in folder.steps),
                    *request.git,
                ),
                path=(*request.path, *self._tool_path(), *tools.path),
                environment=self._environment(request, tools),
                gitconfig=git.config_text(await git.identity(who.home) | GIT_INSIDE),
                hostname=self.settings.sandbox.hostname,
                ptrace=request.ptrace or self.settings.sandbox.ptrace,
                network=request.network,
                home=None if request.home is None else _judged(request.home),
                given=request.given,
                weakenings=(
                    *request.weakenings,
                    *weakenings,
                    *self._chosen_weakenings(),
                    *(each for folder in folders for each in folder.weakenings),
                ),
            )
            made = plan.build(spec, host.read(self.environ, who.host_uid))
            notes = (*(note for folder in folders for note in folder.notes), *tools.notes)
            return Prepared(made, notes, folders, stack.pop_all())

    def check(self, request: Request) -> None:
        """What can be known to be refused before anything is made."""
        if request.workspace is None:
            _, root, facts = self._workspace(request.cwd)
        else:
            root, facts = request.workspace, os.stat(request.cwd)
        who = identity.resolve(facts, self.home)
        bind = Bind(root, PurePosixPath(root), writable=True)
        self._binds(request, bind, self._places(who.home))

    def workspace(self, start: Path) -> tuple[Path, Path]:
        """A folder by its one true name, and the top of the workspace that it is in."""
        cwd, root, _ = self._workspace(start)
        return cwd, root

    def _places(self, run_home: Path) -> Places:
        homes = tuple(dict.fromkeys((self.home, run_home)))
        return Places(
            homes, self.ags_home, self.settings_folder, clients.data(self.ags_home, self.environ)
        )

    def _workspace(self, start: Path) -> tuple[Path, Path, os.stat_result]:
        """The current directory, the workspace around it, and the facts of the latter.

        By descriptor: whoever owns a folder above could exchange it for another between two looks.
        """
        own = (self.home, self.ags_home, self.settings_folder)
        stop = frozenset(place.resolve() for place in own) | {Path("/")}
        try:
            here = os.open(start, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise AgsError("use the current directory", subject=start, cause=cause) from error
        try:
            cwd = places.resolve(Path(f"/proc/self/fd/{here}"), "the current directory")
            root = find_root(cwd, os.fstat(here).st_uid, stop)
            above = "/".join([".", *[".."] * len(cwd.relative_to(root).parts)])
            facts = os.stat(above, dir_fd=here)
        finally:
            os.close(here)
        return cwd, root, facts

    def list_mounts(self, request: Request) -> Iterator[tuple[str, MountConfig]]:
        """What the settings, the tools and the flags mount, each with who asked for it."""
        yield from (("[[mount]]", mount) for mount in self.settings.mounts)
        for tool in self.settings.tools:
            yield from ((f"[[tool]] {tool.name}", mount) for mount in tool.directories)
        yield from request.mounts

    def _binds(
        self, request: Request, workspace: Bind, guarded: Places
    ) -> tuple[tuple[Bind, ...], tuple[Weakening, ...]]:
        """The workspace, then the settings' mounts, the tools' and the flags'."""
        if request.workspace is None:
            flag = "this directory as the workspace"
            places.check_source(workspace.source, guarded, writable=True, flag=flag)
        binds = [workspace]
        weakenings = []
        for flag, mount in self.list_mounts(request):
            if (source := _source(mount, flag)) is None:
                continue
            if weakening := places.check_source(
                source, guarded, writable=mount.writable, flag=flag
            ):
                weakenings.append(weakening)
            target = PurePosixPath(source) if mount.container is None else mount.container
            places.check_target(target, guarded, flag)
            _check_place(target, binds, flag)
            _check_overlap(source, target, mount.writable, binds, flag)
            facts = source.stat()
            binds.append(Bind(source, target, mount.writable, (facts.st_dev, facts.st_ino)))
        return tuple(binds), tuple(weakenings)

    async def _protect(
        self,
        binds: Sequence[Bind],
        who: Identity,
        guarded: Places,
        stack: contextlib.ExitStack,
    ) -> AsyncIterator[Folder]:
        """Each writable folder is somebody's workspace, with settings and repositories in it."""
        owner = Owner(who.host_uid, who.host_gid)
        for bind in binds:
            if not bind.writable or not bind.source.is_dir():
                continue
            paths = self._protected(await steered(bind.source, who.home))
            protection = stack.enter_context(
                protect.prepare(bind.source, paths, self.ags_home / "protect", owner)
            )
            notes: list[str] = []
            found = self._unshared(bind.source, protection, owner, notes)
            for path in found.mounts:
                what = "a file system mounted in the workspace"
                places.check_source(bind.source / path, guarded, writable=True, flag=what)
            yield Folder(
                root=bind.source,
                repositories=_repositories(bind.source, found),
                held=protect.places(protection, found),
                steps=tuple(_moved(protect.steps(protection, found), bind)),
                notes=tuple(notes),
                weakenings=(*_overlooked(bind.source, found), *_ourselves(bind.source)),
            )

    def _protected(self, also: Sequence[protect.Protected]) -> Iterable[protect.Protected]:
        lifted = {str(path) for path in self.settings.workspace.unprotect}
        if unknown := lifted - {each.path for each in (*protect.PROTECTED, *also)}:
            raise AgsError(
                "use [workspace] unprotect",
                subject=", ".join(sorted(unknown)),
                cause="it is not among the protected paths",
                hint=f"these are: {' '.join(each.path for each in protect.PROTECTED)}",
            )
        yield from (each for each in (*protect.PROTECTED, *also) if each.path not in lifted)
        yield from (protect.Protected(str(path)) for path in self.settings.workspace.protect)

    def _unshared(
        self, root: Path, protection: protect.Protection, owner: Owner, notes: list[str]
    ) -> Survey:
        """Look at the tree, and again if somebody changed it while links were being undone."""
        found = survey(root, protection.read_only)
        if self.settings.workspace.hard_links == "allow":
            return found
        for _ in range(MOST_SECOND_LOOKS):
            if not found.shared:
                return found
            if self.settings.workspace.hard_links == "refuse":
                unshare.refuse(found.shared)
            if len(found.shared) > WORTH_TELLING:
                count = len(found.shared)
                self._tell(f"copying {count} files of {root} that have a further name outside")
            done = unshare.unshare(root, found.shared, owner)
            if done.files:
                notes.append(f"{done.files} files in {root} had a further name outside: copied")
            if not done.missed:
                return found
            found = survey(root, protection.read_only)
        raise AgsError(
            "start on this workspace",
            subject=root,
            cause="files in it that have a further name outside keep changing",
            hint="stop what is writing to it, then try again",
        )

    def _toolchains(
        self, who: Identity, guarded: Places, binds: Sequence[Bind]
    ) -> toolchains.Toolchains:
        if not self.settings.sandbox.toolchains:
            return toolchains.Toolchains((), toolchains.STANDARD_PATH, (), ())
        system = [Path("/usr"), Path("/bin"), Path("/sbin")]
        # Both ends: an agent may have planted links where it could write.
        given = [path for bind in binds for path in (bind.source, Path(bind.target))]
        return toolchains.discover(
            who.home,
            self.environ,
            uid=who.host_uid,
            gid=who.host_gid,
            covered=[*system, *dict.fromkeys(given)],
            forbidden=guarded.forbidden,
        )

    def _tool_path(self) -> tuple[str, ...]:
        return tuple(str(folder) for tool in self.settings.tools for folder in tool.path)

    def _environment(
        self, request: Request, tools: toolchains.Toolchains
    ) -> tuple[tuple[str, str], ...]:
        passed = [(n, v) for n, v in self.environ.items() if self.settings.sandbox.passes(n)]
        own = [pair for tool in self.settings.tools for pair in tool.env]
        return (*tools.environment, *passed, *own, *request.environment)

    def _sizes(self) -> plan.Sizes:
        sandbox = self.settings.sandbox
        return plan.Sizes(tmp=sandbox.tmp_size, home=sandbox.home_size, shm=sandbox.shm_size)

    def _chosen_weakenings(self) -> Iterable[Weakening]:
        workspace = self.settings.workspace
        for path in workspace.unprotect:
            yield Weakening("unprotected", f"{path} in the workspace can be changed")
        if workspace.hard_links == "allow":
            yield Weakening("hard links", "files with a further name outside can be changed")


def limits_here(settings: Settings) -> Limits:
    """As the settings have them on this machine."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return settings.limits.resolve(total)


def _source(mount: MountConfig, flag: str) -> Path | None:
    """Where it really is; None for an optional one that is not there."""
    if not mount.host.exists():
        if mount.create:
            mount.host.mkdir(parents=True, exist_ok=True)
        elif mount.optional:
            return None
    source = places.resolve(mount.host, flag)
    mode = source.stat().st_mode
    kind = "dir" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "special"
    if kind == "special":
        raise AgsError(f"use {flag}", subject=source, cause="it is neither a file nor a folder")
    if mount.kind is not None and mount.kind != kind:
        raise AgsError(f"use {flag}", subject=source, cause=f'it is not of kind "{mount.kind}"')
    return source


def _judged(root: Path, facts: os.stat_result | None = None) -> Bind:
    facts = facts or os.stat(root, follow_symlinks=False)
    inode = (facts.st_dev, facts.st_ino)
    return Bind(root, PurePosixPath(root), writable=True, inode=inode)


def _check_overlap(
    source: Path, target: PurePosixPath, writable: bool, binds: Sequence[Bind], flag: str
) -> None:
    """Seen at two places, what is protected at one could be changed at the other."""
    for bind in binds:
        nested = source.is_relative_to(bind.source) or bind.source.is_relative_to(source)
        moved = PurePosixPath(source) != target or PurePosixPath(bind.source) != bind.target
        if nested and moved and (writable or bind.writable):
            raise AgsError(
                f"use {flag}",
                subject=source,
                cause=f"it and {bind.source} are parts of one another, shown at different places",
                hint="mount it at its own path, or read-only from a copy",
            )


def _check_place(target: PurePosixPath, binds: Sequence[Bind], flag: str) -> None:
    """A mount point that is missing would be made in the person's own folder, and stay there."""
    for bind in binds:
        if target == bind.target or not target.is_relative_to(bind.target):
            continue
        place = bind.source / target.relative_to(bind.target)
        if not place.exists() or place.resolve() != place:
            raise AgsError(
                f"use {flag}",
                subject=target,
                cause=f"there is nothing at this place in {bind.source} to mount it on",
                hint="create it first, or mount it elsewhere",
            )


def _moved(steps: Sequence[MountStep], bind: Bind) -> Iterable[MountStep]:
    """Protections are for the folder as it is on the host; it may be seen elsewhere inside."""
    for step in steps:
        yield replace(step, target=bind.target / step.target.relative_to(bind.source))


def _repositories(root: Path, found: Survey) -> frozenset[str]:
    top = {".git"} if os.path.lexists(root / ".git") else set()
    return frozenset(top | {each.path for each in found.repositories})


def _ourselves(root: Path) -> Iterator[Weakening]:
    if Path(__file__).resolve().is_relative_to(root):
        yield Weakening("AGS itself", f"{root} is what `ags` runs from: look before you run it")


def _overlooked(root: Path, found: Survey) -> Iterator[Weakening]:
    """Where repositories, sockets and hard links may be that nothing protects."""
    if found.truncated:
        yield Weakening("not looked at whole", f"{root}: {found.truncated}")
    for path in (*found.mounts, *found.unsettled):
        yield Weakening("not looked into", str(root / path))
