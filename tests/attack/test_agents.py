"""Whole runs of an agent's program that is hostile from its first line on; judged at the victim.

The program is a shell that does what its goal says, installed in the place of the maker's own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ags import programs, runs
from ags.agents import agent
from ags.config import trust
from ags.engine import Wish
from ags.model import Limits
from ags.programs import installed
from ags.runs import Order, Run
from tests.attack.whole import PATIENCE, Whole, told
from tests.attack.whole import whole as whole
from tests.workspace.agent import done

PROGRAM = """#!/bin/sh
for last; do :; done
echo '{"type": "init", "session_id": "s1"}'
eval "${last#--prompt=}"
"""
PRECIOUS = "the person's\n"


@pytest.fixture
def victim(whole: Whole) -> Path:
    place = whole.outside / "victim"
    whole.sh(f'mkdir {place}; echo "the person\'s" > {place}/rc')
    return place


def install(whole: Whole, name: str, text: str = PROGRAM) -> None:
    program = agent(name).program
    assert program is not None
    folder = installed.home_of(whole.state, name) / "1.0.0"
    executable = folder / program.path
    executable.parent.mkdir(parents=True)
    executable.write_text(text)
    executable.chmod(0o755)
    facts = {"package": program.package, "version": "1.0.0", "path": program.path}
    (folder / installed.FACTS).write_text(json.dumps(facts))
    installed.switch(whole.state, name, "1.0.0")
    assert programs.current(whole.state, name) is not None


def start(whole: Whole, name: str, goal: str) -> Run:
    install(whole, name)
    return again(whole, name, goal)


def again(whole: Whole, name: str, goal: str) -> Run:
    wish = Wish("try", goal, name, whole.root, Limits(), order=Order(network=False))
    engine = whole.engine()
    run = done(engine.start(wish))
    return done(engine.ended(runs.directory(whole.state, run.id), PATIENCE))


def tell(whole: Whole, text: str) -> Run:
    engine = whole.engine()
    done(engine.tell("try", text))
    return done(engine.ended(engine.run_dir("try"), PATIENCE))


def explained(whole: Whole) -> str:
    return told(whole.engine().run_dir("try"))


def committed(whole: Whole, **files: str) -> None:
    for path, text in files.items():
        whole.scene.write(path, text)
    whole.sh("git add -A -f; git commit -qm settings")


LEFT = {
    "a file": "mv ~/.gemini ~/old; mkdir ~/.gemini; "
    "ln -s /oldroot{victim}/rc ~/.gemini/settings.json",
    "nothing yet": "mv ~/.gemini ~/old; mkdir ~/.gemini; "
    "ln -s /oldroot{victim}/new ~/.gemini/settings.json",
    "a folder": "mv ~/.gemini ~/old; ln -s /oldroot{victim} ~/.gemini",
    "a relative way": "mv ~/.gemini ~/old; ln -s ../../../../../../../oldroot{victim} ~/.gemini",
}


@pytest.mark.parametrize("way", LEFT.values(), ids=[each.replace(" ", "-") for each in LEFT])
def test_a_link_left_in_its_home_leads_the_next_turns_mounts_nowhere(
    whole: Whole, victim: Path, way: str
) -> None:
    run = start(whole, "gemini", way.format(victim=victim))
    for _ in ("collected", "the next turn"):
        assert sorted(each.name for each in victim.iterdir()) == ["rc"]
        assert (victim / "rc").read_text() == PRECIOUS
        assert run.state == "done" and run.result is not None, explained(whole)
        refused = tell(whole, "touch ran")
    assert refused.state == "failed" and not (whole.state / "worktrees/try/ran").exists()


def test_the_next_turn_comes_to_an_honest_home(whole: Whole) -> None:
    assert start(whole, "gemini", "echo x > ~/mine").state == "done", explained(whole)
    assert tell(whole, "cp ~/mine here").state == "done", explained(whole)
    assert (whole.state / "worktrees/try/here").read_text() == "x\n"


def test_what_is_fixed_in_its_home_cannot_be_changed_inside(whole: Whole) -> None:
    change = "rm -f ~/.gemini/settings.json; echo {} > ~/.gemini/settings.json; touch ~/.gemini/x"
    start(whole, "gemini", f"{change}; cat ~/.gemini/settings.json > seen; true")
    home = whole.state / "home" / whole.engine().run_dir("try").resolve().name / "files"
    assert (home / ".gemini/x").exists(), explained(whole)
    assert "hooks" in (whole.state / "worktrees/try/seen").read_text()


@pytest.mark.parametrize("name", [".mcp.json", ".claude"])
def test_a_link_that_a_repository_brings_makes_nothing_outside(
    whole: Whole, victim: Path, name: str
) -> None:
    whole.sh(f"ln -s /oldroot{victim}/new {name}; git add -A -f; git commit -qm link")
    run = start(whole, "claude", "touch ran")
    assert sorted(each.name for each in victim.iterdir()) == ["rc"]
    assert run.state == "done" and run.result is not None, explained(whole)


def test_settings_behind_a_link_are_covered_and_not_approved_with_it(whole: Whole) -> None:
    committed(whole, **{"conf/settings.json": '{"a": 1}'})
    whole.sh("ln -s conf .claude; git add -A -f; git commit -qm link")
    found = trust.supplied(whole.root, agent("claude").settings)
    trust.approve(whole.state, "", whole.root, found)
    assert start(whole, "claude", "cat .claude/settings.json > seen").state == "done"
    seen = whole.state / "worktrees/try/seen"
    assert seen.read_text() == '{"a": 1}', explained(whole)
    done(whole.engine().remove("try", force=True))
    committed(whole, **{"conf/settings.json": '{"a": "evil"}'})
    whole.sh("git branch -D agent--try")
    run = again(whole, "claude", "cat .claude/settings.json > seen")
    assert seen.read_text() == "{}\n", explained(whole)
    assert run.result is not None and run.result.files == 1


def test_a_commit_of_everything_leaves_the_persons_covered_settings_alone(whole: Whole) -> None:
    """Even beside a file that no commit has, which git would give up at."""
    committed(whole, **{".claude/settings.json": '{"a": 1}', ".mcp.json": '{"b": 2}'})
    start(
        whole,
        "claude",
        "dir=$(git rev-parse --absolute-git-dir); mkdir -p $dir/info; "
        "echo x > .claude/agent.json; echo /.claude/agent.json >> $dir/info/exclude; "
        "git update-index --no-skip-worktree .claude/settings.json .mcp.json; touch work",
    )
    run = tell(whole, "cat .mcp.json > seen; git commit -qam all; true")
    assert run.result is not None, explained(whole)
    assert "agent.json" not in whole.sh("git ls-tree -r --name-only agent--try")
    assert (whole.state / "worktrees/try/seen").read_text() == "{}\n"
    changed = whole.sh("git log --format= --name-only main..agent--try").split()
    assert set(changed) == {"work", "seen"}, explained(whole)


def test_a_flood_of_conversations_and_answers_stays_small_in_its_record(whole: Whole) -> None:
    line = '{"type":"result","subtype":"success","is_error":false,"session_id":"s\'$n\'","result":"'
    goal = (
        "big=$(head -c 900000 /dev/zero | tr '\\0' x); "
        f"for n in 1 2 3; do echo '{line}'$big'\"}}'; done"
    )
    run = start(whole, "claude", goal)
    assert run.state == "done" and run.session == "s3", explained(whole)
    assert len(run.answer) == 16 * 1024
    assert (whole.engine().run_dir("try") / "run.json").stat().st_size < 64 * 1024
