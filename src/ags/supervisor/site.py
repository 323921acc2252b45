"""A run, and all that its ground is made with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ags import identity
from ags.backends import backend
from ags.backends.base import Backend, Streams
from ags.config.load import load, settings_folder
from ags.frozen import frozen
from ags.model import Bind, Ending, Plan, Tmpfs
from ags.prepare import Preparer
from ags.runs import Held, Result, Run
from ags.workspace import diff
from ags.workspace.git import Repository

if TYPE_CHECKING:
    from ags.network import Network

Tell = Callable[[str], None]

NO_PATCH = "its change is too large to be kept as a patch too; the commit has all of it"


@frozen
class Site:
    """A run, and what its ground is made with."""

    held: Held
    ags_home: Path
    home: Path
    backend: Backend
    preparer: Preparer
    tell: Tell

    @property
    def run(self) -> Run:
        return self.held.run

    @property
    def git_folder(self) -> Path:
        return self.ags_home / "git" / self.run.id

    def made_git_folder(self) -> Path:
        """Where it may be made. Not closed to others: the run may be of another user's project."""
        self.git_folder.parent.mkdir(mode=0o711, exist_ok=True)
        return self.git_folder

    @property
    def home_folder(self) -> Path:
        """What holds the run's copy of its agent's home."""
        return self.ags_home / "home" / self.run.id

    @property
    def worktrees(self) -> Path:
        return self.ags_home / "worktrees"

    @property
    def spares(self) -> Path:
        return self.ags_home / "spares"

    def homeless(self, plan: Plan) -> Plan:
        """With an empty home of its own: what is ours to do needs none of the agent's."""
        size = self.preparer.settings.sandbox.home_size
        steps = (
            Tmpfs(step.target, size, 0o700)
            if isinstance(step, Bind) and step.source.parent == self.home_folder
            else step
            for step in plan.mounts
        )
        return replace(plan, mounts=tuple(steps))

    async def run_inside(
        self, plan: Plan, stdin: int, stdout: int, stderr: int, network: Network | None = None
    ) -> Ending:
        """A script of ours or the person's, in a sandbox like the agent's; sealed if without a
        network."""
        if network is not None:
            network.get_ready()
        sandbox = await self.backend.launch(plan, Streams(stdin, stdout, stderr))
        try:
            if network is not None:
                await network.open(sandbox)
            await sandbox.release()
            return await sandbox.wait()
        except BaseException:
            await sandbox.kill()
            raise
        finally:
            if network is not None:
                await network.close()


def site(held: Held, ags_home: Path, environ: Mapping[str, str], home: Path, tell: Tell) -> Site:
    """With the settings as they are now."""
    order = held.run.order
    settings = load(order.config, environ, home)
    preparer = Preparer(environ, home, ags_home, settings, settings_folder(environ, home), tell)
    made_with = backend(order.backend or settings.sandbox.backend)
    return Site(held, ags_home, home, made_with, preparer, tell)


async def store_diff(held: Held, project: Repository, base: str, commit: str) -> Result:
    """The whole diff as a patch beside the record, and its size."""
    stored, new = held.run_dir / "result.patch", held.run_dir / "result.patch.new"
    new.unlink(missing_ok=True)
    found = await diff.diff(project, base, commit, diff.Caps(lines=0))
    if found.is_patchable():
        await diff.write_patch(project, base, commit, new)
        os.replace(new, stored)
    else:
        stored.unlink(missing_ok=True)
        held.save(replace(held.run, notes=(*held.run.notes, NO_PATCH)))
    stat = found.stat()
    return Result(commit, stat.files, stat.additions, stat.deletions)


def person_home(project: Repository, home: Path) -> Path:
    """Whose global git settings count: started as root, those of the project's owner."""
    return identity.resolve(os.stat(project.git_dir), home).home
