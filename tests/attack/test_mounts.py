"""THREATS F7: a mount that would hand out too much is refused, and nothing runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from ags.config.schema import MountConfig
from ags.errors import AgsError
from tests.attack.as_exec import run
from tests.box import Box


@pytest.fixture
def home(box: Box) -> Path:
    """Of the person who calls, with what such homes hold; the workspace lies in it."""
    home = box.workspace.parent
    for name in (".ssh", ".aws", ".config/ags", "state/runs", "harmless"):
        (home / name).mkdir(parents=True, exist_ok=True)
        os.chown(home / name, box.workspace.stat().st_uid, -1)
    (home / "innocent").symlink_to(".ssh")
    return home


TOO_MUCH = [
    ".", "..", ".ssh", ".aws", ".config", ".config/ags", "state", "innocent", "workspace/../.ssh",
    "state/runs",
]  # fmt: skip


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_folder_that_holds_too_much_cannot_be_mounted(box: Box, home: Path, name: str) -> None:
    mount = MountConfig(host=home / name, container=PurePosixPath("/given"), mode="rw")
    with pytest.raises(AgsError):
        run(box, "touch /given/planted", home=home, mounts=(mount,))
    assert not list(home.rglob("planted"))
    harmless = MountConfig(host=home / "harmless", container=PurePosixPath("/given"), mode="rw")
    run(box, "touch /given/planted", home=home, mounts=(harmless,))
    assert (home / "harmless" / "planted").exists()


def test_the_home_is_no_workspace(box: Box, home: Path) -> None:
    with pytest.raises(AgsError):
        run(box, "touch planted", home=home, cwd=home)
    assert not (home / "planted").exists()
    run(box, "touch planted", home=home)
    assert (box.workspace / "planted").exists()


@pytest.mark.parametrize("target", ["/etc", "/usr/bin", "/proc/x", "/", "/tmp", "/dev/shm"])
def test_what_the_sandbox_makes_cannot_be_covered(box: Box, home: Path, target: str) -> None:
    mount = MountConfig(host=home / "harmless", container=PurePosixPath(target))
    with pytest.raises(AgsError):
        run(box, "true", home=home, mounts=(mount,))


def test_a_mount_point_is_never_made_in_the_persons_folder(box: Box, home: Path) -> None:
    mount = MountConfig(host=home / "harmless", container=PurePosixPath(box.workspace / "new"))
    with pytest.raises(AgsError, match="nothing at this place"):
        run(box, "true", home=home, mounts=(mount,))
    assert not (box.workspace / "new").exists()
    (box.workspace / "new").mkdir()
    (home / "harmless" / "file").touch()
    assert run(box, "ls new", home=home, mounts=(mount,)).out == "file\n"


def test_a_part_of_the_workspace_is_not_shown_writable_at_a_second_place(
    box: Box, home: Path
) -> None:
    """What is protected at the one place could be changed at the other."""
    for folder in (box.workspace, box.workspace / "sub"):
        folder.mkdir(exist_ok=True)
        mount = MountConfig(host=folder, container=PurePosixPath("/again"), mode="rw")
        with pytest.raises(AgsError, match="parts of one another"):
            run(
                box,
                "mkdir /again/.vscode; touch /again/.vscode/tasks.json",
                home=home,
                mounts=(mount,),
            )
    assert not list(box.workspace.rglob("tasks.json"))


def test_a_file_system_mounted_in_the_workspace_is_judged_like_a_mount(
    box: Box, home: Path
) -> None:
    place = box.workspace / "data"
    place.mkdir()
    for source, refused in ((home / ".ssh", True), (home / "harmless", False)):
        subprocess.run(["mount", "--bind", source, place], check=True)
        try:
            if refused:
                with pytest.raises(AgsError, match="mounted in the workspace"):
                    run(box, "touch data/planted", home=home)
            else:
                run(box, "touch data/planted", home=home)
            assert (source / "planted").exists() is not refused
        finally:
            subprocess.run(["umount", place], check=True)
