"""Commits elsewhere than where the agent ended are held, told, and never mistaken for its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from ags.workspace import branches
from ags.workspace.branches import KEPT, Source
from tests.workspace.agent import Agent, done, project, sh
from tests.workspace.scene import Scene, by_everyone

ELSEWHERE = """git checkout -qb side/one; echo s > s; git add s; git commit -qm side
git checkout -qb second; echo t > t; git add t; git commit -qm second; git checkout -q agent--try
echo a > a; git add a; git commit -qm a
"""


def brought(agent: Agent) -> tuple[str, ...]:
    commit = agent.collect().commit
    source = Source(
        agent.repository,
        agent.workspace,
        agent.private.git_dir,
        agent.branch,
        (commit, agent.commit),
    )
    return done(branches.bring(source, agent.run_inside, agent.plan("true")))


def kept(scene: Scene) -> dict[str, str]:
    """What each ref of ours holds, by the message of its last commit."""
    told = sh(scene, f"git for-each-ref '--format=%(refname) %(subject)' {KEPT}")
    lines = (line.partition(" ") for line in told.splitlines())
    return {name.removeprefix(f"{KEPT}/")[:-13]: subject for name, _, subject in lines}


@by_everyone
def test_other_branches_are_held_and_can_be_had(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    agent.does(ELSEWHERE)
    notes = brought(agent)
    assert kept(scene) == {"agent--try/side/one": "side", "agent--try/second": "second"}
    assert agent.changes() == {"A a"}
    assert [note.split(" of the agent's")[0] for note in notes] == [
        "the branch second",
        "the branch side/one",
    ]
    command = notes[0].split("`")[1].replace("NAME", "mine")
    sh(scene, f"{command}; git prune --expire=now; git fsck --strict --no-dangling")
    assert sh(scene, "git log --format=%s mine") == "second\nside\nfirst\n"
    assert sh(scene, "git show mine:t") == "t\n"


def test_packed_ones_and_a_stash_are_held_too(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    agent.does(ELSEWHERE + "git pack-refs --all; echo w >> file; git stash -q")
    brought(agent)
    assert kept(scene).keys() == {"agent--try/side/one", "agent--try/second", "agent--try/stash"}


@pytest.mark.parametrize(
    "script",
    [
        "true",
        "echo a > a; git add a; git commit -qm a; git branch same; git branch -f main HEAD",
        "git branch old HEAD~1; git checkout -qb other; echo a > a; git add a; git commit -qm a",
    ],
)
def test_what_is_in_the_work_or_the_persons_already_is_not_told(scene: Scene, script: str) -> None:
    project(scene, "git commit -q --allow-empty -m before")
    sh(scene, "git branch theirs; echo 2 > file; git commit -qam 2")
    agent = Agent(scene)
    agent.does(script)
    assert brought(agent) == ()
    assert kept(scene) == {}


def test_what_an_agent_writes_for_a_ref_leads_nowhere(scene: Scene) -> None:
    project(scene)
    secret = scene.outside / "secret"
    with scene.person():
        secret.write_text("0" * 40 + "\n")
    agent = Agent(scene)
    agent.does(ELSEWHERE)
    agent.does(f"""cd .git/refs/heads; ln -s {secret} link; echo {"f" * 40} > none; mkfifo pipe
        echo --upload-pack=x > option; ln -s / root; cp second $'od\\x1b[2Jd'; cp second a.lock""")
    notes = brought(agent)
    assert kept(scene).keys() >= {"agent--try/side/one", "agent--try/second"}
    assert not any("0" * 40 in note or "\x1b" in note for note in notes)
    assert "the branch none: a branch of the agent's that leads to no commit" in notes


def test_a_failure_is_told_and_fails_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "BUNDLE", "echo broken >&2; exit 3")
    project(scene)
    agent = Agent(scene)
    agent.does(ELSEWHERE)
    (note,) = brought(agent)
    assert "(the branch second, the branch side/one) were not brought back: broken" in note
    assert str(agent.private.git_dir) in note


MANY = """commit=$(git commit-tree -p HEAD -m many "HEAD^{tree}")
for n in $(seq COUNT); do echo "create refs/heads/many-$n $commit"; done | git update-ref --stdin
"""


@pytest.mark.parametrize(("packed", "most"), [(True, 3), (False, 4)])
def test_with_too_many_it_is_told_how_many_were_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, packed: bool, most: int
) -> None:
    monkeypatch.setattr(branches, "MOST", most)
    project(scene)
    agent = Agent(scene)
    agent.does(MANY.replace("COUNT", "5") + ("git pack-refs --all" if packed else ""))
    *held, left = brought(agent)
    assert len(held) == len(kept(scene)) == most
    word = "2 further branches" if packed else "1 further branch"
    assert left.startswith(f"{word} of the agent's (only {most} are looked at) were not brought")
    assert str(agent.private.git_dir) in left
    assert sh(scene, f"git -C {agent.private.git_dir} rev-parse many-5").strip() != ""


def test_exactly_as_many_as_are_looked_at_are_all_held(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "MOST", 5)
    project(scene)
    agent = Agent(scene)
    agent.does(MANY.replace("COUNT", "5"))
    assert len(brought(agent)) == len(kept(scene)) == 5


def test_branches_that_cannot_be_read_are_told_by_their_place(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    deep = "/".join("d" * branches.DEEPEST)
    agent.does(f"{ELSEWHERE}git branch {deep}/x second; rm -rf .git/packed-refs")
    *_, left = brought(agent)
    assert left.startswith(f"branches of the agent's in refs/heads/{deep[:-2]} were not brought")
    assert kept(scene).keys() == {"agent--try/side/one", "agent--try/second"}


def test_of_many_places_that_cannot_be_read_a_few_are_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "DEEPEST", 2)
    project(scene)
    agent = Agent(scene)
    agent.does("cd .git/refs/heads; for n in $(seq 12); do mkdir d$n; done")
    (left,) = brought(agent)
    assert left.count("refs/heads/d") == branches.NAMED and "and 2 more were not" in left


def test_a_list_of_branches_that_is_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "packed-refs").mkdir()
    assert branches._refs(tmp_path).unread == ("packed-refs",)
    (tmp_path / "packed-refs").rmdir()
    assert branches._refs(tmp_path) == branches.Refs({}, ())
