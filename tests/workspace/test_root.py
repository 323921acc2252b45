from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.workspace.root import find_root
from tests.workspace.scene import ME, NOBODY, Scene

as_root = pytest.mark.skipif(ME.uid != 0, reason="gives files to another user")


def test_the_enclosing_repository_is_the_root(scene: Scene) -> None:
    scene.folder(".git")
    assert find_root(scene.folder("src/deep"), ME.uid) == scene.root


def test_the_nearest_of_two_repositories_is_the_root(scene: Scene) -> None:
    scene.folder(".git")
    scene.write("inner/.git", "gitdir: elsewhere\n")
    assert find_root(scene.folder("inner/src"), ME.uid) == scene.root / "inner"


def test_outside_of_a_repository_the_directory_itself_is_the_root(scene: Scene) -> None:
    here = scene.folder("plain")
    assert find_root(here, ME.uid, frozenset({scene.root})) == here


def test_links_on_the_way_are_resolved(scene: Scene) -> None:
    scene.folder(".git")
    scene.folder("src")
    (scene.outside / "short").symlink_to(scene.root / "src")
    assert find_root(scene.outside / "short", ME.uid) == scene.root


def test_the_search_never_reaches_a_place_it_must_stop_at(scene: Scene) -> None:
    scene.folder(".git")
    here = scene.folder("home/project")
    assert find_root(here, ME.uid) == scene.root
    assert find_root(here, ME.uid, frozenset({scene.root})) == here
    assert find_root(here, ME.uid, frozenset({scene.root / "home"})) == here
    assert find_root(here, ME.uid, frozenset({here})) == here


@as_root
@pytest.mark.parametrize("uid", (ME.uid, NOBODY.uid))
def test_a_stranger_cannot_widen_the_root(scene: Scene, uid: int) -> None:
    """The folder is root's, as /tmp is, and anybody may have put the `.git` there."""
    mark = scene.folder(".git")
    here = scene.folder("project")
    os.chown(here, NOBODY.uid, NOBODY.gid)
    os.chown(mark, 1234, 1234)
    assert find_root(here, uid) == here
    os.chown(mark, NOBODY.uid, NOBODY.gid)
    assert find_root(here, uid) == here
    os.chown(scene.root, NOBODY.uid, NOBODY.gid)
    assert find_root(here, uid) == scene.root


@as_root
def test_a_stranger_s_whole_repository_around_the_directory_is_not_taken(scene: Scene) -> None:
    here = scene.folder("project")
    os.chown(here, NOBODY.uid, NOBODY.gid)
    for path in (scene.root, scene.folder(".git")):
        os.chown(path, 1234, 1234)
    assert find_root(here, NOBODY.uid) == here
    assert find_root(here, 1234) == scene.root


@as_root
def test_the_search_stays_on_one_file_system(scene: Scene) -> None:
    scene.folder(".git")
    here = scene.folder("stick")
    assert find_root(here, ME.uid) == scene.root
    subprocess.run(("mount", "-t", "tmpfs", "tmpfs", here), check=True)
    try:
        assert find_root(here, ME.uid) == here
    finally:
        subprocess.run(("umount", here), check=True)


@as_root
def test_root_finds_the_repository_of_the_user_whose_directory_it_is_in(scene: Scene) -> None:
    for path in (scene.root, scene.folder(".git"), scene.folder("src")):
        os.chown(path, NOBODY.uid, NOBODY.gid)
    assert find_root(scene.root / "src", 0) == scene.root


def test_a_directory_that_is_gone_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(AgsError, match="cannot use the current directory .*no such file"):
        find_root(tmp_path / "gone", ME.uid)
