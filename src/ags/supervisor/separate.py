"""A run in a workspace of its own."""

from __future__ import annotations

import os
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path

from ags.errors import AgsError
from ags.model import KIB, Plan
from ags.prepare import Request
from ags.runs import Result
from ags.supervisor.site import Site, person_home, store_diff
from ags.workspace import branches, bring, collect, git, private, separate, spare
from ags.workspace.branches import Source
from ags.workspace.git import Repository
from ags.workspace.inside import Runner
from ags.workspace.tree import Owner

LARGE = 128 * KIB
"""Of an index: with some 1,500 files a checkout takes long enough to keep one ready."""


class Separate:
    """A checkout of the base commit under `worktrees/`, on a branch of the run's own."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._is_large = False

    async def create(self) -> None:
        site, run = self._site, self._site.run
        assert run.base is not None and run.branch is not None
        project = await git.find(run.project)
        check_reachable(site.ags_home, project.owner)
        workspace = site.worktrees / run.name
        site.held.save(replace(run, workspace=workspace, common=project.common_dir))
        building = private.build(
            project,
            into=site.made_git_folder(),
            branch=run.branch,
            base=run.base,
            run=run.id,
            workspace=workspace,
            home=person_home(project, site.home),
        )
        made = await spare.create(
            building,
            project,
            name=run.name,
            base=run.base,
            worktrees=site.worktrees,
            spares=site.spares,
        )
        for each in made.left_out:
            site.tell(each)
        self._bring(project, made.git_dir)

    def _bring(self, project: Repository, git_dir: Path) -> None:
        wanted = self._site.preparer.settings.workspace.copy
        if not wanted or project.work_tree is None:
            return
        missing = bring.bring(
            wanted,
            source=project.work_tree,
            target=self._workspace(),
            exclude=git_dir / "info/exclude",
            owner=project.owner,
        )
        for path in missing:
            self._site.tell(f"[workspace] copy: there is no {path} to copy")

    async def request(self, command: tuple[str, ...]) -> Request:
        run = self._site.run
        workspace = self._workspace()
        project = await git.find(run.project)
        start = workspace / run.order.folder
        return Request(
            run=run.id,
            command=command,
            # Asked of the host: inside, a folder that is missing would end the start.
            cwd=start if start.resolve() == start and start.is_dir() else workspace,
            mounts=tuple((each.flag, each.config) for each in run.order.mounts),
            environment=run.order.environment,
            ptrace=run.order.ptrace,
            workspace=workspace,
            git=private.mounts(project, into=self._site.git_folder, workspace=workspace),
            limits=run.limits,
        )

    async def settle(self, plan: Plan, fenced: Runner) -> None:
        site, workspace = self._site, self._workspace()
        project = await git.find(site.run.project)
        git_dir = site.git_folder / "git"
        if await separate.wants_filters(project, workspace, git_dir):
            for each in await separate.apply_filters(site.run_inside, plan, workspace):
                site.tell(each)
        await self._set_up(plan, fenced)
        separate.settle(git_dir)
        self._is_large = (git_dir / "index").lstat().st_size >= LARGE

    async def meanwhile(self) -> None:
        run, wanted = self._site.run, self._site.preparer.settings.workspace.spare
        if self._is_large and wanted and run.base is not None:
            project = await git.find(run.project)
            await spare.prepare(project, base=run.base, spares=self._site.spares)

    async def _set_up(self, plan: Plan, fenced: Runner) -> None:
        setup = self._site.preparer.settings.workspace.setup
        if not setup:
            return
        self._site.tell(f"[workspace] setup: {setup}")
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as nothing:
            made = replace(plan, command=("/bin/sh", "-c", setup))
            ending = await fenced(made, nothing.fileno(), said.fileno(), said.fileno())
            size = os.fstat(said.fileno()).st_size
            tail = os.pread(said.fileno(), KIB, max(0, size - KIB)).decode(errors="replace")
        if ending.code != 0:
            raise AgsError(
                "make the workspace ready",
                subject=setup,
                cause=f"it ended with {ending.code}\n{tail}".strip(),
                hint="see [workspace] setup in your settings",
            )

    async def collect(self, plan: Plan) -> Result:
        site, run = self._site, self._site.run
        assert run.base is not None and run.branch is not None
        project = await git.find(run.project)
        work = collect.Work(
            project,
            self._workspace(),
            site.git_folder / "git",
            run.branch,
            run.base,
            await git.identity(person_home(project, site.home)),
            message=f"Work of {run.agent} that was left uncommitted\n\n{run.wanted}".strip(),
        )
        came = await collect.collect(
            work,
            site.run_inside,
            plan,
            output=site.held.run_dir / "result.bundle",
            expected=run.left_at,
        )
        site.held.save(replace(site.run, left_at=came.commit))
        for each in came.left_out:
            site.tell(f"left out: {each}")
        if not came.on_base:
            site.tell("the agent rewrote history: its branch does not start at the base commit")
        known = (came.commit, run.base)
        source = Source(project, work.workspace, work.git_dir, run.branch, known)
        for note in await branches.bring(source, site.run_inside, plan):
            site.tell(note)
        return await store_diff(site.held, project, run.base, came.commit)

    def _workspace(self) -> Path:
        workspace = self._site.run.workspace
        assert workspace is not None
        return workspace


def check_reachable(ags_home: Path, owner: Owner) -> None:
    """Started as root for another, that other must get at what we make for the run."""
    if os.geteuid() != 0 or owner.uid == 0:
        return
    for folder in (ags_home, *ags_home.parents):
        facts = folder.stat()
        mine = facts.st_uid == owner.uid and facts.st_mode & 0o100
        if not mine and not facts.st_mode & 0o001:
            way = "set AGS_HOME to a folder that they can reach, and `chmod 711` it"
            if folder == ags_home:  # what is in it is closed by itself
                way = f"let others pass through it: `chmod 711 {shlex.quote(str(folder))}`"
            raise AgsError(
                "work on a project that is another user's",
                subject=folder,
                cause=f"user {owner.uid}, whose project it is, cannot get through this folder",
                hint=f"start ags as that user, or {way}",
            )
