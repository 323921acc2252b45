"""A run in the person's own folder: their files, a git directory of its own, two snapshots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ags import records, runs
from ags.errors import AgsError
from ags.model import Plan
from ags.prepare import Request
from ags.runs import Applied, Result, Run
from ags.supervisor.site import Site, person_home, store_diff
from ags.workspace import branches, git, inplace, private
from ags.workspace.branches import Source
from ags.workspace.git import Repository
from ags.workspace.inplace import Finish, Place, Start
from ags.workspace.inside import Runner

T = TypeVar("T")

BEGAN, ENDED = "start.json", "finish.json"


class InPlace:
    """Outside a repository there is nothing to compare with, and so neither diff nor undo."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def create(self) -> None:
        site, run = self._site, self._site.run
        cwd, top = site.preparer.workspace(run.project)
        order = replace(run.order, folder=PurePosixPath(cwd.relative_to(top)))
        project = await repository_at(top)
        if project is None:
            site.held.save(replace(run, project=top, order=order))
            site.tell("this is no git repository, so there will be no diff and no undo")
            return
        where = await private.position(project)
        branch = f"agent--{run.name}"
        site.held.save(replace(run, project=top, order=order, workspace=top, branch=branch))
        made = await private.build(
            project,
            into=site.made_git_folder(),
            branch=branch,
            base=where.commit,
            run=run.id,
            workspace=top,
            home=person_home(project, site.home),
            index=True,
            head=where.head,
        )
        for each in made.left_out:
            site.tell(each)

    async def request(self, command: tuple[str, ...]) -> Request:
        site, run = self._site, self._site.run
        project = None if run.workspace is None else await git.find(run.project)
        return Request(
            run=run.id,
            command=command,
            cwd=run.project / run.order.folder,
            mounts=tuple((each.flag, each.config) for each in run.order.mounts),
            environment=run.order.environment,
            ptrace=run.order.ptrace,
            git=()
            if project is None
            else private.mounts(project, into=site.git_folder, workspace=run.project),
            limits=run.limits,
        )

    async def settle(self, plan: Plan, fenced: Runner) -> None:
        if self._site.run.workspace is None:
            return
        place = await place_of(self._site.run, self._site.held.run_dir, self._site.ags_home)
        began = await inplace.start(place, self._site.run_inside, plan)
        records.replace_file(place.folder / BEGAN, records.encode(began))
        self._site.held.save(replace(self._site.run, base=began.commit))
        for note in began.notes:
            self._site.tell(note)

    async def meanwhile(self) -> None:
        """Nothing: the next one starts where this one ends."""

    async def collect(self, plan: Plan) -> Result | None:
        site, run = self._site, self._site.run
        if run.workspace is None:
            return None
        place = await place_of(run, site.held.run_dir, site.ags_home)
        began = read(place.folder / BEGAN, Start)
        ended = await self._finish(place, began, plan)
        for note in ended.notes:
            site.tell(note)
        if ended.moved is not None:
            site.tell(f"its commits are on {ended.moved.ref.removeprefix('refs/heads/')}")
        known = () if began.head is None else (began.head,)
        source = Source(place.project, place.workspace, place.git_dir, place.branch, known)
        for note in await branches.bring(source, site.run_inside, plan):
            site.tell(note)
        site.held.save(self._applied(began, ended))
        return await store_diff(site.held, place.project, began.commit, ended.commit)

    async def _finish(self, place: Place, began: Start, plan: Plan) -> Finish:
        """Once: a second look would not know what the first one moved."""
        noted = place.folder / ENDED
        if noted.exists():
            return read(noted, Finish)
        ended = await inplace.finish(place, began, self._site.run_inside, plan)
        records.replace_file(noted, records.encode(ended))
        return ended

    def _applied(self, began: Start, ended: Finish) -> Run:
        """What it did is where it belongs already; noted, for undo."""
        run = self._site.run
        record = Applied(
            "in place", str(run.project), began.commit, ended.commit, runs.now(), ended.commit
        )
        left_at = ended.head if ended.kept_branch else None
        return replace(run, applied=(record,), branch=ended.kept_branch, left_at=left_at)


async def repository_at(top: Path) -> Repository | None:
    """The one whose work tree is this very folder."""
    try:
        found = await git.find(top)
    except git.NotARepository:
        return None
    same = found.work_tree is not None and found.work_tree.samefile(top)
    return replace(found, work_tree=top) if same else None


async def place_of(run: Run, run_dir: Path, ags_home: Path) -> Place:
    project = await repository_at(run.project)
    if project is None:
        cause = "its folder is no repository any more"
        raise AgsError("find the repository", subject=run.project, cause=cause)
    git_dir = ags_home / "git" / run.id / "git"
    return Place(project, run.project, git_dir, run.id, f"agent--{run.name}", run_dir)


async def undo(run: Run, run_dir: Path, ags_home: Path) -> tuple[str, ...]:
    """Files, branch and index as before the agent came; what to tell of it."""
    place = await place_of(run, run_dir, ags_home)
    return await inplace.undo(place, read(run_dir / BEGAN, Start), read(run_dir / ENDED, Finish))


def read(path: Path, kind: type[T]) -> T:
    try:
        return records.decode(kind, records.read_file(path)[0])
    except (OSError, ValueError) as error:
        cause = (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
        raise AgsError("read what was noted of the run", subject=path, cause=cause) from error
