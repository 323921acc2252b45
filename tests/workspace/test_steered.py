"""What git on the host would obey outside `.git` cannot be changed by what works in place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ags.config.schema import Settings, Workspace
from ags.prepare import Preparer, Request
from ags.workspace.steered import steered
from tests.box import Box, run_plan
from tests.workspace.repositories import Checkout, checkout


@pytest.fixture
def project(world: Path, tmp_path: Path) -> Checkout:
    made = checkout(tmp_path / "project")
    made.write("tools/hooks/pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
    made.write("tools/fsmonitor", "#!/bin/sh\n", 0o755)
    made.write("shared.config", "[user]\nname = Ann\n")
    made.write("plain", "plain\n")
    made.commit("first")
    return made


def found(project: Checkout) -> set[str]:
    home = Path(project.environment["HOME"])
    return {each.path for each in asyncio.run(steered(project.folder, home))}


def test_an_ordinary_repository_has_nothing_of_the_kind(project: Checkout) -> None:
    assert found(project) == set()


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("core.hooksPath", "tools/hooks", "tools/hooks"),
        ("core.hooksPath", "./tools/../tools/hooks", "tools/hooks"),
        ("core.hooksPath", "not-there-yet", "not-there-yet"),
        ("include.path", "../shared.config", "shared.config"),
        ("includeIf.gitdir:/.path", "../shared.config", "shared.config"),
        ("core.fsmonitor", "tools/fsmonitor", "tools/fsmonitor"),
        ("filter.x.clean", "sh tools/fsmonitor %f", "tools/fsmonitor"),
        ("diff.x.textconv", "tools/fsmonitor", "tools/fsmonitor"),
        ("alias.x", "!tools/fsmonitor", "tools/fsmonitor"),
    ],
)
def test_what_a_setting_names_is_found(project: Checkout, key: str, value: str, path: str) -> None:
    project.git("config", key, value)
    assert found(project) == {path}


def test_what_lies_elsewhere_is_not_the_workspaces_to_hold(project: Checkout) -> None:
    for value in ("/usr/share/hooks", "../outside", ".git/other-hooks", "~/hooks"):
        project.git("config", "core.hooksPath", value)
        assert found(project) == set()


def test_a_hooks_folder_of_the_persons_own_settings_counts_in_every_repository(
    project: Checkout,
) -> None:
    project.git("config", "--global", "core.hooksPath", "tools/hooks")
    assert found(project) == {"tools/hooks"}


def test_the_empty_folder_of_a_submodule_is_found(project: Checkout) -> None:
    commit = project.ask("rev-parse", "HEAD")
    project.write(".gitmodules", '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n')
    project.git("update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    (project.folder / "sub").mkdir()
    assert found(project) == {"sub/.git"}


def run(project: Checkout, script: str, settings: Settings | None = None) -> None:
    home = Path(project.environment["HOME"])
    state, folder = home / "state", home / "settings"
    preparer = Preparer(
        {"PATH": "/usr/bin:/bin"}, home / "home", state, settings or Settings(), folder
    )
    request = Request(run="test", command=("/bin/sh", "-c", script), cwd=project.folder)

    async def scene() -> None:
        with await preparer.prepare(request) as prepared:
            await run_plan(Box(project.folder, home / "home").backend, prepared.plan)

    asyncio.run(scene())


def test_a_command_cannot_change_the_hooks_that_the_host_will_run(project: Checkout) -> None:
    project.git("config", "core.hooksPath", "tools/hooks")
    marker = project.folder.parent / "ran"
    attack = f"""
        echo 'touch {marker}' >> tools/hooks/pre-commit
        mv tools away; mkdir -p tools/hooks
        printf '#!/bin/sh\\ntouch {marker}\\n' > tools/hooks/post-commit
        chmod +x tools/hooks/post-commit; echo changed > plain
    """
    run(project, attack)
    assert (project.folder / "plain").read_text() == "changed\n"
    project.commit("as the person does")
    assert not marker.exists()
    lifted = Settings(workspace=Workspace(unprotect=(Path("tools/hooks"),)))  # type: ignore[arg-type]
    run(project, attack, lifted)
    project.commit("again")
    assert marker.exists()


def test_a_repository_cannot_be_put_where_a_submodule_will_be(project: Checkout) -> None:
    commit = project.ask("rev-parse", "HEAD")
    project.write(".gitmodules", '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n')
    project.git("update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    (project.folder / "sub").mkdir()
    marker = project.folder.parent / "ran"
    attack = (
        f"rm -rf sub/.git; git init -q sub && git -C sub config core.fsmonitor 'touch {marker}'"
        f"; git init -q sub2 && git -C sub2 config core.fsmonitor 'touch {marker}.twin'"
    )
    run(project, attack)
    project.git("status")
    assert not marker.exists() and not (project.folder / "sub/.git").exists()
    project.git("-C", "sub2", "status")
    assert Path(f"{marker}.twin").exists()
