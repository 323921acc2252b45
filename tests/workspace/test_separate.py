"""A checkout of its own for each run: right to the last mode bit, and gone without a trace."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.workspace import git, private, separate
from tests.workspace.agent import Agent, done, project, sh
from tests.workspace.scene import Scene, by_everyone


def listing(root: Path) -> dict[str, tuple[int, bytes]]:
    """Kind, execute bit and content of everything but `.git`."""
    found = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        for name in set(files) - {".git"}:
            path = Path(folder, name)
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            mode = path.lstat().st_mode & (0o170000 | 0o111)
            found[str(path.relative_to(root))] = (mode, content)
    return found


@by_everyone
def test_it_is_what_git_itself_would_check_out(scene: Scene) -> None:
    project(scene, r"""echo x > tool; chmod +x tool; ln -s tool link; ln -s /nowhere dangling
        : > empty; printf '\377\0' > binary; echo n > "$(printf 'odd\377\nname')"
        printf '*.crlf eol=crlf\n*.id ident\n*.u16 working-tree-encoding=UTF-16\n' > .gitattributes
        printf 'a\r\nb\r\n' > a.crlf; echo '$Id$' > a.id; printf u | iconv -t utf-16 > a.u16
        mkdir -p deep/er; echo d > deep/er/d""")  # fmt: skip
    agent = Agent(scene)
    sh(scene, "git worktree add -q ../outside/peer")
    assert listing(agent.workspace) == listing(scene.outside / "peer")
    assert len(listing(agent.workspace)) == 13
    owners = {path.lstat().st_uid for path in agent.workspace.rglob("*")}
    assert owners == {scene.owner.uid}
    assert agent.does("git status --porcelain") == ""


def test_an_older_base_is_checked_out(scene: Scene) -> None:
    project(scene)
    sh(scene, "echo later > file; git commit -qam later")
    agent = Agent(scene, base="HEAD~")
    assert (agent.workspace / "file").read_text() == "one\n"


def test_a_tree_is_not_written_through_a_link_of_its_own(scene: Scene) -> None:
    """A commit that has `a` as a link first, and then files below `a`."""
    project(scene)
    outside = scene.outside / "victim"
    outside.mkdir()
    sh(scene, f"""link=$(printf {outside} | git hash-object -w --stdin)
        blob=$(echo evil | git hash-object -w --stdin)
        sub=$(printf '100644 blob %s\\tevil\\n' $blob | git mktree)
        tree=$(printf '120000 blob %s\\ta\\n040000 tree %s\\ta\\n' $link $sub | git mktree)
        git update-ref refs/heads/evil $(git commit-tree -m evil $tree)""")  # fmt: skip
    try:
        Agent(scene, base="evil")
    except AgsError as error:
        assert "check out" in str(error)
    assert list(outside.iterdir()) == []


def test_a_failed_checkout_leaves_no_workspace(scene: Scene) -> None:
    project(scene)
    sh(scene, "rm -f .git/objects/$(git rev-parse HEAD:file | sed 's,..,&/,')")
    with pytest.raises(AgsError, match="check out the base commit"):
        Agent(scene)
    assert list((scene.state / "worktrees").iterdir()) == []


def test_a_taken_place_is_told_and_left_alone(scene: Scene) -> None:
    project(scene)
    taken = scene.state / "worktrees/try"
    taken.mkdir(parents=True)
    (taken / "mine").write_text("mine")
    with pytest.raises(AgsError, match="file exists"):
        Agent(scene)
    assert (taken / "mine").read_text() == "mine"


@by_everyone
def test_it_is_removed_whatever_is_in_it(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    agent.does(
        "mkdir -p a/b locked; touch a/b/c locked/x; chmod 000 locked; chmod 500 a/b; chmod 0 a"
    )
    separate.remove(scene.state / "worktrees", "try")
    assert not agent.workspace.exists()
    separate.remove(scene.state / "worktrees", "try")


def test_a_settled_index_hides_no_change(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    index = agent.private.git_dir / "index"
    os.utime(index, (time.time() + 60, time.time() + 60))
    assert not separate.settle(agent.private.git_dir)
    os.utime(index, (time.time() - 2, time.time() - 2))
    before = int(index.stat().st_mtime)
    assert separate.settle(agent.private.git_dir)
    assert index.stat().st_mtime == before + 1
    time.sleep(1)  # as the file's own second is over, too
    agent.does("printf 'two\\n' > file")
    agent.collect()
    assert agent.changes() == {"M file"}


def test_whether_filters_are_asked_for(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)

    def asked(of: Agent) -> bool:
        return done(separate.wants_filters(of.repository, of.workspace, of.private.git_dir))

    assert not asked(agent)
    sh(scene, "mkdir -p x/y; echo '*.a filter=q' > x/y/.gitattributes; git add x; git commit -qm f")
    assert asked(Agent(scene, name="deep"))
    sh(scene, "git rm -qr x; git commit -qm g; echo '*.a filter=q' > .git/info/attributes")
    assert asked(Agent(scene, name="own"))


def test_an_index_that_shortens_names_is_not_trusted_to_list_them(scene: Scene) -> None:
    project(scene, "echo x > .gita; echo '*.a filter=q' > .gitattributes")
    sh(scene, "git config index.version 4")
    agent = Agent(scene)
    index = (agent.private.git_dir / "index").read_bytes()
    assert index[7] == 4 and b".gitattributes" not in index
    assert done(separate.wants_filters(agent.repository, agent.workspace, agent.private.git_dir))


@dataclass
class Hasty(Agent):
    """Has its git directory built while its files are checked out."""

    async def _start(self) -> None:
        self.repository = await git.find(self.scene.root)
        self.commit = await git.resolve(self.repository, self.base)
        self.workspace = self.scene.state / "worktrees" / self.name
        self.workspace.parent.mkdir(exist_ok=True)
        building = private.build(
            self.repository,
            into=self.scene.state / f"git-{self.name}",
            branch=self.branch,
            base=self.commit,
            run=self.name,
            workspace=self.workspace,
            home=self.scene.outside,
        )
        self.private = await separate.create_beside(
            building,
            self.repository,
            name=self.name,
            base=self.commit,
            worktrees=self.workspace.parent,
        )


@by_everyone
def test_files_and_git_directory_can_be_made_at_the_same_time(scene: Scene) -> None:
    project(scene, "echo x > tool; chmod +x tool; ln -s tool link")
    agent = Hasty(scene)
    assert listing(agent.workspace) == listing(scene.root)
    assert list((agent.workspace / ".git").iterdir()) == []
    assert (agent.private.git_dir / "index").lstat().st_uid == scene.owner.uid
    assert agent.does("git status --porcelain") == ""
    agent.does("echo more >> file; rm link")
    agent.collect()
    assert agent.changes() == {"M file", "D link"}


def test_when_either_fails_there_is_no_workspace(scene: Scene) -> None:
    project(scene)
    (scene.state / "git-try").mkdir()
    with pytest.raises(AgsError, match="make the private git directory"):
        Hasty(scene)
    assert list((scene.state / "worktrees").iterdir()) == []
    sh(scene, "rm -f .git/objects/$(git rev-parse HEAD:file | sed 's,..,&/,')")
    with pytest.raises(AgsError, match="check out the base commit"):
        Hasty(scene, name="other")
    assert list((scene.state / "worktrees").iterdir()) == []
