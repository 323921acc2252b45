from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.workspace import unshare as module
from ags.workspace.survey import survey
from ags.workspace.tree import Found, Inode
from ags.workspace.unshare import Unshared, refuse, unshare
from tests.workspace.scene import ME, NOBODY, Scene, by_everyone, forked, swapping

ODD = os.fsdecode(b"odd-\xff\n")


def settle(scene: Scene) -> Unshared:
    return unshare(scene.root, survey(scene.root).shared, scene.owner)


def found(path: Path, name: str) -> Found:
    return Found(name, Inode.of((path / name).lstat()))


@by_everyone
def test_writing_a_file_no_longer_changes_the_one_outside(scene: Scene) -> None:
    victim = scene.shared(f"deep/{ODD}/file")
    control = scene.shared("control")
    ours = [each for each in survey(scene.root).shared if each.path != "control"]
    assert unshare(scene.root, ours, scene.owner) == Unshared(1, len("victim"), 0, 0)
    for name in (f"deep/{ODD}/file", "control"):
        assert (scene.root / name).read_text() == "victim"
        with scene.person():
            (scene.root / name).write_text("agent's")
    assert victim.read_text() == "victim"
    assert control.read_text() == "agent's", "without a copy of its own it does change"


@by_everyone
def test_a_copy_is_like_the_file_it_replaces(scene: Scene) -> None:
    victim = scene.shared("tool")
    with scene.person():
        victim.chmod(0o4751)
        os.setxattr(victim, "user.note", b"kept")
        os.utime(victim, ns=(10**18, 10**18 + 1))
    assert settle(scene).files == 1
    one, other = (scene.root / "tool").stat(), victim.stat()
    assert one.st_ino != other.st_ino
    assert (one.st_nlink, other.st_nlink) == (1, 1)
    for fact in ("st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns"):
        assert getattr(one, fact) == getattr(other, fact)
    assert os.getxattr(scene.root / "tool", "user.note") == b"kept"
    assert scene.names() == {"tool"}


@by_everyone
def test_names_that_were_one_file_inside_stay_one(scene: Scene) -> None:
    scene.shared("a/one")
    with scene.person():
        (scene.root / "b").mkdir()
        os.link(scene.root / "a/one", scene.root / "b/two")
        os.link(scene.root / "a/one", scene.root / "a/three")
    assert settle(scene) == Unshared(3, len("victim"), 0, 0)
    facts = {(scene.root / name).stat().st_ino for name in ("a/one", "b/two", "a/three")}
    assert len(facts) == 1
    assert survey(scene.root).shared == ()
    assert scene.names() == {"a", "b", "a/one", "b/two", "a/three"}


def test_holes_stay_holes(scene: Scene) -> None:
    victim = scene.shared("sparse")
    with victim.open("r+b") as file:
        file.seek(3 << 30)
        file.write(b"tail")
        file.truncate(8 << 30)
    assert settle(scene).bytes == 8 << 30
    made = scene.root / "sparse"
    assert made.stat().st_blocks * 512 < 1 << 20
    with made.open("rb") as file:
        assert file.read(6) == b"victim"
        file.seek(3 << 30)
        assert file.read(5) == b"tail\0"


def test_content_of_any_size_is_the_same(scene: Scene) -> None:
    text = "".join(f"{number}\n" for number in range(700_000))
    scene.shared("large", text)
    scene.shared("empty", "")
    assert settle(scene).files == 2
    assert (scene.root / "large").read_text() == text
    assert (scene.root / "empty").read_text() == ""


@by_everyone
def test_what_is_no_longer_what_was_found_is_left_alone(scene: Scene) -> None:
    """An agent that is running already swaps a name, or a folder, between survey and copy."""
    for name in ("other", "link", "pipe", "gone", "moved/file"):
        scene.shared(name)
    shared = survey(scene.root).shared
    secret = scene.outside / "secret"
    with scene.person():
        secret.write_text("secret")
        for name in ("other", "link", "pipe", "gone"):
            (scene.root / name).unlink()
        (scene.root / "other").write_text("new")
        (scene.root / "link").symlink_to(secret)
        os.mkfifo(scene.root / "pipe")
        (scene.root / "moved").rename(scene.outside / "moved")
        (scene.root / "moved").symlink_to(scene.outside / "moved")
    assert unshare(scene.root, shared, scene.owner) == Unshared(0, 0, 0, 5)
    assert (scene.root / "other").read_text() == "new"
    assert (scene.root / "link").is_symlink()
    assert stat.S_ISFIFO((scene.root / "pipe").lstat().st_mode)
    assert (scene.outside / "moved/file").stat().st_nlink == 2


def test_a_name_that_keeps_being_swapped_brings_nothing_else_into_the_workspace(
    scene: Scene,
) -> None:
    secret = scene.outside / "secret"
    secret.write_text("secret")
    names = [f"{number}" for number in range(200)]
    for name in names:
        scene.shared(f"{name}/swapped", "victim" * 10_000)
        (scene.root / name / "spare").symlink_to(secret)
    shared = survey(scene.root).shared
    with swapping(scene.root, "swapped", "spare", names):
        for _ in range(20):
            unshare(scene.root, shared, scene.owner)
    files = [path for path in scene.root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.read_text() for path in files} == {"victim" * 10_000}


def test_a_file_that_is_being_written_to_is_not_torn(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = scene.shared("log", "line\n" * 400_000)
    shared = survey(scene.root).shared
    copy = module._copy_content

    def meanwhile(source: int, target: int, size: int) -> None:
        copy(source, target, size)
        with victim.open("ab") as file:
            file.write(b"line\n")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_copy_content", meanwhile)
        with pytest.raises(AgsError, match="being written to right now"):
            unshare(scene.root, shared, scene.owner)
    assert (scene.root / "log").samefile(victim)
    assert scene.names() == {"log"}
    assert unshare(scene.root, shared, scene.owner).files == 1


def test_a_file_deeper_than_any_path_is_unshared(scene: Scene) -> None:
    here = os.open(scene.root, os.O_PATH)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        here = os.open("d" * 200, os.O_PATH, dir_fd=here)
    victim = scene.shared("file")
    os.rename(scene.root / "file", "file", dst_dir_fd=here)
    deep = Found("/".join(["d" * 200] * 30 + ["file"]), Inode.of(victim.stat()))
    assert unshare(scene.root, [deep], scene.owner).files == 1
    assert victim.stat().st_nlink == 1
    os.close(here)


as_root = pytest.mark.skipif(ME.uid != 0, reason="needs files of several users")


@as_root
def test_root_does_not_copy_what_the_owner_may_not_read(scene: Scene) -> None:
    secret = scene.outside / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    os.link(secret, scene.root / "file")
    os.chown(scene.root, NOBODY.uid, NOBODY.gid)
    shared = [found(scene.root, "file")]
    assert unshare(scene.root, shared, NOBODY) == Unshared(0, 0, 1, 0)
    assert (scene.root / "file").samefile(secret)
    secret.chmod(0o644)
    assert unshare(scene.root, shared, NOBODY).files == 1
    assert (scene.root / "file").stat().st_uid == NOBODY.uid


@as_root
def test_anothers_set_user_id_bit_is_not_taken_over(scene: Scene) -> None:
    scene.shared("tool").chmod(0o4755)
    os.chown(scene.root, NOBODY.uid, NOBODY.gid)
    assert unshare(scene.root, [found(scene.root, "tool")], NOBODY).files == 1
    assert stat.S_IMODE((scene.root / "tool").stat().st_mode) == 0o755


def test_a_shared_file_that_can_be_written_but_not_replaced_is_an_error(scene: Scene) -> None:
    owner = NOBODY if ME.uid == 0 else ME
    scene.shared("closed/file")
    for path in (scene.root / "closed", scene.root / "closed/file"):
        os.chown(path, owner.uid, owner.gid)
    (scene.root / "closed").chmod(0o555)

    def attempt() -> None:
        with pytest.raises(AgsError, match="hard-linked file .closed/file.: permission denied"):
            unshare(scene.root, [found(scene.root, "closed/file")], owner)

    forked(attempt, owner if ME.uid == 0 else None)
    (scene.root / "closed").chmod(0o755)


def test_refusing_names_the_first_few_harmlessly(scene: Scene) -> None:
    for number in range(5):
        scene.shared(f"{number}\x1b[31m")
    with pytest.raises(AgsError) as caught:
        refuse(survey(scene.root).shared)
    assert "\x1b" not in str(caught.value)
    assert "and 2 more" in str(caught.value)
    assert "hard_links" in caught.value.hint
    refuse(())
