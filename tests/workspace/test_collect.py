"""What an agent leaves in its workspace comes back as a branch, and nothing else does."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import pytest

from ags.errors import AgsError
from ags.model import Ending, Plan
from ags.workspace import leftovers
from ags.workspace.leftovers import Seen, choose, parse
from tests.workspace.agent import Agent, project, sh
from tests.workspace.scene import Scene, by_everyone


@by_everyone
def test_uncommitted_work_comes_back_as_a_commit_of_the_persons(scene: Scene) -> None:
    project(scene, "echo gone > gone")
    agent = Agent(scene)
    assert agent.does("git status --porcelain") == ""
    agent.does("echo more >> file; echo new > new; rm gone; git status --short")
    found = agent.collect()
    assert agent.changes() == {"M file", "A new", "D gone"}
    assert (found.files, found.commits, found.on_base) == (3, 1, True)
    assert found.left_out == ()
    assert "Pat Person <pat@example.org>" in sh(scene, "git log -1 --format=%an' <%ae>' agent--try")
    assert sh(scene, "git rev-parse agent--try").strip() == found.commit
    assert sh(scene, "git fsck --strict 2>&1; git status --porcelain") == ""
    assert sh(scene, f"find .git -not -user {scene.owner.uid}") == ""


def test_every_kind_of_change_comes_back(scene: Scene) -> None:
    project(scene, "echo x > tool; echo old > old; ln -s file link; mkdir gone; echo x > gone/x")
    agent = Agent(scene)
    agent.does(
        "chmod +x tool; mv old renamed; ln -sf d/two link; ln -s /etc/passwd out; : > empty\n"
        "head -c 100000 /dev/urandom > binary; truncate -s 50M huge; echo x > $'odd\\xff\\nname'\n"
        "rm -r gone; echo now-a-file > gone; rm file; mkdir file; echo x > file/x; mkfifo pipe"
    )
    agent.collect()
    assert agent.changes() == {
        *("M tool", "D old", "A renamed", "M link", "A out", "A empty", "A binary", "A huge"),
        *("A odd\udcff\nname", "D gone/x", "A gone", "D file", "A file/x"),
    }
    assert sh(scene, "git ls-tree agent--try tool").startswith("100755")
    assert sh(scene, "git ls-tree agent--try out").startswith("120000")
    assert sh(scene, "git cat-file blob agent--try:out") == "/etc/passwd"
    assert sh(scene, "git cat-file -s agent--try:huge") == f"{50 << 20}\n"


def test_commits_of_the_agents_own_come_back_as_they_are(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    agent.does(
        "echo a > a; git add a; git commit -qm one; echo b >> a; git commit -qam two --amend\n"
        "git checkout -qb side HEAD~; echo s > s; git add s; git commit -qm side\n"
        "git checkout -q agent--try; git merge -q --no-edit side; echo left > left"
    )
    found = agent.collect()
    assert found.commits == 4
    assert sh(scene, "git log --format=%s agent--try | sort").split("\n")[1:-1] == [
        *("Work that the agent left uncommitted", "first", "side", "two")
    ]
    assert agent.changes() == {"A a", "A s", "A left"}
    assert "side" not in sh(scene, "git branch --format='%(refname:short)'").split()


def test_no_change_is_the_base_itself(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    found = agent.collect()
    assert (found.commit, found.files, found.commits) == (agent.commit, 0, 0)
    assert sh(scene, "git rev-parse agent--try").strip() == agent.commit


def test_history_that_was_rewritten_below_the_base_is_told(scene: Scene) -> None:
    project(scene)
    sh(scene, "echo 2 >> file; git commit -qam second")
    agent = Agent(scene)
    agent.does("git reset -q --hard HEAD~; echo other > other; git add other; git commit -qm other")
    found = agent.collect()
    assert not found.on_base
    assert agent.changes() == {"M file", "A other"}


def test_a_branch_without_a_parent_comes_back(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    agent.does("git checkout -q --orphan fresh; git rm -rqf .; echo x > x")
    found = agent.collect()
    assert not found.on_base
    assert agent.changes() == {"D file", "D d/two", "A x"}


def test_going_back_to_an_older_commit_comes_back(scene: Scene) -> None:
    project(scene)
    sh(scene, "echo 2 >> file; git commit -qam second")
    agent = Agent(scene)
    agent.does("git reset -q --hard HEAD~")
    agent.collect()
    older, found = sh(scene, "git rev-parse main~ agent--try").split()
    assert found == older


def test_what_is_ignored_stays_behind(scene: Scene) -> None:
    project(scene, "printf '*.o\\n' > .gitignore; printf 'mine\\n' >> .git/info/exclude")
    with scene.person():
        (scene.outside / "home/.config/git").mkdir(parents=True)
        (scene.outside / "home/.config/git/ignore").write_text("*.swp\n")
    agent = Agent(scene)
    agent.does("touch a.o mine b.swp kept")
    agent.collect()
    assert agent.changes() == {"A kept"}


def test_settings_of_agents_stay_behind_unless_the_project_has_some(scene: Scene) -> None:
    project(scene, "mkdir .gemini; echo x > .gemini/style")
    agent = Agent(scene)
    agent.does(
        "mkdir -p .claude .codex; echo x > .claude/a; echo x > .codex/b; echo x > .gemini/new\n"
        "echo x > kept; git add .codex"
    )
    found = agent.collect()
    assert agent.changes() == {"A kept", "A .gemini/new"}
    assert [note.split(":")[0] for note in found.left_out] == [".claude", ".codex"]


def test_a_repository_in_the_workspace_is_reported_and_not_linked(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    agent.does("git init -q sub; cd sub; echo x > x; git add x; git commit -qm x; echo k > ../kept")
    found = agent.collect()
    assert agent.changes() == {"A kept"}
    assert found.left_out == ("sub/: a repository of its own",)


def test_work_can_be_collected_again(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    agent.does("echo 1 > a")
    first = agent.collect()
    agent.does("echo 2 > b")
    second = agent.collect(expected=first.commit)
    assert agent.changes() == {"A a", "A b"}
    assert sh(scene, "git rev-parse agent--try~").strip() == first.commit
    assert second.commits == 2


def test_a_branch_that_is_somebody_elses_is_left_alone(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    sh(scene, "git branch agent--try; git rev-parse agent--try > before")
    agent.does("echo 1 > a")
    with pytest.raises(AgsError, match="there is one by that name") as told:
        agent.collect()
    assert sh(scene, "git rev-parse agent--try; rm before").strip() == agent.commit
    keeping = told.value.hint.split("`")[1].replace("NAME", "kept")
    sh(scene, keeping)
    assert sh(scene, "git show kept:a") == "1\n"


def test_a_merge_left_in_the_middle_comes_back_with_its_marks(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    agent.does(
        "git checkout -qb side; echo a > file; git commit -qam a; git checkout -q agent--try\n"
        "echo b > file; git commit -qam b; git merge side || true"
    )
    agent.collect()
    assert "<<<<<<<" in sh(scene, "git show agent--try:file")


def test_a_change_that_only_the_content_shows_is_seen(scene: Scene) -> None:
    """Same size, same time as the index: git looks into such a file, if its index is that old."""
    project(scene)
    agent = Agent(scene)
    agent.does(
        "touch -d @1000000000 file; git update-index --refresh; touch -d @1000000000 .git/index\n"
        "printf 'two\\n' > file; touch -d @1000000000 file"
    )
    agent.collect()
    assert agent.changes() == {"M file"}


def test_too_much_is_refused_and_kept(scene: Scene) -> None:
    project(scene)
    agent = Agent(scene)
    agent.does("head -c 3000000 /dev/urandom > big")
    with pytest.raises(AgsError) as told:
        agent.collect(most=1 << 20)
    assert "nothing is lost" in told.value.hint
    assert sh(scene, "git for-each-ref refs/heads --format='%(refname)'") == "refs/heads/main\n"
    assert (agent.workspace / "big").stat().st_size == 3000000
    agent.collect()
    assert agent.changes() == {"A big"}


def test_the_listing_is_read_as_it_was_written() -> None:
    odd = os.fsencode("a\udcff\nb")
    listing = b"filter.lfs.clean\0\x00160000 abc 0\tsub\0\0shut/\0\0"
    assert parse(listing + odd + b"\0filter\0lfs\0") == Seen(
        frozenset({"lfs"}), ("sub",), (("a\udcff\nb", "lfs"),), ("shut/",)
    )
    with pytest.raises(ValueError, match="not in list"):
        parse(b"half")


def test_a_path_whose_filter_is_missing_is_left_out() -> None:
    seen = Seen(frozenset({"there"}), (), (("a", "there"), ("b", "gone"), ("c", "unspecified")))
    choice = choose(seen, ())
    assert choice.paths == ("b",)
    assert choice.left_out == ("b: its filter 'gone' does not work in the sandbox",)


@dataclass
class Counted(Agent):
    """Knows how many sandboxes were started for it."""

    started: int = 0

    async def run_inside(self, plan: Plan, stdin: int, stdout: int, stderr: int) -> Ending:
        self.started += 1
        return await super().run_inside(plan, stdin, stdout, stderr)


@pytest.mark.parametrize(
    ("left", "changes"),
    [
        ("true", set()),
        ("echo a >> file; echo n > $'n\\nw'; rm d/two", {"M file", "A n\nw", "D d/two"}),
        ("echo a > unspecified", {"A unspecified"}),
        ("echo a > a; git add a; git commit -qm a; echo b > b; git add b", {"A a", "A b"}),
        ("echo a > a; git add a; git commit -qm a", {"A a"}),
        ("mkdir .claude; echo '{}' > .claude/x; echo a > a", {"A a"}),
        ("mkdir deep; git init -q deep/er; echo a > a", {"A a"}),
        ("echo '*.x filter=none' > .gitattributes; echo x > a.x", {"A .gitattributes"}),
    ],
)
def test_work_with_nothing_special_about_it_takes_one_sandbox(
    scene: Scene, left: str, changes: set[str]
) -> None:
    special = any(word in left for word in (".claude", "init", "filter", "unspecified"))
    project(scene)
    agent = Counted(scene)
    agent.does(left)
    agent.collect()
    assert agent.changes() == changes
    assert agent.started == (2 if special else 1)
    assert agent.does("git status --porcelain --untracked-files=no") == ""


def test_what_is_half_merged_is_collected_all_the_same(scene: Scene) -> None:
    project(scene)
    agent = Counted(scene)
    agent.does("""git checkout -qb other; echo theirs > file; git commit -qam theirs
        git checkout -q agent--try; echo ours > file; git commit -qam ours
        git merge other > /dev/null || true""")
    agent.collect()
    assert agent.changes() == {"M file"}
    assert "<<<<<<<" in sh(scene, "git show agent--try:file")


@by_everyone
def test_what_cannot_be_read_is_named_and_the_rest_comes_back(scene: Scene) -> None:
    project(scene, "echo '*.o' > .gitignore; mkdir kept; echo k > kept/k")
    agent = Agent(scene)
    agent.does("""echo a > a; echo s > shut; mkdir -p new/deep; echo n > new/deep/n; echo f > file
        echo o > x.o; chmod 000 shut file new/deep kept x.o""")
    came = agent.collect()
    assert agent.changes() == {"A a"}
    assert set(came.left_out) == {
        "shut: a file that cannot be read",
        "file: a file that cannot be read",
        "kept/: a folder that cannot be read",
        "new/deep/: a folder that cannot be read",
    }
    agent.does("chmod 700 new/deep kept; chmod 600 shut file")
    assert agent.collect(came.commit).left_out == ()
    assert agent.changes() == {"A a", "A shut", "A new/deep/n", "M file"}


STUCK = {
    "locks": "cd .git; touch index.lock HEAD.lock packed-refs.lock refs/heads/agent--try.lock",
    "a folder for a lock": "mkdir -p .git/index.lock/x .git/HEAD.lock",
    "pipes": "cd .git; mkfifo info/attributes refs/heads/p objects/pack/pack-1.idx",
    "links to pipes": "mkfifo p; ln -sf ../../p .git/info/attributes; ln -sf ../p .git/MERGE_HEAD",
    "a device": "ln -sf /dev/zero .git/MERGE_MSG; ln -sf /dev/zero .git/info/exclude",
    "shut": "chmod 000 .git/index .git/refs/heads .git/objects",
}


@pytest.mark.parametrize("how", STUCK)
@by_everyone
def test_what_an_agent_left_in_its_git_directory_keeps_nobody_waiting(
    scene: Scene, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks_for(600, monkeypatch)
    project(scene)
    agent = Agent(scene)
    agent.does(f"echo a > a; git add a; git commit -qm a; echo b > b; {STUCK[how]}")
    began = time.monotonic()
    agent.collect()
    assert agent.changes() == {"A a", "A b"}
    assert time.monotonic() - began < 300


def looks_for(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before whatever git may be waiting at is cleared away."""
    quick = f"timeout {leftovers.PATIENCE:g} "
    assert quick in leftovers.AT_ONCE
    script = leftovers.AT_ONCE.replace(quick, f"timeout {seconds} ")
    monkeypatch.setattr(leftovers, "AT_ONCE", script)


@pytest.mark.parametrize(
    "how",
    [
        "mkdir sub; mkfifo sub/.gitignore .gitattributes",
        "mkfifo p; git config include.path ../p",
        "mkfifo p; git config core.attributesFile $PWD/p",
    ],
)
def test_a_pipe_that_git_is_led_to_keeps_nobody_waiting_for_long(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    looks_for(1, monkeypatch)
    project(scene)
    agent = Agent(scene)
    agent.does(f"echo a > a; {how}")
    began = time.monotonic()
    agent.collect()
    assert agent.changes() == {"A a"}
    assert time.monotonic() - began < leftovers.MOST_SECONDS / 3
