from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from ags.workspace.survey import Survey, mount_points, survey
from ags.workspace.tree import Found
from tests.descriptors import held
from tests.workspace.scene import ME, NOBODY, Scene, by_everyone, forked, swapping

ODD = os.fsdecode(b"odd-\xff\xfe \n")


def paths(found: Iterable[Found]) -> set[str]:
    return {each.path for each in found}


def bind(path: Path) -> socket.socket:
    """A live socket."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.fsencode(path))
    server.listen()
    return server


def test_ordinary_files_are_nothing_to_report(scene: Scene) -> None:
    scene.write("src/main.c")
    (scene.root / "link").symlink_to("/etc")
    assert survey(scene.root) == Survey(entries=3)


def test_repositories_below_the_top_are_found(scene: Scene) -> None:
    scene.folder(".git/objects")
    scene.folder("vendor/lib/.git")
    scene.write("tree/.git", "gitdir: ../.git/worktrees/tree\n")
    for part in ("objects", "refs"):
        scene.folder(f"fixtures/bare/{part}")
    scene.write("fixtures/bare/HEAD")
    scene.write("fixtures/HEAD", "only a name")
    seen = survey(scene.root)
    assert paths(seen.repositories) == {"vendor/lib/.git", "tree/.git", "fixtures/bare"}
    assert paths(seen.anchors) == {"vendor", "vendor/lib", "tree", "fixtures"}
    assert seen.unsettled == ()


def test_what_no_mount_can_cover_is_told(scene: Scene) -> None:
    scene.folder("sub")
    (scene.root / "sub/.git").symlink_to("../elsewhere")
    assert survey(scene.root).unsettled == ("sub/.git",)


def test_a_workspace_that_is_a_bare_repository_is_told(scene: Scene) -> None:
    subprocess.run(("git", "init", "-q", "--bare", scene.root), check=True)
    assert survey(scene.root).unsettled == (".",)


def test_sockets_are_found_even_where_the_run_only_reads(scene: Scene) -> None:
    places = ("agent.sock", f"{ODD}/s", ".git/annex/ssh/s", ".vscode/s", "sub/.git/s")
    servers = []
    for place in places:
        (scene.root / place).parent.mkdir(parents=True, exist_ok=True)
        servers.append(bind(scene.root / place))
    assert paths(survey(scene.root, (".vscode",)).sockets) == set(places)
    for server in servers:
        server.close()


def test_fifos_are_counted_and_never_opened(scene: Scene) -> None:
    os.mkfifo(scene.root / "pipe")
    assert survey(scene.root).specials == 1


@by_everyone
def test_a_file_with_a_name_outside_is_shared_and_one_with_two_names_inside_is_not(
    scene: Scene,
) -> None:
    scene.shared(f"store/{ODD}")
    with scene.person():
        os.link(scene.write("own"), scene.root / "second")
        os.link(scene.root / f"store/{ODD}", scene.root / "third")
    assert paths(survey(scene.root).shared) == {f"store/{ODD}", "third"}


def test_a_name_that_is_read_only_inside_is_as_good_as_outside(scene: Scene) -> None:
    """Otherwise a run would write a protected file by its other name."""
    os.link(scene.write(".vscode/tasks.json"), scene.root / "a")
    os.link(scene.write(".envrc"), scene.root / "b")
    os.link(scene.write(".git/config"), scene.root / "c")
    os.link(scene.write("sub/.git/config"), scene.root / "d")
    held = (".vscode", ".envrc")
    assert paths(survey(scene.root, held).shared) == {"a", "b", "c", "d"}
    assert paths(survey(scene.root).shared) == {"c", "d"}


def test_links_are_not_followed(scene: Scene) -> None:
    (scene.outside / ".git").mkdir()
    (scene.root / "away").symlink_to(scene.outside)
    assert survey(scene.root).repositories == ()


def test_a_link_swapped_in_during_the_walk_is_not_followed(scene: Scene) -> None:
    """The name is listed as a directory and opened as a link, sooner or later."""
    (scene.outside / "secret/.git").mkdir(parents=True)
    scene.folder("sub/swapped")
    (scene.root / "sub/spare").symlink_to(scene.outside)
    with swapping(scene.root, "swapped", "spare", ["sub"]):
        for _ in range(2000):
            assert survey(scene.root).repositories == ()


def test_a_walk_that_is_too_long_says_so(scene: Scene) -> None:
    for number in range(20):
        scene.write(f"{number % 3}/{number}")
    assert survey(scene.root, most_entries=23).truncated is None
    assert survey(scene.root, most_entries=22).truncated == "it has more than 22 entries"


def test_more_repositories_than_can_be_held_are_not_passed_over(scene: Scene) -> None:
    for number in range(300):
        scene.write(f"{number}/.git")
    assert survey(scene.root).truncated == "it has more than 256 repositories"


def test_nesting_beyond_any_path_is_told_and_bounded(scene: Scene) -> None:
    here = os.open(scene.root, os.O_PATH)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    before = held()
    seen = survey(scene.root)
    assert seen.unsettled == ("/".join(["d"] * 129),)
    assert held() == before


def test_a_path_too_long_to_be_mounted_is_told(scene: Scene) -> None:
    here = os.open(scene.root, os.O_PATH)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        here = os.open("d" * 250, os.O_PATH, dir_fd=here)
    (deep,) = survey(scene.root).unsettled
    assert 3500 < len(deep) < 4096


def test_a_directory_that_cannot_be_read_is_told(scene: Scene) -> None:
    scene.folder("closed").chmod(0)

    def look() -> None:
        assert survey(scene.root).unsettled == ("closed",)

    forked(look, NOBODY if ME.uid == 0 else None)


@pytest.mark.skipif(ME.uid != 0, reason="mounts")
@pytest.mark.parametrize("options", (("-t", "tmpfs", "tmpfs"), ("--bind", "../outside")))
def test_another_mount_is_told_and_not_entered(scene: Scene, options: tuple[str, ...]) -> None:
    """A bind mount is of the same file system: only the table of mounts gives it away."""
    (scene.outside / ".git").mkdir()
    point = scene.folder("some where")
    subprocess.run(("mount", *options, point), cwd=scene.root, check=True)
    try:
        (point / ".git").mkdir(exist_ok=True)
        seen = survey(scene.root)
        assert mount_points(scene.root) == seen.mounts == ("some where",)
        assert seen.repositories == ()
    finally:
        subprocess.run(("umount", point), check=True)


def test_fifty_thousand_files_cost_little_more_than_to_look_at_each() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:  # quick to fill
        for folder in range(500):
            os.mkdir(f"{root}/{folder}")
            for number in range(100):
                os.mknod(f"{root}/{folder}/{number}")
        took, looked = [], []
        for _ in range(3):
            start = time.process_time()
            assert survey(Path(root)).entries == 50_500
            took.append(time.process_time() - start)
            start = time.process_time()
            for at, _, files in os.walk(root):
                for name in files:
                    os.lstat(f"{at}/{name}")
            looked.append(time.process_time() - start)
    assert min(took) < 8 * min(looked)
