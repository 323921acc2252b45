"""Repositories of every kind: each works from the workspace to the branch, or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.workspace import git
from tests.workspace.agent import Agent, done, project, sh
from tests.workspace.scene import Scene, by_everyone

WORK = "echo more >> file; echo new > new"
CHANGED = {"M file", "A new"}


def works(agent: Agent, script: str = WORK) -> Agent:
    assert agent.does("git status --porcelain") == ""
    agent.does(script)
    agent.collect()
    return agent


def test_a_dirty_tree_stays_as_it_is(scene: Scene) -> None:
    project(scene)
    sh(scene, "echo mine > file; echo staged > staged; git add staged; echo loose > loose")
    before = sh(scene, "git status --porcelain; git diff; git diff --cached")
    agent = works(Agent(scene))
    assert agent.changes() == CHANGED
    assert sh(scene, "git status --porcelain; git diff; git diff --cached") == before


def test_a_split_index(scene: Scene) -> None:
    project(scene)
    sh(
        scene,
        "git config core.splitIndex true; git update-index --split-index; echo x>y; git add y",
    )
    assert list((scene.root / ".git").glob("sharedindex.*"))
    agent = works(Agent(scene))
    assert agent.changes() == CHANGED
    assert "y" in sh(scene, "git diff --cached --name-only")
    assert "A  y" in done(git.run(agent.repository, "status", "--porcelain")).text


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_a_sparse_checkout(scene: Scene, cone: str) -> None:
    project(scene, "mkdir in out; echo i > in/i; echo o > out/o")
    sh(scene, f"git sparse-checkout set {cone} in")
    agent = Agent(scene)
    assert not (agent.workspace / "out/o").exists()
    assert (agent.workspace / "in/i").exists()
    works(agent, "echo more >> in/i; mkdir out; echo new > out/new")
    assert agent.changes() == {"M in/i", "A out/new"}


@by_everyone
def test_a_linked_worktree(scene: Scene) -> None:
    project(scene)
    linked = scene.outside / "linked"
    sh(scene, f"git worktree add -q -b topic {linked}; echo t > t; git add t; git commit -qm t")
    agent = Agent(scene, root=linked)
    assert agent.repository.common == scene.root / ".git"
    assert works(agent).changes() == CHANGED
    assert sh(scene, "git branch --show-current", linked) == "topic\n"


def test_submodules_are_empty_and_told(scene: Scene) -> None:
    module = scene.outside / "module"
    sh(scene, f"git init -q {module}; cd {module}; echo m > m; git add m; git commit -qm m")
    project(scene, f"git -c protocol.file.allow=always submodule --quiet add {module} mod")
    agent = Agent(scene)
    assert "submodules: their repositories are not there inside" in agent.private.left_out
    agent.does("git -C mod init -q; cd mod; git commit --allow-empty -qm x; cd ..;" + WORK)
    found = agent.collect()
    assert agent.changes() == CHANGED
    assert any(note.startswith("mod: a submodule") for note in found.left_out)


def test_a_shallow_clone(scene: Scene) -> None:
    origin = scene.outside / "origin"
    sh(scene, f"git init -q -b main {origin}; cd {origin}; for i in 1 2 3; do echo $i > file; "
       "git add file; git commit -qm $i; done")  # fmt: skip
    sh(scene, f"git clone -q --depth 1 file://{origin} .")
    agent = Agent(scene)
    assert agent.does("git log --format=%s") == "3\n"
    assert works(agent).changes() == CHANGED


def partial_clone(scene: Scene, *flags: str) -> None:
    origin = scene.outside / "origin"
    sh(scene, f"git init -q -b main {origin}; cd {origin}; git config uploadpack.allowFilter true; "
       "for i in 1 2; do echo $i > file; echo $i > o; git add .; git commit -qm $i; "
       "done")  # fmt: skip
    sh(scene, f"git clone -q --filter=blob:none {' '.join(flags)} file://{origin} .")


def test_a_partial_clone(scene: Scene) -> None:
    partial_clone(scene)
    agent = Agent(scene)
    assert any("partial clone" in note for note in agent.private.left_out)
    assert works(agent).changes() == CHANGED
    agent.does("! git show HEAD~2:file")


def test_a_partial_clone_without_the_files_of_the_base_says_so(scene: Scene) -> None:
    partial_clone(scene, "--no-checkout")
    with pytest.raises(AgsError, match="check out the base commit") as told:
        Agent(scene)
    assert "partial clone" in told.value.hint
    assert not (scene.state / "worktrees/try").exists()


def test_borrowed_objects_of_the_projects_own(scene: Scene) -> None:
    origin, middle = scene.outside / "origin", scene.outside / "middle"
    sh(scene, f"git init -q -b main {origin}; cd {origin}; echo 1 > file; git add file; "
       f"git commit -qm 1; git clone -q -s {origin} {middle}; cd {middle}; echo 2 > two; "
       f"git add two; git commit -qm 2; git clone -q -s {middle} {scene.root}")  # fmt: skip
    agent = Agent(scene)
    assert agent.does("git fsck --strict 2>&1; git log --format=%s") == "2\n1\n"
    assert works(agent).changes() == CHANGED


def test_a_relative_alternate(scene: Scene) -> None:
    origin = scene.outside / "origin"
    sh(scene, f"git init -q -b main {origin}; cd {origin}; echo 1 > file; git add file; "
       f"git commit -qm 1; git clone -q -s {origin} {scene.root}")  # fmt: skip
    alternates = scene.root / ".git/objects/info/alternates"
    alternates.write_text("../../../outside/origin/.git/objects\n")
    assert works(Agent(scene)).changes() == CHANGED


@pytest.mark.parametrize("setting", ["true", "input"])
def test_line_ends(scene: Scene, setting: str) -> None:
    attributes = r"printf '*.bat eol=crlf\n*.txt text\n*.bin -text\n' > .gitattributes"
    project(scene, f"{attributes}; printf 'a\\r\\nb\\r\\n' | tee run.bat t.txt > x.bin")
    sh(scene, f"git config core.autocrlf {setting}")
    agent = Agent(scene)
    assert (agent.workspace / "run.bat").read_bytes() == b"a\r\nb\r\n"
    text = b"a\r\nb\r\n" if setting == "true" else b"a\nb\n"
    assert (agent.workspace / "t.txt").read_bytes() == text
    works(agent, "printf 'c\\r\\n' >> run.bat; printf 'n\\r\\n' > new.txt")
    assert agent.changes() == {"M run.bat", "A new.txt"}
    assert sh(scene, "git show agent--try:run.bat") == "a\nb\nc\n"
    assert sh(scene, "git show agent--try:new.txt") == "n\n"


def test_sha256_objects(scene: Scene) -> None:
    project(scene, init="--object-format=sha256")
    agent = Agent(scene)
    assert len(agent.commit) == 64
    assert works(agent).changes() == CHANGED


def test_no_commit_yet_is_told(scene: Scene) -> None:
    sh(scene, "git init -q .")
    with pytest.raises(AgsError, match="no commit yet") as told:
        Agent(scene)
    assert told.value.hint == "make a first commit"


def test_no_repository_is_told(scene: Scene) -> None:
    with pytest.raises(git.NotARepository, match="not a git repository"):
        Agent(scene)


def test_a_bare_repository(scene: Scene) -> None:
    project(scene)
    bare = scene.outside / "bare"
    sh(scene, f"git clone -q --bare . {bare}")
    agent = works(Agent(scene, root=bare))
    assert agent.changes() == CHANGED


def test_the_person_collects_garbage_in_the_middle(scene: Scene) -> None:
    project(scene)
    sh(scene, "echo lost > lost; git add lost; git commit -qm lost; git tag keep; "
       "git reset -q --hard HEAD~")  # fmt: skip
    agent = Agent(scene, base="keep")
    agent.does("echo again > again; git add again; git commit -qm again; echo lost > same")
    sh(scene, "git tag -d keep; git reflog expire --expire=now --all; git gc -q --prune=now")
    assert agent.does("git fsck --strict 2>&1; git log -1 --format=%s") == "again\n"
    agent.collect()
    assert agent.changes() == {"A again", "A same"}


def test_an_object_the_agent_makes_is_its_own_even_if_the_project_has_it(scene: Scene) -> None:
    """The project's may be unreachable, and go with the next `git gc`."""
    project(scene)
    sh(scene, "echo orphan > orphan; git hash-object -w orphan; rm orphan")
    agent = Agent(scene)
    agent.does("echo orphan > orphan; git add orphan; git commit -qm orphan")
    sh(scene, "git gc -q --prune=now")
    assert agent.does("git fsck --strict 2>&1; git show HEAD:orphan") == "orphan\n"
    agent.collect()
    assert sh(scene, "git show agent--try:orphan") == "orphan\n"


def test_filters_run_inside_and_round_trip(scene: Scene) -> None:
    project(scene, "git config filter.rot.clean 'tr a-z b-za'; "
            "git config filter.rot.smudge 'tr b-za a-z'; git config filter.rot.required true; "
            "echo '*.rot filter=rot' > .gitattributes; echo abc > s.rot; mkdir e; "
            "echo xyz > 'e/s p.rot'")  # fmt: skip
    assert sh(scene, "git show HEAD:s.rot") == "bcd\n"
    agent = Agent(scene)
    assert (agent.workspace / "s.rot").read_text() == "abc\n"
    assert (agent.workspace / "e/s p.rot").read_text() == "xyz\n"
    works(agent, "echo def > new.rot")
    assert agent.changes() == {"A new.rot"}
    assert sh(scene, "git show agent--try:new.rot") == "efg\n"


def test_a_path_whose_filter_is_missing_inside_is_not_collected(scene: Scene) -> None:
    tool = scene.outside / "rot"
    with scene.person():
        tool.write_text("#!/bin/sh\nexec tr a-z b-za\n")
        tool.chmod(0o755)
    project(scene, f"git config filter.rot.clean {tool}; git config filter.rot.required true; "
            "echo '*.rot filter=rot' > .gitattributes; echo abc > s.rot")  # fmt: skip
    agent = Agent(scene)
    assert (agent.workspace / "s.rot").read_text() == "bcd\n"
    agent.does("echo more >> s.rot; touch -d '1 hour ago' s.rot; echo new > new.rot; echo k > kept")
    found = agent.collect()
    assert agent.changes() == {"A kept"}
    assert {note.split(":")[0] for note in found.left_out} == {"s.rot", "new.rot"}


def test_the_persons_branches_are_there_and_stay(scene: Scene) -> None:
    project(scene)
    sh(scene, "git branch topic; git tag -a -m t v1; git remote add origin https://u:p@host.test/r;"
       "git update-ref refs/remotes/origin/main HEAD;"
       "git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main")  # fmt: skip
    before = sh(scene, "git for-each-ref")
    agent = Agent(scene)
    assert agent.does("git branch -a --format='%(refname)'; git describe") == (
        "refs/heads/agent--try\nrefs/heads/main\nrefs/heads/topic\n"
        "refs/remotes/origin/HEAD\nrefs/remotes/origin/main\nv1\n"
    )
    assert agent.does("git remote get-url origin; git symbolic-ref refs/remotes/origin/HEAD") == (
        "https://host.test/r\nrefs/remotes/origin/main\n"
    )
    agent.does("git branch -D topic main; git tag -d v1; git update-ref refs/ags/base/x HEAD")
    agent.collect()
    after = sh(scene, "git for-each-ref --exclude=x 2>/dev/null || git for-each-ref")
    ours = [line for line in after.splitlines() if "refs/ags/base/" in line or "agent--" in line]
    assert [line for line in after.splitlines() if line not in ours] == before.splitlines()
    assert len(ours) == 2


def test_large_numbers_of_files(scene: Scene, tmp_path: Path) -> None:
    project(scene, "for i in $(seq 40); do mkdir s$i; (cd s$i; seq 50 | xargs touch); done")
    agent = works(Agent(scene), "rm -r s1; for i in $(seq 500); do echo $i > s2/n$i; done")
    assert len(agent.changes()) == 550
