"""Git LFS, the real one: its filter runs inside, and content comes and goes without a server."""

from __future__ import annotations

import pytest

from ags.errors import AgsError
from bootstrap.packages import find_program
from tests.workspace.agent import Agent, project, sh
from tests.workspace.scene import Scene, by_everyone

INSTALL = "git lfs install --skip-repo > /dev/null"


@pytest.fixture(autouse=True)
def _lfs() -> None:
    if find_program("git-lfs") is None:
        pytest.skip("git-lfs is not installed")


def lfs_project(scene: Scene) -> None:
    project(scene, f"{INSTALL}; echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes; "
            "echo content > old.bin")  # fmt: skip
    assert "git-lfs" in sh(scene, "git show HEAD:old.bin")


@by_everyone
def test_content_is_there_inside_and_new_content_comes_back(scene: Scene) -> None:
    lfs_project(scene)
    agent = Agent(scene)
    assert (agent.workspace / "old.bin").read_text() == "content\n"
    assert agent.does("git status --porcelain") == ""
    agent.does("echo fresh > new.bin; echo changed > old.bin; git add new.bin; git commit -qm new")
    found = agent.collect()
    assert found.left_out == ()
    assert agent.changes() == {"A new.bin", "M old.bin"}
    assert "git-lfs" in sh(scene, "git show agent--try:new.bin")
    sh(scene, "git checkout -q agent--try")
    assert (scene.root / "new.bin").read_text() == "fresh\n"
    assert (scene.root / "old.bin").read_text() == "changed\n"
    assert sh(scene, "git lfs fsck") == "Git LFS fsck OK\n"


def test_content_that_is_not_what_it_says_is_refused(scene: Scene) -> None:
    lfs_project(scene)
    agent = Agent(scene)
    agent.does("echo fresh > new.bin; git add new.bin; git commit -qm new")
    agent.does("for f in $(find .git/lfs/objects -type f); do chmod u+w $f; echo evils > $f; done")
    with pytest.raises(AgsError, match="not what its name says"):
        agent.collect()
    assert len(sh(scene, "find .git/lfs/objects -type f").split()) == 1


def test_a_link_in_the_agents_store_is_not_followed(scene: Scene) -> None:
    lfs_project(scene)
    agent = Agent(scene)
    agent.does("echo fresh > new.bin; git add new.bin; git commit -qm new")
    agent.does("for f in $(find .git/lfs/objects -type f); do ln -sf /etc/hostname $f; done")
    found = agent.collect()
    assert any("the content of 1 files in Git LFS" in note for note in found.left_out)
    assert len(sh(scene, "find .git/lfs/objects -type f").split()) == 1
