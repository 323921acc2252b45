"""What is kept ready is as good as new, is nobody else's, and is never in the way."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ags.errors import AgsError
from ags.workspace import git, separate, spare
from ags.workspace.private import Private
from tests.workspace.agent import Agent, done, project, sh
from tests.workspace.scene import Scene, by_everyone
from tests.workspace.test_separate import listing

MANY_KINDS = r"""echo x > tool; chmod +x tool; ln -s tool link; : > empty; printf '\377\0' > binary
    echo n > "$(printf 'odd\377\nname')"; printf '*.crlf eol=crlf\n' > .gitattributes
    printf 'a\r\nb\r\n' > a.crlf; mkdir -p deep/er; echo d > deep/er/d; echo f > deep/f"""


@dataclass
class Quick(Agent):
    """Starts with what is kept ready, if there is something."""

    async def _start(self) -> None:
        plain = separate.create

        async def create(repository: git.Repository, *, git_dir: Path, **wishes: Any) -> Path:
            with patch.object(separate, "create", plain):
                await spare.create(built(self), repository, spares=places(self.scene), **wishes)
            return self.workspace

        with patch.object(separate, "create", create):
            await super()._start()


async def built(agent: Agent) -> Private:
    return agent.private


def places(scene: Scene) -> Path:
    return scene.state / "spares"


def ready(scene: Scene) -> list[Path]:
    """The trees that wait to be taken."""
    return sorted(places(scene).glob("*/[0-9a-f]*-*/tree"))


def prepare(scene: Scene, base: str = "HEAD", *, count: int = 1) -> int:
    async def prepared() -> int:
        repository = await git.find(scene.root)
        commit = await git.resolve(repository, base)
        return await spare.prepare(repository, base=commit, spares=places(scene), count=count)

    return done(prepared())


def number(path: Path) -> int:
    return path.stat().st_ino


def peer(scene: Scene) -> Path:
    sh(scene, "git worktree add -q --detach ../outside/peer")
    return scene.outside / "peer"


@by_everyone
def test_a_run_gets_the_very_checkout_that_was_ready(scene: Scene) -> None:
    project(scene, MANY_KINDS)
    assert prepare(scene) == 1
    (tree,) = ready(scene)
    waiting = number(tree)
    agent = Quick(scene)
    assert number(agent.workspace) == waiting
    assert ready(scene) == []
    assert listing(agent.workspace) == listing(peer(scene))
    assert {path.lstat().st_uid for path in agent.workspace.rglob("*")} == {scene.owner.uid}
    assert agent.does("git status --porcelain") == ""
    assert sorted(path.name for path in agent.private.git_dir.parent.iterdir()) == [
        "git",
        "git-file",
    ]


@by_everyone
def test_what_the_agent_did_in_it_is_collected_to_the_last_mode_bit(scene: Scene) -> None:
    project(scene, MANY_KINDS)
    prepare(scene)
    agent = Quick(scene)
    agent.does("""echo new > new; rm empty; git mv deep moved; chmod +x file; ln -sf file link
        rm -r d; mkdir d; echo again > d/again; rm binary; mkdir binary; echo b > binary/b""")
    agent.collect()
    assert agent.changes() == {
        *("A new", "D empty", "M file", "M link", "D d/two", "A d/again", "D binary"),
        *("A binary/b", "D deep/f", "D deep/er/d", "A moved/f", "A moved/er/d"),
    }


CHANGES = r"""echo new > new; rm empty; git mv deep moved; chmod +x file; chmod -x tool
    ln -sf file link; rm -r d; mkdir d; echo again > d/again; rm binary; mkdir binary
    echo b > binary/b; mkdir -p far/away; echo far > far/away/far; printf 'c\r\n' > a.crlf"""


@by_everyone
@pytest.mark.parametrize("back", [False, True], ids=["forwards", "backwards"])
def test_one_of_another_commit_is_brought_to_the_one_that_is_wanted(
    scene: Scene, back: bool
) -> None:
    project(scene, MANY_KINDS)
    sh(scene, f"{CHANGES}\ngit add -A; git commit -qm second")
    prepare(scene, "HEAD" if back else "HEAD~")
    waiting = number(ready(scene)[0])
    if back:
        sh(scene, "git checkout -q HEAD~")
    agent = Quick(scene)
    assert number(agent.workspace) == waiting
    assert listing(agent.workspace) == listing(peer(scene))
    assert agent.does("git status --porcelain --ignored") == ""
    folders = {path.name for path in agent.workspace.iterdir() if path.is_dir()}
    assert folders == ({".git", "d", "deep"} if back else {".git", "d", "moved", "binary", "far"})


@pytest.mark.parametrize(
    "change",
    [
        "git config core.autocrlf true",
        "echo '*.txt eol=crlf' > .git/info/attributes",
        "git sparse-checkout set d",
        "echo '*.txt eol=crlf' > .gitattributes; git add -A; git commit -qm attributes",
    ],
)
def test_one_that_would_look_different_by_now_is_not_used(scene: Scene, change: str) -> None:
    project(scene, "printf 'text\\n' > a.txt")
    prepare(scene)
    sh(scene, change)
    agent = Quick(scene)
    sh(scene, "rm -rf a.txt d file; git checkout -q .")
    assert listing(agent.workspace) == listing(scene.root)
    assert agent.does("git status --porcelain") == ""


@pytest.mark.parametrize(
    "damage",
    [
        "rm index",
        "rm index; ln -s /etc/passwd index",
        "rm -r tree",
        f"mv $PWD ../{'0' * 40}-00000000",
        "echo more >> ../../../../workspace/file; git -C ../../../../workspace commit -qam more;"
        " echo no index > index",
    ],
    ids=["no index", "a link", "no tree", "commit gone", "damaged index"],
)
def test_one_that_is_damaged_is_thrown_away(scene: Scene, damage: str) -> None:
    project(scene)
    prepare(scene)
    sh(scene, damage, ready(scene)[0].parent)
    agent = Quick(scene)
    assert listing(agent.workspace) == listing(scene.root)
    assert agent.does("git status --porcelain") == ""
    assert ready(scene) == []


def test_of_two_at_once_one_gets_it_and_both_get_a_workspace(scene: Scene) -> None:
    project(scene)
    prepare(scene)
    waiting = number(ready(scene)[0])
    agents = [Agent(scene, name="one"), Agent(scene, name="two")]

    async def both() -> None:
        await asyncio.gather(*(
            spare.create(
                built(agent),
                agent.repository,
                name=f"{agent.name}-more",
                base=agent.commit,
                worktrees=agent.workspace.parent,
                spares=places(scene),
            )
            for agent in agents
        ))  # fmt: skip

    done(both())
    made = [agent.workspace.with_name(f"{agent.name}-more") for agent in agents]
    assert [number(path) == waiting for path in made].count(True) == 1
    assert [listing(path) for path in made] == [listing(scene.root)] * 2


@by_everyone
def test_without_one_a_run_gets_its_own_checkout(scene: Scene) -> None:
    project(scene, MANY_KINDS)
    agent = Quick(scene)
    assert listing(agent.workspace) == listing(peer(scene))
    assert agent.does("git status --porcelain") == ""


def test_no_more_are_made_than_were_asked_for(scene: Scene) -> None:
    project(scene)
    assert [prepare(scene), prepare(scene)] == [1, 0]
    assert prepare(scene, count=3) == 2
    assert len(ready(scene)) == 3


def test_of_two_who_prepare_at_once_one_does(scene: Scene) -> None:
    project(scene)

    async def both() -> list[int]:
        repository = await git.find(scene.root)
        base = await git.resolve(repository, "HEAD")
        calls = [spare.prepare(repository, base=base, spares=places(scene)) for _ in range(2)]
        return await asyncio.gather(*calls)

    assert sorted(done(both())) == [0, 1]


@by_everyone
def test_what_somebody_killed_left_behind_is_swept(scene: Scene) -> None:
    project(scene)
    prepare(scene)
    (place,) = places(scene).iterdir()
    with scene.person() if scene.seat == "ordinary" else patch.dict({}):
        (place / ".making-00000000/tree/half").mkdir(parents=True)
    prepare(scene, count=2)
    assert not (place / ".making-00000000").exists()
    assert len(ready(scene)) == 2


def test_preparing_that_is_cut_off_leaves_nothing(scene: Scene) -> None:
    project(scene, "for i in $(seq 3000); do echo $i > n$i; done")

    async def cut_off() -> None:
        repository = await git.find(scene.root)
        base = await git.resolve(repository, "HEAD")
        task = asyncio.create_task(spare.prepare(repository, base=base, spares=places(scene)))
        while not list(places(scene).glob("*/.making-*/tree/n*")):
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    done(cut_off())
    assert [path.name for path in places(scene).glob("*/*")] == ["lock"]
    assert prepare(scene) == 1


def test_nothing_is_kept_ready_on_a_disk_that_is_nearly_full(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(scene)
    monkeypatch.setattr(spare, "ROOM", 1 << 60)
    assert prepare(scene) == 0
    assert ready(scene) == []


def test_a_taken_place_is_told_and_left_alone(scene: Scene) -> None:
    project(scene)
    prepare(scene)
    taken = scene.state / "worktrees/try"
    taken.mkdir(parents=True)
    (taken / "mine").write_text("mine")
    with pytest.raises(AgsError, match="file exists"):
        Quick(scene)
    assert (taken / "mine").read_text() == "mine"


def test_the_projects_that_were_last_given_one_keep_it(scene: Scene) -> None:
    project(scene)
    prepare(scene)
    (older,) = ready(scene)
    os.utime(older.parent.parent, (1, 1))
    sh(scene, "git config core.autocrlf input")
    prepare(scene)
    (newer,) = set(ready(scene)) - {older}
    spare.forget(places(scene), keep=2)
    assert set(ready(scene)) == {older, newer}
    spare.forget(places(scene), keep=1)
    assert ready(scene) == [newer]
    spare.forget(places(scene))
    assert ready(scene) == []
    spare.forget(scene.state / "none")


@by_everyone
def test_no_agent_reaches_what_is_kept_ready(scene: Scene) -> None:
    project(scene)
    prepare(scene)
    first = Quick(scene, name="first")
    prepare(scene)
    (tree,) = ready(scene)
    attack = "echo evil > {}/file; mkdir -p {}; echo evil > {}/evil"
    first.does(attack.replace("{}", str(tree)), check=False)
    first.does(attack.replace("{}", str(tree.parent)), check=False)
    first.does(attack.replace("{}", str(first.workspace)))
    second = Quick(scene, name="second")
    assert listing(second.workspace) == listing(scene.root)
    assert (first.workspace / "evil").read_text() == "evil\n"
