"""What is made ready on the host, and which mounts come of it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from ags.errors import AgsError
from ags.model import Bind, Mask
from ags.workspace.protect import PROTECTED, Protected, places, prepare, steps
from ags.workspace.survey import Survey, survey
from ags.workspace.tree import Found, Inode
from tests.workspace.scene import (
    ME,
    NOBODY,
    SEATS,
    Scene,
    by_everyone,
    end_fork,
    forked,
    is_empty_folder,
    scene_for,
    start_fork,
)


@by_everyone
def test_absent_paths_are_held_by_empty_directories_and_none_is_left(scene: Scene) -> None:
    scene.write("README")
    with scene.prepare() as protection:
        assert is_empty_folder(scene.root / ".vscode")
        assert is_empty_folder(scene.root / ".claude/hooks")
        assert (scene.root / ".vscode").stat().st_uid == scene.owner.uid
        assert not (scene.root / ".git").exists()
        wanted = {protected.path for protected in PROTECTED if protected.even_absent}
        assert set(protection.read_only) == {
            path for path in wanted if not path.startswith(".claude/settings")
        } | {".claude"}
    assert scene.names() == {"README"}
    assert list(scene.state.iterdir()) == []


@by_everyone
def test_existing_paths_are_held_as_they_are(scene: Scene) -> None:
    scene.write(".envrc", "export A=1")
    scene.write(".vscode/tasks.json", "{}")
    before = (scene.root / ".envrc").stat()
    with scene.prepare(".envrc", ".vscode") as protection:
        assert {held.path: held.how for held in protection.held} == {
            ".envrc": "read-only",
            ".vscode": "read-only",
        }
    assert (scene.root / ".envrc").stat() == before
    assert scene.names() == {".envrc", ".vscode", ".vscode/tasks.json"}


def test_a_file_whose_reader_would_stumble_over_a_folder_is_held_by_the_folder_around_it(
    scene: Scene,
) -> None:
    around = Protected(".claude/settings.json", around=True)
    with prepare(scene.root, (around,), scene.state, scene.owner) as protection:
        assert protection.read_only == (".claude",) and is_empty_folder(scene.root / ".claude")
    scene.write(".claude/commands/a.md", "a command")
    with prepare(scene.root, (around,), scene.state, scene.owner) as protection:
        assert protection.read_only == (".claude",)
        assert not (scene.root / ".claude/settings.json").exists()
    scene.write(".claude/settings.json", "{}")
    with prepare(scene.root, (around,), scene.state, scene.owner) as protection:
        assert protection.read_only == (".claude/settings.json",)


def test_git_sees_no_placeholder(scene: Scene) -> None:
    git = ("git", "-C", scene.root)
    subprocess.run((*git, "init", "-q"), check=True)
    with scene.prepare():
        status = subprocess.run((*git, "status", "--porcelain"), capture_output=True, check=True)
        assert status.stdout == b""
        scene.write("new")
        status = subprocess.run((*git, "status", "--porcelain"), capture_output=True, check=True)
        assert status.stdout == b"?? new\n"


@by_everyone
def test_what_was_put_into_a_placeholder_stays(scene: Scene) -> None:
    with scene.prepare():
        scene.write(".vscode/settings.json", "mine")
        scene.write(".claude/commands/new.md", "work")
    assert scene.names() == {
        *(".vscode", ".vscode/settings.json"),
        *(".claude", ".claude/commands", ".claude/commands/new.md"),
    }


@by_everyone
def test_what_replaced_a_placeholder_stays(scene: Scene) -> None:
    with scene.prepare(".idea", ".envrc", ".zed"), scene.person():
        for name in (".idea", ".envrc", ".zed"):
            (scene.root / name).rename(scene.root / f"was{name}")
        scene.write(".envrc", "mine")
        scene.folder(".idea")
        (scene.root / ".zed").symlink_to(scene.outside)
    assert scene.names() == {".idea", ".envrc", ".zed", "was.idea", "was.envrc", "was.zed"}
    assert scene.outside.is_dir()


@by_everyone
def test_the_last_run_out_takes_the_placeholders_away(scene: Scene) -> None:
    first = scene.prepare()
    second = scene.prepare(".vscode", ".more")
    first.close()
    assert is_empty_folder(scene.root / ".vscode")
    assert is_empty_folder(scene.root / ".claude/hooks")
    third = scene.prepare(".vscode")
    second.close()
    assert is_empty_folder(scene.root / ".vscode")
    third.close()
    third.close()
    assert scene.names() == set()


@by_everyone
def test_what_a_killed_run_left_is_swept_by_the_next(scene: Scene) -> None:
    def killed() -> None:
        scene.prepare(".vscode", ".claude/hooks")
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(killed) == signal.SIGKILL
    assert scene.names() == {".vscode", ".claude", ".claude/hooks"}
    with scene.prepare(".envrc"):
        assert scene.names() == {".envrc"}
    assert scene.names() == set()


@by_everyone
def test_a_run_killed_while_it_made_a_placeholder_is_swept_too(scene: Scene) -> None:
    """As if it had died after the directory was made and before its inode was written down."""

    def killed() -> None:
        scene.prepare(".vscode")
        (journal,) = scene.state.iterdir()
        first, _ = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(first)
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(killed) == signal.SIGKILL
    assert scene.names() == {".vscode"}
    scene.prepare(".envrc").close()
    assert scene.names() == set()


@by_everyone
def test_leftovers_are_not_swept_while_a_run_lives(scene: Scene) -> None:
    with scene.prepare(".vscode"):
        assert forked(lambda: scene.prepare(".idea").close()) == 0
        assert is_empty_folder(scene.root / ".vscode")


@by_everyone
def test_runs_that_come_and_go_never_lay_each_other_open(scene: Scene) -> None:
    def come_and_go() -> None:
        for _ in range(150):
            with scene.prepare(".vscode") as protection:
                (held,) = protection.held
                for _ in range(3):
                    assert Inode.of((scene.root / ".vscode").stat()) == held.inode

    children = [start_fork(come_and_go) for _ in range(5)]
    assert [end_fork(child) for child in children] == [0] * 5
    assert scene.names() == set()
    assert list(scene.state.iterdir()) == []


@by_everyone
@pytest.mark.parametrize("path", (".vscode", ".claude/settings.json"))
def test_a_link_at_a_protected_path_is_refused(scene: Scene, path: str) -> None:
    with scene.person():
        (scene.root / path.partition("/")[0]).symlink_to(scene.outside)
    before = scene.names()
    with pytest.raises(AgsError, match="a symbolic link, which cannot be held") as caught:
        scene.prepare(".aaa", path)
    assert "[workspace] unprotect" in caught.value.hint
    assert scene.names() == before
    assert list(scene.state.iterdir()) == []


@by_everyone
def test_a_fifo_at_a_protected_path_is_refused(scene: Scene) -> None:
    """A read-only mount would not keep a run from writing into it, for a host that reads it."""
    with scene.person():
        os.mkfifo(scene.root / ".envrc")
    with pytest.raises(AgsError, match="neither a file nor a directory"):
        scene.prepare()
    assert scene.names() == {".envrc"}


@by_everyone
def test_a_file_where_a_parent_should_be_is_held_itself(scene: Scene) -> None:
    scene.write(".claude", "a file")
    with scene.prepare(".claude/settings.json", ".claude/hooks") as protection:
        assert [(held.path, held.how) for held in protection.held] == [(".claude", "read-only")]


@pytest.mark.parametrize("path", ("", ".", "/etc/passwd", "../x", "a/../../x", "a\0b"))
def test_a_path_out_of_the_workspace_is_refused(scene: Scene, path: str) -> None:
    with pytest.raises(AgsError, match="relative to the workspace"):
        scene.prepare(path)


def test_a_workspace_that_became_a_link_is_not_followed(scene: Scene) -> None:
    scene.root.rmdir()
    scene.root.symlink_to(scene.outside)
    with pytest.raises(AgsError, match="cannot open the workspace"):
        scene.prepare()
    assert list(scene.outside.iterdir()) == []


@pytest.mark.skipif(ME.uid != 0, reason="gives files to another user")
def test_where_the_run_cannot_write_nothing_needs_a_placeholder(scene: Scene) -> None:
    scene.write(".vscode/tasks.json")
    with prepare(scene.root, PROTECTED, scene.state, NOBODY) as protection:
        assert protection.read_only == (".vscode",)
        assert scene.names() == {".vscode", ".vscode/tasks.json"}


@pytest.mark.skipif(ME.uid != 0, reason="gives files to another user")
def test_a_directory_we_could_not_make_is_not_ours_to_remove(scene: Scene) -> None:
    with prepare(scene.root, [Protected(".idea")], scene.state, NOBODY) as protection:
        assert protection.held == ()
        os.chown(scene.root, NOBODY.uid, NOBODY.gid)
        scene.folder(".idea")
    assert scene.names() == {".idea"}


def test_a_folder_the_run_could_make_writable_is_no_protection() -> None:
    def attempt() -> None:
        with pytest.raises(AgsError, match=r"absent \(.envrc\): permission denied") as caught:
            scene.prepare(".envrc")
        assert "writable" in caught.value.hint

    with scene_for(SEATS[-1]) as scene:
        become = scene.owner if ME.uid == 0 else None
        scene.root.chmod(0o555)
        forked(attempt, become)
        scene.root.chmod(0o755)
        forked(lambda: scene.prepare(".envrc").close(), become)


@pytest.mark.skipif(ME.uid != 0, reason="only root could be led astray")
def test_root_does_with_the_tree_only_what_its_owner_could(scene: Scene) -> None:
    """The owner turned a folder of the journal into a link, or lost it to somebody else."""
    os.chown(scene.root, NOBODY.uid, NOBODY.gid)
    theirs = Scene("root for another", NOBODY, scene.root, scene.outside, scene.state)
    protection = theirs.prepare("sub/.envrc")
    os.chown(scene.root / "sub", 0, 0)
    protection.close()
    assert (scene.root / "sub/.envrc").is_dir()
    os.chown(scene.root / "sub", NOBODY.uid, NOBODY.gid)
    theirs.prepare("sub/.envrc").close()
    assert (os.geteuid(), os.getegid()) == (0, 0)
    assert (scene.root / "sub/.envrc").is_dir(), (
        "it was the first run's to remove, and is forgotten"
    )


def test_names_that_are_not_text_can_be_protected(scene: Scene) -> None:
    odd = os.fsdecode(b"od\xffd/\xfe\n")
    with scene.prepare(odd) as protection:
        assert is_empty_folder(scene.root / odd)
        assert protection.read_only == (odd,)
    assert scene.names() == set()


def test_the_user_may_use_a_placeholder_for_real(scene: Scene) -> None:
    with scene.prepare(".vscode"):
        assert stat.S_IMODE((scene.root / ".vscode").stat().st_mode) & stat.S_IWUSR


def found(path: str) -> Found:
    return Found(path, Inode(1, 1))


def test_mounts_come_parents_first_and_only_where_nothing_above_holds_already(scene: Scene) -> None:
    scene.folder(".git")
    chosen = (*PROTECTED[:1], Protected(".claude/settings.json"), Protected("a/b"))
    seen = Survey(
        repositories=(found("a/b/c/.git"), found("a/z/.git"), found("m.git")),
        anchors=(found("a"), found("a/b"), found("a/b/c"), found("a/z")),
        sockets=(found("a/b/s"), found(".git/s"), found("t")),
    )
    with prepare(scene.root, chosen, scene.state, scene.owner) as protection:
        made = steps(protection, seen)
    at = PurePosixPath(scene.root)
    assert all(step.inode for step in made if isinstance(step, Bind))
    assert tuple(replace(s, inode=None) if isinstance(s, Bind) else s for s in made) == (
        Bind(scene.root / ".claude", at / ".claude", writable=True),
        Bind(scene.root / ".claude/settings.json", at / ".claude/settings.json"),
        Bind(scene.root / ".git", at / ".git"),
        Mask(at / ".git/s", "file"),
        Bind(scene.root / "a", at / "a", writable=True),
        Bind(scene.root / "a/b", at / "a/b"),
        Mask(at / "a/b/s", "file"),
        Bind(scene.root / "a/z", at / "a/z", writable=True),
        Bind(scene.root / "a/z/.git", at / "a/z/.git"),
        Bind(scene.root / "m.git", at / "m.git"),
        Mask(at / "t", "file"),
    )


def test_a_survey_leaves_out_what_is_held_anyway(scene: Scene) -> None:
    scene.folder(".vscode/ext/.git")
    with scene.prepare(".vscode") as protection:
        seen = survey(scene.root, protection.read_only)
        assert [held.path for held in places(protection, seen)] == [".vscode"]


def test_a_state_folder_that_cannot_be_written_is_a_clear_error(scene: Scene) -> None:
    scene.state.rmdir()
    scene.state.write_text("in the way")
    with pytest.raises(AgsError, match="cannot protect the workspace .*: "):
        scene.prepare()
    assert scene.names() == set()
