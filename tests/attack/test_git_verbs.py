"""THREATS G1: whatever git is told to run, by an agent or by the person's own repository: on the
host, no verb of ours runs it on an agent's work.

A mark is in a folder that no sandbox has, so only a program on the host can leave one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from ags import runs
from ags.errors import AgsError
from ags.review import apply, review, undo
from tests.attack.git_poisons import ALL, BASE, BREAKING, GROUPS, planted
from tests.attack.whole import PATIENCE, Whole, until
from tests.attack.whole import whole as whole
from tests.workspace.agent import done

WORK = r"""
sed -i 's/^3$/three/' file a.diff a.conv a.merge
touch a.filter a.process; echo new > new
"""
COMMITTED = WORK + "git add new; git -c core.hooksPath=/dev/null commit -qm new\n"
PLAIN = (
    "git status; git show; git log -p; git diff HEAD~; git commit --allow-empty -m mine; "
    "git update-ref refs/heads/more HEAD; rm file; git checkout file; git gc -q; git fetch ."
)


@pytest.fixture
def marks(whole: Whole) -> Path:
    """The project has files for every driver, and its branch is a commit ahead of the runs'."""
    whole.sh(f"{BASE}\nmkdir ../outside/marks; git add -A; git commit -qm drivers")
    whole.sh("git branch other; sed -i 's/^28$/twenty-eight/' a.merge a.diff; git commit -qam mine")
    return whole.outside / "marks"


def left(marks: Path) -> set[str]:
    """What ran on the host since the last look."""
    found = {each.name for each in marks.iterdir()}
    for each in marks.iterdir():
        each.unlink()
    return found


class Verbs:
    """Each of them, on runs with one goal; remembers what each said."""

    def __init__(self, whole: Whole, goal: str) -> None:
        self.whole = whole
        self.goal = goal
        self.refused: dict[str, str] = {}

    def _try(self, verb: str, call: Callable[[], Coroutine[object, object, object]]) -> None:
        try:
            done(call())
        except AgsError as error:
            self.refused[verb] = f"{error}: {error.cause}"

    def all(self) -> None:
        self._looked_at()
        self._taken_over()
        self._done_again()
        self._interrupted()
        self._stopped()

    def some(self) -> None:
        self._looked_at()
        self._interrupted()

    def _looked_at(self) -> None:
        whole, engine = self.whole, self.whole.engine()
        if (run := whole.run("one", self.goal, "HEAD~")).state != "done":
            self.refused["start"] = f"{run}"
        engine.listing()
        engine.find("one")
        self._try("diff", lambda: review(engine, "one"))

    def _taken_over(self) -> None:
        engine = self.whole.engine()
        for how in ("merge", "squash", "patch"):
            self._try(how, lambda how=how: apply(engine, "one", how=how))  # type: ignore[misc]
            self._try(f"undo {how}", lambda: undo(engine, "one"))
        self._try("into", lambda: apply(engine, "one", into="other"))
        self._try("undo into", lambda: undo(engine, "one"))

    def _done_again(self) -> None:
        engine = self.whole.engine()
        self._try("restart", lambda: engine.restart("one"))
        self._try("ended", lambda: engine.ended(engine.run_dir("one"), PATIENCE))
        self._try("clean", lambda: engine.clean("one"))
        self._try("clean", lambda: engine.clean("one", force=True))
        self._try("remove", lambda: engine.remove("one", force=True))

    def _interrupted(self) -> None:
        engine = self.whole.engine()
        self.whole.interrupted("two", self.goal, "HEAD~")
        self._try("gather", lambda: engine.gather("two"))
        self._try("diff of an interrupted", lambda: review(engine, "two"))
        self._try("remove an interrupted", lambda: engine.remove("two", force=True))

    def _stopped(self) -> None:
        engine = self.whole.engine()
        run_dir = self.whole.at_work("three", self.goal, "HEAD~")
        self._try("stop", lambda: engine.stop("three"))
        until(lambda: not runs.is_alive(run_dir))
        self._try("remove a stopped", lambda: engine.remove("three", force=True))


@pytest.mark.parametrize("name", ALL)
def test_each_poison_is_live(whole: Whole, marks: Path, name: str) -> None:
    """The positive twin of all that follows: the person's own git falls for it."""
    poison = ALL[name]
    whole.sh(planted(marks, poison))
    left(marks)
    whole.sh(f"marks={marks}; {poison.control}", check=False)
    assert name in left(marks)


def with_no_mark(verbs: Callable[[], object], whole: Whole, marks: Path) -> None:
    """On no verb of ours, and afterwards not by the person's own git either."""
    verbs()
    assert not left(marks)
    whole.sh(PLAIN, check=False)
    assert not left(marks)


def test_what_an_agent_plants_is_not_in_the_persons_repository(whole: Whole, marks: Path) -> None:
    before = whole.sh("cat .git/config; ls .git/hooks")
    goal = planted(marks, *GROUPS["programs"].values())
    with_no_mark(lambda: whole.run("one", goal), whole, marks)
    assert whole.sh("cat .git/config; ls .git/hooks") == before


def test_filters_that_an_agent_plants_do_not_run_where_its_work_is_collected(
    whole: Whole, marks: Path
) -> None:
    goal = planted(marks, *GROUPS["programs"].values()) + "\necho more >> a.filter"
    with_no_mark(lambda: whole.run("one", goal), whole, marks)
    whole.sh(f"{goal}\ngit add a.filter", check=False)
    assert "clean" in left(marks)


AGENTS = [
    ("programs", "self"),
    ("programs", "root for another"),
    ("files", "self"),
    ("tree", "self"),
]


@pytest.mark.parametrize(("group", "whole"), AGENTS, indirect=["whole"])
def test_what_an_agent_plants_runs_on_no_verb(whole: Whole, marks: Path, group: str) -> None:
    before = whole.sh("cat .git/config; ls .git/hooks")
    verbs = Verbs(whole, f"{COMMITTED}\n{planted(marks, *GROUPS[group].values())}\n:")
    with_no_mark(verbs.all, whole, marks)
    assert verbs.refused == {}
    assert whole.sh("cat .git/config; ls .git/hooks") == before


@pytest.mark.parametrize("name", BREAKING)
def test_a_broken_git_directory_runs_nothing_on_any_verb(
    whole: Whole, marks: Path, name: str
) -> None:
    verbs = Verbs(whole, f"{COMMITTED}\n{planted(marks, BREAKING[name])}\n:")
    with_no_mark(verbs.some, whole, marks)
    assert whole.sh("git status --porcelain; git fsck --strict 2>&1") == ""


def kept_out(whole: Whole, marks: Path, group: str) -> None:
    """Drivers in the person's repository, their programs in a folder that no run sees."""
    whole.sh(f"{planted(marks, *GROUPS[group].values())}\nmv .poison ../outside/poison")
    whole.sh("ln -s ../outside/poison .poison; echo .poison >> .git/info/exclude")
    left(marks)


@pytest.mark.parametrize("group", ["programs", "files"])
def test_the_persons_own_drivers_do_not_run_on_an_agents_work(
    whole: Whole, marks: Path, group: str
) -> None:
    kept_out(whole, marks, group)
    verbs = Verbs(whole, WORK)
    verbs.all()
    assert not left(marks)
    assert verbs.refused == {}
    # The twin: left to the person's own git, the same work would have run them.
    whole.sh("git log -p; git status", check=False)
    assert left(marks)


def test_attributes_from_an_agent_wake_no_driver_of_the_persons(whole: Whole, marks: Path) -> None:
    """They name drivers that the person has: for all files, and the change has all sorts."""
    for key in ("filter.r.clean", "filter.r.smudge", "merge.r.driver", "diff.r.textconv"):
        whole.sh(f"git config {key} 'touch {marks}/{key}; cat'")
    verbs = Verbs(whole, WORK + "echo '* filter=r merge=r diff=r' >> .gitattributes")
    verbs.all()
    assert not left(marks)
    checkouts = {f"{undo}{how}" for how in ("merge", "squash", "patch") for undo in ("", "undo ")}
    assert set(verbs.refused) == checkouts
    assert "attributes, which can call programs" in verbs.refused["merge"]
    whole.sh("git merge agent--one", check=False)
    assert left(marks) >= {"filter.r.smudge"}


def test_a_repository_that_an_agent_made_can_be_looked_at_and_worked_on(
    whole: Whole, marks: Path
) -> None:
    """The person steps into what an agent left, and calls ags there."""
    named = "git -C nested config user.name Pat; git -C nested config user.email pat@example.org"
    whole.run("one", f"{planted(marks, GROUPS['tree']['nested'])}\n{named}")
    nested = whole.state / "worktrees/one/nested"
    assert (nested / ".git/hooks/post-index-change").exists()
    run = done(whole.engine().ended(whole.start("two", "echo 2 > two", folder=nested), PATIENCE))
    assert run.state == "done"
    done(review(whole.engine(), "two"))
    done(apply(whole.engine(), "two"))
    assert not left(marks)
    assert (nested / "two").read_text() == "2\n"
    whole.sh("git status", nested)
    assert left(marks) == {"nested"}


COMMANDS = """
list
show one
logs one
diff --stat one
diff --json one
diff --no-pager one
apply -y one
undo one
apply -y --squash one
undo one
apply -y --patch one
undo one
apply -y --into other one
undo one
restart one
rm --force one
cleanup --all --force
list --json
"""


def ags(whole: Whole, *arguments: str) -> None:
    """The command line, in the person's project."""
    ran = subprocess.run(
        (sys.executable, "-I", "-m", "ags.cli.main", *arguments),
        cwd=whole.root,
        env={"PATH": "/usr/bin:/bin", "HOME": str(whole.home), "AGS_HOME": str(whole.state)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, f"{arguments}\n{ran.stdout}{ran.stderr}"


def test_nothing_runs_on_the_host_on_any_command(whole: Whole, marks: Path) -> None:
    """The person's repository has drivers, and the agent plants more."""
    kept_out(whole, marks, "programs")
    goal = f"{WORK}\n{planted(marks, *GROUPS['files'].values())}\n:"
    ags(whole, "start", "--agent", "shell", "--base", "HEAD~", "one", goal)
    for command in COMMANDS.split("\n"):
        if command:
            ags(whole, *command.split())
    ags(whole, "start", "--agent", "shell", "--detach", "two", f"{goal}\nsleep 600")
    ags(whole, "stop", "--now", "two")
    ags(whole, "rm", "--force", "two")
    assert not left(marks)
