"""What keeps an agent's work from the host, each taken out: see `mutations.py`.

They hold in the engine and in the supervisor alike; `supervisor.py` takes them out there.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ags import proc
from ags.control import server
from ags.model import Bind, Ending, MountStep, Plan
from ags.supervisor.site import Site
from ags.workspace import collect, git, private, separate
from ags.workspace.git import Repository
from tests.attack.patching import Patch

VERBS, OBJECTS = "test_git_verbs.py", "test_git_objects.py"
LINKS, CONTROL = "test_planted_links.py", "test_control.py"


def without_a_private_git(patch: Patch) -> None:
    def mounts(repository: Repository, *, into: Path, workspace: Path) -> tuple[MountStep, ...]:
        place = PurePosixPath(workspace / ".git")
        return (Bind(repository.git_dir, place, writable=True),)

    patch.setattr(private, "mounts", mounts)


def with_the_repositorys_settings(patch: Patch) -> None:
    """Plain git, as anybody would call it."""
    patch.setattr(git, "SETTINGS", {})
    patch.setattr(
        git,
        "_environment",
        lambda repository, view: (
            proc.MINIMAL_ENVIRONMENT
            | {"GIT_DIR": str(repository.git_dir)}
            | ({"GIT_WORK_TREE": str(repository.work_tree)} if repository.work_tree else {})
        ),
    )


def with_scripts_on_the_host(patch: Patch) -> None:
    async def run(site: Site, plan: Plan, stdin: int, stdout: int, stderr: int) -> Ending:
        places = {
            "GIT_DIR": str(site.git_folder / "git"),
            "GIT_WORK_TREE": str(plan.cwd),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(site.run.project / ".git/objects"),
        }
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(
                [word.replace("/tmp/ags-", f"{folder}/") for word in plan.command],
                cwd=plan.cwd,
                env={**dict(plan.environment), "HOME": str(site.home)} | places,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                check=False,
            )
        return Ending(ran.returncode)

    patch.setattr(Site, "run_inside", run)


def without_a_look_at_objects(patch: Patch) -> None:
    run = git.run

    async def unchecked(repository: Repository, *arguments: str, **options: object) -> proc.Result:
        kept = [each for each in arguments if each not in ("--strict", "--fsck-objects")]
        return await run(repository, *kept, **options)  # type: ignore[arg-type]

    patch.setattr(git, "run", unchecked)


def with_any_branch_overwritten(patch: Patch) -> None:
    async def move(project: Repository, branch: str, commit: str, expected: str | None) -> None:
        await git.run(project, "update-ref", f"refs/heads/{branch}", commit)

    patch.setattr(collect, "move_branch", move)


def with_links_followed(patch: Patch) -> None:
    def remove(parent: Path, name: str) -> None:
        _follow(parent / name)

    patch.setattr(separate, "remove_folder", remove)


def _follow(path: Path) -> None:
    if path.is_dir() and path.resolve() != Path("/"):
        for each in path.iterdir():
            _follow(each)
    if path.is_dir() and not path.is_symlink():
        os.rmdir(path)
    else:
        os.unlink(path)


def with_anybody_heard(patch: Patch) -> None:
    patch.setattr(server, "_in_our_namespace", lambda pid: True)


RUNS: dict[str, tuple[Callable[[Patch], None], tuple[str, ...]]] = {
    "runs: a git directory of the agent's own": (
        without_a_private_git,
        (
            f"{VERBS}::test_what_an_agent_plants_is_not_in_the_persons_repository",
            f"{OBJECTS}::test_refs_that_an_agent_moves_stay_where_the_person_has_them",
        ),
    ),
    "runs: git without the repository's settings": (
        with_the_repositorys_settings,
        (f"{VERBS}::test_the_persons_own_drivers_do_not_run_on_an_agents_work[programs]",),
    ),
    "runs: collected inside": (
        with_scripts_on_the_host,
        (f"{VERBS}::test_filters_that_an_agent_plants_do_not_run_where_its_work_is_collected",),
    ),
    "runs: objects are looked at": (
        without_a_look_at_objects,
        (f"{OBJECTS}::test_hostile_objects_do_not_come_into_the_project[a-git-directory]",),
    ),
    "runs: a branch moves only from where it was": (
        with_any_branch_overwritten,
        (f"{OBJECTS}::test_a_branch_that_the_person_made_meanwhile_is_left_alone",),
    ),
    "runs: removed without following links": (
        with_links_followed,
        (f"{LINKS}::test_a_link_in_the_workspace_leads_the_host_nowhere[a-folder]",),
    ),
    "runs: control from our own namespace only": (
        with_anybody_heard,
        (f"{CONTROL}::test_a_socket_mounted_inside_all_the_same_obeys_nobody_there",),
    ),
}
