from __future__ import annotations

import os
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.workspace.tree import acting_as, closing, descend, open_top, shown
from tests.descriptors import held
from tests.workspace.scene import ME, NOBODY, Scene

as_root = pytest.mark.skipif(ME.uid != 0, reason="only root can act as another")


@as_root
def test_root_acts_with_no_right_but_the_owner_s(scene: Scene) -> None:
    """The file is open to the group of root, in which the owner is not."""
    file = scene.write("file")
    file.chmod(0o040)
    before = (os.getresuid(), os.getresgid(), os.getgroups())
    os.setgroups([0, 4])
    with acting_as(NOBODY):
        assert (os.geteuid(), os.getegid(), os.getgroups()) == (NOBODY.uid, NOBODY.gid, [])
        with pytest.raises(PermissionError):
            file.read_bytes()
    assert os.getgroups() == [0, 4]
    os.setgroups(before[2])
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == before
    assert file.read_bytes() == b""


@as_root
def test_root_is_itself_again_after_a_failure() -> None:
    with pytest.raises(ValueError, match="oops"), acting_as(NOBODY):
        raise ValueError("oops")
    assert (os.geteuid(), os.getegid()) == (0, 0)


def test_no_part_of_a_path_may_be_a_link(scene: Scene) -> None:
    scene.folder("real/inner")
    (scene.root / "link").symlink_to("real")
    with closing(open_top(scene.root)) as top:
        os.close(descend(top, ("real", "inner")))
        for parts in (("link",), ("link", "inner")):
            with pytest.raises(NotADirectoryError):
                descend(top, parts)
    with pytest.raises(AgsError, match="cannot open the workspace"):
        open_top(scene.root / "link/inner")


def test_no_descriptor_is_left_behind(scene: Scene) -> None:
    scene.folder("a/b")
    before = held()
    os.close(open_top(scene.root / "a/b"))
    with pytest.raises(AgsError):
        open_top(scene.root / "a/gone")
    assert held() == before


def test_a_name_is_shown_without_what_a_terminal_obeys() -> None:
    assert shown("übung.c") == "übung.c"
    assert shown("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert shown(os.fsdecode(b"\xff")) == "\\udcff"
    assert shown(str(Path("plain name"))) == "plain name"
