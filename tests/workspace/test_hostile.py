"""What an agent hands over is a stranger's: the repository takes it in whole and sound, or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.workspace import bundle, separate
from ags.workspace.collect import receive
from tests.workspace.agent import Agent, done, project, sh
from tests.workspace.scene import Scene

BLOB = "b=$(printf %s | git hash-object -w --stdin);"
FOLDER = BLOB % "evil" + r" t=$(printf '100644 blob %s\tconfig\n' $b | git mktree);"
MODULES = r"printf '100644 blob %s\t.gitmodules\n' $b"
MAKE_TREE = {
    "a .git folder": FOLDER + r"printf '040000 tree %s\t.git\n' $t",
    "a .GIT folder": FOLDER + r"printf '040000 tree %s\t.GIT\n' $t",
    "a folder above": FOLDER + r"printf '040000 tree %s\t..\n' $t",
    "a submodule that is an option": BLOB % r"""'[submodule "x"]\n\turl = -u./p\n'""" + MODULES,
    "a submodule outside": BLOB % r"""'[submodule "../x"]\n\turl = https://h.test\n'""" + MODULES,
    "module settings that are a link": BLOB % "/etc" + r"printf '120000 blob %s\t.gitmodules\n' $b",
}


@pytest.mark.parametrize("name", MAKE_TREE)
def test_hostile_trees_are_refused_and_nothing_of_them_stays(scene: Scene, name: str) -> None:
    project(scene)
    agent = Agent(scene)
    objects = sh(scene, "find .git/objects -type f | sort")
    told = agent.does(
        f"tree=$({{ {MAKE_TREE[name]}; }} | git mktree); git update-ref HEAD "
        "$(git commit-tree -p HEAD -m evil $tree); git rev-parse HEAD"
    )
    evil = told.split()[-1]
    with pytest.raises(AgsError, match="take in the agent's work") as refused:
        agent.collect()
    assert "nothing is lost" in refused.value.hint
    assert sh(scene, "find .git/objects -type f | sort") == objects
    assert sh(scene, "git for-each-ref refs/heads --format='%(refname)'") == "refs/heads/main\n"
    # Plain git, which does not look, takes the very same bundle.
    sh(scene, f"git fetch -q {scene.state}/try.bundle refs/ags/result:refs/heads/control")
    assert evil in sh(scene, "git rev-list control")


def handed(scene: Scene, agent: Agent, content: bytes) -> str:
    file = scene.state / "handed"
    file.write_bytes(content)
    with file.open("rb") as opened:
        return done(receive(agent.work, opened))


def prepared(scene: Scene) -> Agent:
    """Besides the project, a second clone of it where `refs/ags/result` has a further commit."""
    project(scene)
    agent = Agent(scene)
    sh(scene, "git clone -q . ../outside/clone; cd ../outside/clone; echo 2 >> file; "
       "git commit -qam two; git branch other; echo 3 > three; git add three; git commit -qm three;"
       "git update-ref refs/ags/result HEAD")  # fmt: skip
    return agent


def from_clone(scene: Scene, arguments: str) -> bytes:
    sh(scene, f"git bundle create -q ../made {arguments}", scene.outside / "clone")
    return (scene.outside / "made").read_bytes()


def test_a_sound_bundle_is_taken_in(scene: Scene) -> None:
    agent = prepared(scene)
    commit = handed(scene, agent, from_clone(scene, f"refs/ags/result ^{agent.commit}"))
    assert sh(scene, f"git log --format=%s {commit}") == "three\ntwo\nfirst\n"


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ("refs/ags/result refs/heads/other ^{base}", "it brings 'refs/heads/other'"),
        ("refs/heads/other ^{base}", "it brings 'refs/heads/other'"),
        ("refs/heads/other refs/heads/main ^{base}", "it brings 'refs/heads/"),
    ],
)
def test_other_refs_than_the_one_are_refused(scene: Scene, arguments: str, cause: str) -> None:
    agent = prepared(scene)
    with pytest.raises(AgsError, match=cause):
        handed(scene, agent, from_clone(scene, arguments.format(base=agent.commit)))


def test_a_bundle_with_a_gap_is_refused(scene: Scene) -> None:
    """It rests on a commit that the repository does not have, and does not say so."""
    agent = prepared(scene)
    whole = from_clone(scene, "refs/ags/result ^refs/heads/other")
    lines = whole.split(b"\n")
    gap = b"\n".join(line for line in lines if not line.startswith(b"-"))
    with pytest.raises(AgsError, match="take in the agent's work"):
        handed(scene, agent, gap)
    assert sh(scene, "ls .git/objects | grep tmp_ || true; git fsck --strict 2>&1") == ""


def test_a_damaged_bundle_is_refused(scene: Scene) -> None:
    agent = prepared(scene)
    whole = from_clone(scene, f"refs/ags/result ^{agent.commit}")
    for damaged in (whole[:-30], whole[:-1] + b"?", whole.replace(b"PACK", b"PUCK"), b"", b"PACK"):
        with pytest.raises(AgsError, match="take in the agent's work"):
            handed(scene, agent, damaged)
    assert handed(scene, agent, whole)


def test_a_commit_that_is_not_the_agents_cannot_be_named(scene: Scene) -> None:
    agent = prepared(scene)
    secret = sh(scene, "git commit -q --allow-empty -m secret; git rev-parse HEAD").strip()
    with pytest.raises(AgsError, match="not its own"):
        handed(scene, agent, f"same {secret}\n".encode())
    assert handed(scene, agent, f"same {agent.commit}\n".encode()) == agent.commit


HEX = "a" * 40


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("# v2 git bundle\n{h} refs/x\n\n", None),
        ("# v3 git bundle\n@object-format=sha1\n-{h} why\n{h} refs/x\n\n", None),
        ("# v3 git bundle\n@filter=blob:none\n{h} refs/x\n\n", "it asks for"),
        ("# v3 git bundle\n@object-format=sha256\n{h} refs/x\n\n", "it asks for"),
        ("# v2 git bundle\n\n", "0 refs"),
        ("# v2 git bundle\n{h} refs/x\n{h} refs/x\n\n", "2 refs"),
        ("# v2 git bundle\n{h} refs/x", "no git bundle"),
        ("# v4 git bundle\n{h} refs/x\n\n", "no git bundle"),
        ("# v2 git bundle\n{h}aa refs/x\n\n", "reads"),
        ("# v2 git bundle\n{h} refs/\x1b[2Jx\n\n", "x1b"),
    ],
)
def test_the_head_of_a_bundle(text: str, cause: str | None) -> None:
    content = text.format(h=HEX).encode()
    if cause is None:
        assert bundle.read(content + b"PACK", "sha1", "refs/x").commit == HEX
        assert bundle.read(content + b"PACK", "sha1", "refs/x").length == len(content)
    else:
        with pytest.raises(AgsError, match=cause):
            bundle.read(content, "sha1", "refs/x")


def test_an_agent_that_wrecks_its_git_directory_loses_only_its_own(scene: Scene) -> None:
    project(scene)
    before = sh(scene, "git for-each-ref; git status --porcelain")
    for name, wreck in {
        "head": "rm .git/HEAD; ln -s /etc/passwd .git/HEAD",
        "all": "rm -rf .git/* || true",
        "objects": "rm -rf .git/objects; ln -s /etc .git/objects",
        "common": "echo /etc > .git/commondir",
        "index": "head -c 1000 /dev/urandom > .git/index",
        "config": "echo '[core' > .git/config",
    }.items():
        agent = Agent(scene, name=name)
        agent.does(f"echo work > work; {wreck}")
        with pytest.raises(AgsError) as told:
            agent.collect()
        assert "nothing is lost" in told.value.hint
        assert (agent.workspace / "work").read_text() == "work\n"
    sh(scene, "git for-each-ref --format='delete %(refname)' refs/ags | git update-ref --stdin")
    assert sh(scene, "git for-each-ref; git status --porcelain") == before


def test_a_link_in_the_workspace_is_not_followed_when_it_is_removed(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    victim = scene.outside / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    agent.does(
        f"ln -s {victim} out; mkdir locked; touch locked/x; chmod 0 locked; mkfifo fifo\n"
        "mkdir deep; cd deep; python3 -c 'import os\n"
        'for i in range(1500): os.mkdir("d"); os.chdir("d")\''
    )
    separate.remove(scene.state / "worktrees", "try")
    assert not agent.workspace.exists()
    assert (victim / "file").read_text() == "precious"


@pytest.mark.parametrize("name", ["..", "../workspace", "a/b", "", "-x", "A", "x-", "."])
def test_only_names_of_runs_can_be_removed(scene: Scene, name: str) -> None:
    (scene.state / "worktrees").mkdir()
    with pytest.raises(AgsError, match="use the name"):
        separate.remove(scene.state / "worktrees", name)


def test_a_link_in_the_place_of_a_workspace_is_not_removed(scene: Scene) -> None:
    worktrees = scene.state / "worktrees"
    worktrees.mkdir()
    (worktrees / "try").symlink_to(scene.outside)
    with pytest.raises(AgsError, match="not what we made"):
        separate.remove(worktrees, "try")
    assert Path(worktrees / "try").is_symlink()
