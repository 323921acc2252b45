"""A goal goes in, a branch comes back: whole runs in a workspace of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ags import review
from ags.errors import AgsError
from ags.runs import Order
from tests.faults.workshop import CHANGED, WORK, Workshop, wait_for


def configured(workshop: Workshop, text: str) -> Order:
    """Settings of the person's, apart from those of whoever runs the tests."""
    path = workshop.place / "config.toml"
    path.write_text(text)
    return Order(config=path)


def test_what_the_agent_did_is_on_its_branch_and_nothing_else_has_changed(
    workshop: Workshop,
) -> None:
    before = workshop.own()
    run = workshop.ended(workshop.start())
    assert run.state == "done" and run.exit_code == 0
    assert workshop.files(run) == CHANGED
    assert workshop.own() == before
    told = [event.fields["state"] for event in workshop.events(run) if event.kind == "status"]
    assert told == ["preparing", "running", "collecting", "done"]
    assert run.result is not None and run.result.files == len(CHANGED)
    assert b"+made" in (workshop.run_dir(run) / "result.patch").read_bytes()
    assert (workshop.run_dir(run) / "plan.json").is_file()
    workshop.nothing_runs()


def test_a_failed_agents_work_comes_back_all_the_same(workshop: Workshop) -> None:
    run = workshop.ended(workshop.start(goal=f"{WORK}; exit 7"))
    assert (run.state, run.exit_code) == ("failed", 7)
    assert workshop.files(run) == CHANGED


def test_commits_of_the_agents_own_come_back_as_they_are(workshop: Workshop) -> None:
    goal = "git checkout -q -b other; echo 1 > a; git add a; git commit -qm own; echo 2 > b"
    run = workshop.ended(workshop.start(goal=goal))
    log = workshop.project.ask("log", "--format=%s", f"{run.base}..agent--try").split("\n")
    assert log[-1] == "own" and len(log) == 2
    assert workshop.files(run) == {"a": "1", "b": "2"}


def test_a_run_starts_in_the_folder_it_was_asked_for_in(workshop: Workshop) -> None:
    workshop.project.write("inner/deep/file")
    workshop.project.commit("a folder")
    inner = workshop.project.folder / "inner/deep"
    wish = replace(workshop.wish("try", "basename $PWD; touch here"), folder=inner)
    run = workshop.ended(workshop.does(workshop.engine().start(wish)))
    assert workshop.files(run) == {"inner/deep/here": ""}
    missing = replace(workshop.wish("early", "touch top"), folder=inner, base="HEAD^")
    run = workshop.ended(workshop.does(workshop.engine().start(missing)))
    assert workshop.files(run) == {"top": ""}


def test_two_things_the_person_wants_in_every_workspace(workshop: Workshop) -> None:
    workshop.project.write(".env", "TOKEN=1\n")
    order = configured(
        workshop, '[workspace]\ncopy = [".env", "gone"]\nsetup = "echo ready > .ready; cat .env"\n'
    )
    wish = replace(workshop.wish("try", "cat .env .ready; cp .env copied"), order=order)
    run = workshop.ended(workshop.does(workshop.engine().start(wish)))
    said = [event.fields.get("text") for event in workshop.events(run)]
    assert run.state == "done" and "TOKEN=1" in said and "ready" in said
    assert "there is no gone to copy" in workshop.said(run)
    assert set(workshop.files(run)) == {"copied", ".ready"}


def test_an_agent_is_not_started_in_a_workspace_that_is_not_ready(workshop: Workshop) -> None:
    order = configured(workshop, '[workspace]\nsetup = "echo no such luck; exit 3"\n')
    wish = replace(workshop.wish("try", "touch ran"), order=order)
    run = workshop.ended(workshop.does(workshop.engine().start(wish)))
    assert run.state == "failed" and run.started is None
    assert "it ended with 3" in workshop.said(run) and "no such luck" in workshop.said(run)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "Not A Name"}, "not a name for a run"),
        ({"agent": "nobody"}, "there is none by that name"),
        ({"base": "no-such-ref"}, "no such commit"),
        ({"base": "--help"}, "no such commit"),
        ({"folder": Path("/")}, "not a git repository"),
        ({"goal": "echo a\0b"}, "a NUL character"),
        ({"goal": " \n"}, "it is empty"),
        ({"goal": "#" + "é" * 62_000}, "over 122880 bytes"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(
    workshop: Workshop, change: dict[str, object], words: str
) -> None:
    before = workshop.project.state()
    wish = replace(workshop.wish("try"), **change)  # type: ignore[arg-type]
    with pytest.raises(AgsError) as caught:
        workshop.does(workshop.engine().start(wish))
    assert words in f"{caught.value.cause} {caught.value.subject}"
    assert caught.value.hint
    assert not (workshop.ags_home / "runs").exists()
    assert workshop.project.state() == before


def test_the_longest_goal_there_can_be_reaches_the_agent(workshop: Workshop) -> None:
    goal = "echo made > new #".ljust(120 * 1024, "x")
    run = workshop.ended(workshop.start(goal=goal))
    assert run.state == "done" and "new" in workshop.files(run)


BOMB = """
head -c 1000000 /dev/zero > /tmp/blob
id=$(git hash-object -w /tmp/blob)
tree=$(for n in $(seq 600); do printf '100644 blob %s\\t%s\\n' $id $n; done | git mktree)
git reset -q --hard $(git commit-tree -p HEAD -m bomb $tree)
"""


@pytest.mark.parametrize("goal", [BOMB, "yes '' | head -c 34000000 > breaks"])
def test_what_is_small_only_when_packed_makes_no_endless_patch(
    workshop: Workshop, goal: str
) -> None:
    run = workshop.ended(workshop.start(goal=goal))
    assert run.result is not None and run.result.files
    assert not list(workshop.run_dir(run).glob("result.patch*"))
    assert any("too large" in note for note in run.notes)
    assert run.branch is not None and workshop.project.ask("rev-parse", run.branch)


def test_a_repository_without_a_commit_says_so(workshop: Workshop) -> None:
    workshop.project.git("checkout", "-q", "--orphan", "fresh")
    with pytest.raises(AgsError, match="no commit yet"):
        workshop.start()


def test_a_branch_that_is_there_already_is_not_touched(workshop: Workshop) -> None:
    workshop.project.git("branch", "agent--try")
    with pytest.raises(AgsError, match="has a branch agent--try already"):
        workshop.start()


def test_a_restart_does_it_again_and_keeps_what_was_there(workshop: Workshop) -> None:
    run = workshop.ended(workshop.start(goal="date +%N > now"))
    first = workshop.project.ask("rev-parse", "agent--try")
    again = workshop.restarted(run)
    second = workshop.project.ask("rev-parse", "agent--try")
    assert again.state == "done" and first != second
    kept = workshop.project.ask("for-each-ref", f"refs/ags/earlier/{run.id}")
    assert first in kept and second not in kept


def test_review_apply_and_undo(workshop: Workshop) -> None:
    workshop.project.git("add", "own")
    workshop.project.git("commit", "-qm", "mine")
    engine = workshop.engine()
    run = workshop.ended(workshop.start(goal=f"{WORK}; echo 'all:' > Makefile"))
    found = workshop.does(review.review(engine, "try"))
    assert {file.path for file in found.diff.files} == {*CHANGED, "Makefile"}
    assert [risk.path for risk in found.risks] == ["Makefile"]
    before = workshop.project.state()
    applied = workshop.does(review.apply(engine, "try"))
    assert applied is not None and applied.how == "fast-forward"
    assert (workshop.project.folder / "made").read_text() == "made\n"
    with pytest.raises(AgsError, match="applied to main already"):
        workshop.does(review.apply(engine, "try"))
    workshop.does(review.undo(engine, "try"))
    assert workshop.project.state() == before
    assert workshop.load(run).applied[0].undone is not None


def test_what_is_nowhere_else_is_not_dropped_without_a_word(workshop: Workshop) -> None:
    run = workshop.ended(workshop.start())
    workshop.project.git("branch", "-D", "agent--try")
    for drop in (workshop.engine().remove, workshop.engine().clean):
        with pytest.raises(AgsError, match="nothing else holds this work"):
            workshop.does(drop("try"))
    assert workshop.traces(run) and run.result is not None
    workshop.project.git("branch", "rescued", run.result.commit)
    workshop.does(workshop.engine().remove("try"))
    assert workshop.traces(run) == []
    assert workshop.project.ask("show", "rescued:made") == "made"


def test_a_branch_is_kept_and_everything_else_goes(workshop: Workshop) -> None:
    run = workshop.ended(workshop.start())
    assert workshop.does(workshop.engine().clean("try"))
    assert not (workshop.ags_home / "worktrees/try").exists()
    assert not workshop.does(workshop.engine().clean("try"))
    workshop.does(workshop.engine().remove("try"))
    assert workshop.traces(run) == [] and workshop.files(run) == CHANGED


def test_a_run_at_work_is_not_removed(workshop: Workshop) -> None:
    workshop.start(goal="sleep 600")
    with pytest.raises(AgsError, match="it is at work"):
        workshop.does(workshop.engine().remove("try", force=True))
    workshop.does(workshop.engine().stop("try", at_once=True))


def test_a_garbage_collection_of_the_persons_takes_nothing_from_a_run(workshop: Workshop) -> None:
    base = workshop.project.commit("soon unreachable")
    run = workshop.start(goal="until [ -e go ]; do sleep 0.05; done; git show HEAD:file > shown")
    workshop.project.git("reset", "-q", "--hard", "HEAD^")
    workshop.project.git("reflog", "expire", "--expire=now", "--all")
    workshop.project.git("gc", "-q", "--prune=now")
    wait_for("it is at work", lambda: workshop.load(run).state == "running")
    (workshop.ags_home / "worktrees/try/go").touch()
    ended = workshop.ended(run)
    assert (ended.state, ended.base) == ("done", base)
    assert workshop.files(ended)["shown"] == "one"
    workshop.check_sound()


def test_a_large_project_has_a_checkout_ready_for_the_next_run(workshop: Workshop) -> None:
    for number in range(3000):
        workshop.project.write(f"many/{number // 100}/{number}", f"{number}\n")
    workshop.project.commit("many files")
    engine = workshop.engine()
    first = workshop.start("first", "until [ -e go ]; do sleep 0.05; done; git status --short")
    (ready,) = wait_for("a spare", engine.spares)
    (workshop.ags_home / "worktrees/first/go").touch()
    assert workshop.ended(first).state == "done"
    inode = (ready / "tree").stat().st_ino
    goal = (
        "stat -c %i .; git status --short; echo x >> many/0/1; rm many/1/100; git mv many/2 moved"
    )
    second = workshop.ended(workshop.start("second", goal))
    said = [event.fields["text"] for event in workshop.events(second) if event.kind == "output"]
    assert said == [str(inode)], "another folder than the one that was ready, or it is not clean"
    changed = workshop.project.ask("diff", "--name-status", f"{second.base}", "agent--second")
    assert changed.count("R100") == 100 and "M\tmany/0/1" in changed and "D\tmany/1/100" in changed
    engine.forget_spares()
    assert engine.spares() == ()


def test_an_agent_on_the_persons_own_branch_name_moves_nothing_of_theirs(
    workshop: Workshop,
) -> None:
    before = workshop.project.ask("rev-parse", "main")
    goal = "git checkout -q main; echo x > x; git add x; git commit -qm x; git tag -f v1"
    run = workshop.ended(workshop.start(goal=goal))
    assert workshop.project.ask("rev-parse", "main") == before
    assert workshop.project.ask("tag") == ""
    assert workshop.files(run) == {"x": "x"}


@pytest.mark.parametrize("then", ["removed", "something else"])
def test_a_linked_worktree_that_is_gone_leaves_the_run_to_its_repository(
    workshop: Workshop, then: str
) -> None:
    workshop.project.git("add", "own")
    workshop.project.git("commit", "-qm", "mine")
    linked, engine = workshop.place / "linked", workshop.engine()
    workshop.project.git("worktree", "add", "-q", "-b", "side", str(linked))
    wish = replace(workshop.wish("try"), folder=linked)
    run = workshop.ended(workshop.does(engine.start(wish)))
    assert run.project == linked
    workshop.project.git("worktree", "remove", str(linked))
    if then == "something else":
        linked.mkdir()
    found = workshop.does(review.review(engine, "try"))
    assert {file.path for file in found.diff.files} == set(CHANGED)
    workshop.does(review.apply(engine, "try", into="side"))
    assert workshop.project.ask("show", "side:made") == "made"
    assert workshop.restarted(run).state == "done"
    workshop.does(engine.remove("try"))
    assert workshop.traces(run) == []
    assert not list(linked.glob("*"))


def test_commits_on_other_branches_are_told_and_outlive_the_run(workshop: Workshop) -> None:
    goal = "git checkout -q -b side; echo s > s; git add s; git commit -qm side"
    run = workshop.ended(workshop.start(goal=f"{goal}; git checkout -q agent--try; touch made"))
    assert run.state == "done" and workshop.files(run) == {"made": ""}
    (note,) = [note for note in run.notes if "the branch side" in note]
    assert note in [event.fields.get("text") for event in workshop.events(run)]
    workshop.does(workshop.engine().remove("try"))
    assert workshop.traces(run) == []
    workshop.project.git("gc", "-q", "--prune=now")
    workshop.project.git(*note.split("`")[1].replace("NAME", "mine").split()[1:])
    assert workshop.project.ask("show", "mine:s") == "s"


def test_what_cannot_be_read_is_left_out_and_told(workshop: Workshop) -> None:
    run = workshop.ended(workshop.start(goal="touch made shut; chmod 000 shut; mkfifo .git/x"))
    assert run.state == "done" and workshop.files(run) == {"made": ""}
    assert "left out: shut: a file that cannot be read" in run.notes
    assert "left out: shut: a file that cannot be read" in workshop.said(run)
