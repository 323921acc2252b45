"""THREATS G1, G3 and F2 where an agent works in the person's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ags import runs
from ags.review import review, undo
from tests.attack.git_poisons import BASE, GROUPS, planted
from tests.attack.test_planted_links import CANARY, IN_THE_WORKSPACE, facts, turned_up
from tests.attack.test_planted_links import victim as victim
from tests.attack.whole import Whole, dashed, told
from tests.attack.whole import whole as whole
from tests.workspace.agent import done

WORK = """
sed -i 's/^3$/three/' file a.diff a.conv a.merge; touch a.filter a.process; echo new > new
git -c core.hooksPath=/dev/null commit -qm mine file
"""
SETTINGS = "cat .git/config; ls .git/hooks .git/info; cat .git/info/exclude"


@pytest.fixture
def marks(whole: Whole) -> Path:
    whole.sh(
        f"{BASE}\nmkdir ../outside/marks; git add -A; git commit -qm drivers; git branch other"
    )
    return whole.outside / "marks"


def looked_at_and_undone(whole: Whole, script: str) -> None:
    """A run, and every verb that there is for one in place."""
    engine = whole.engine()
    run = whole.in_place("one", script)
    assert run.state == "done" and run.result is not None, told(runs.directory(whole.state, run.id))
    engine.listing()
    done(review(engine, "one"))
    done(undo(engine, "one"))
    done(engine.remove("one", force=True))


@pytest.mark.parametrize("group", ["programs", "files"])
def test_what_an_agent_plants_in_its_git_directory_runs_nowhere(
    whole: Whole, marks: Path, group: str
) -> None:
    before, settings = whole.refs(), whole.sh(SETTINGS)
    looked_at_and_undone(whole, f"{WORK}\n{planted(marks, *GROUPS[group].values())}\n:")
    assert list(marks.iterdir()) == []
    assert whole.sh(SETTINGS) == settings
    whole.sh("git status; git log -p; git commit --allow-empty -m x; git reset -q --hard HEAD~")
    assert list(marks.iterdir()) == []
    assert whole.refs() == before


def test_the_persons_drivers_do_not_run_on_what_an_agent_did(whole: Whole, marks: Path) -> None:
    whole.sh(f"{planted(marks, *GROUPS['programs'].values())}\necho .poison >> .git/info/exclude")
    for mark in marks.iterdir():
        mark.unlink()
    looked_at_and_undone(whole, WORK)
    assert list(marks.iterdir()) == []
    whole.sh("git status; git log -p", check=False)
    assert list(marks.iterdir()) != []


def test_other_refs_stay_where_the_person_has_them(whole: Whole) -> None:
    whole.sh("git branch theirs; git branch agent--other; git tag v1")
    before = whole.refs()
    goal = (
        "git checkout -qb mine; echo x >> file; git commit -qam x; git branch -f theirs; "
        "git tag -f v1; git branch -D agent--other; git update-ref refs/heads/main HEAD"
    )
    run = whole.in_place("mover", goal)
    after = {each: at for each, at in whole.refs().items() if "/ags/" not in each}
    assert after.keys() - before.keys() <= {"refs/heads/agent--mover"}, run.notes
    assert {each: after[each] for each in before if each != "refs/heads/main"} == {
        each: at for each, at in before.items() if each != "refs/heads/main"
    }
    assert whole.sh("git symbolic-ref HEAD") == "refs/heads/main\n"


@pytest.mark.parametrize("name", IN_THE_WORKSPACE, ids=dashed)
def test_a_link_in_the_persons_folder_leads_us_nowhere(
    whole: Whole, victim: Path, name: str
) -> None:
    before, state = facts(victim), whole.sh("git status --porcelain; git rev-parse HEAD; cat d/two")
    looked_at_and_undone(whole, IN_THE_WORKSPACE[name].format(victim=victim))
    assert facts(victim) == before
    assert CANARY not in turned_up(whole)
    if name != "settings of git":
        assert whole.sh("git status --porcelain; git rev-parse HEAD; cat d/two") == state


@pytest.mark.parametrize("became", ["e", "nowhere"])
def test_a_folder_that_became_a_link_is_seen_and_can_be_undone(whole: Whole, became: str) -> None:
    engine = whole.engine()
    run = whole.in_place("one", f"mv d e; echo more >> e/two; ln -s {became} d")
    assert run.state == "done", told(runs.directory(whole.state, run.id))
    changed = {file.path for file in done(review(engine, "one")).diff.files}
    assert changed >= {"d", "e/two"}
    done(undo(engine, "one"))
    assert whole.sh("git status --porcelain; cat d/two; ls") == "two\nd\nfile\n"
