"""What `[workspace] copy` brings into a run's workspace."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from ags.workspace.bring import bring
from tests.workspace.agent import Agent, project, sh
from tests.workspace.scene import ME, Scene, by_everyone


def brought(tmp_path: Path, *paths: str) -> tuple[PurePosixPath, ...]:
    for name in ("source", "target"):
        (tmp_path / name).mkdir(exist_ok=True)
    return bring(
        map(PurePosixPath, paths),
        source=tmp_path / "source",
        target=tmp_path / "target",
        exclude=tmp_path / "exclude",
        owner=ME,
    )


def test_files_and_folders_come_along_with_their_modes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "etc/keys").mkdir(parents=True)
    (source / ".env").write_text("A=1")
    (source / "etc/keys/run").write_text("x")
    (source / "etc/keys/run").chmod(0o750)
    (source / "etc/keys/link").symlink_to("run")
    assert brought(tmp_path, ".env", "etc/keys") == ()
    target = tmp_path / "target"
    assert (target / ".env").read_text() == "A=1"
    assert (target / "etc/keys/run").stat().st_mode & 0o777 == 0o750
    assert os.readlink(target / "etc/keys/link") == "run"


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    os.mkfifo(tmp_path / "source/pipe")
    assert brought(tmp_path, ".env", "a/b", "pipe") == (
        PurePosixPath(".env"),
        PurePosixPath("a/b"),
        PurePosixPath("pipe"),
    )


def test_a_folder_that_is_a_link_leads_nowhere(tmp_path: Path) -> None:
    """An agent that worked in place may have planted it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("victim")
    (tmp_path / "source").mkdir()
    (tmp_path / "source/etc").symlink_to("../outside")
    (tmp_path / "source/real").mkdir()
    (tmp_path / "source/real/secret").write_text("mine")
    assert brought(tmp_path, "etc/secret", "real/secret") == (PurePosixPath("etc/secret"),)
    assert (tmp_path / "target/real/secret").read_text() == "mine"
    assert not (tmp_path / "target/etc/secret").exists()


@by_everyone
def test_what_is_brought_is_no_work_of_the_agents(scene: Scene) -> None:
    project(scene)
    sh(scene, "echo A=1 > .env; echo '#' > '#odd [name]'; echo two > plain")
    agent = Agent(scene)
    bring(
        map(PurePosixPath, (".env", "#odd [name]")),
        source=scene.root,
        target=agent.workspace,
        exclude=agent.private.git_dir / "info/exclude",
        owner=scene.owner,
    )
    assert agent.does("cat .env; echo more >> .env; echo new > new").startswith("A=1")
    agent.collect()
    assert agent.changes() == {"A new"}
