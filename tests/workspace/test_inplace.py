"""An agent on the person's own files: what it did is known exactly, and can be taken back."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ags import records
from ags.backends.base import Streams
from ags.backends.bubblewrap import Bubblewrap
from ags.errors import AgsError
from ags.model import Ending, Limits, Plan
from ags.workspace import git, inplace, private
from ags.workspace.inplace import Finish, Place, Start
from ags.workspace.private import Private
from tests.box import Box
from tests.disk import fill, small_disk
from tests.workspace.agent import RUN, done, project, sh
from tests.workspace.scene import Scene, by_everyone

LIMITS = Limits(disk_free=0)


@dataclass
class InPlace:
    """A run on the folder at `root`, from its first snapshot to undo."""

    scene: Scene
    root: Path | None = None
    backend: Bubblewrap = field(default_factory=Bubblewrap)
    private: Private = field(init=False)
    place: Place = field(init=False)
    began: Start = field(init=False)
    ended: Finish = field(init=False)

    def __post_init__(self) -> None:
        done(self._start())

    async def _start(self) -> None:
        state = self.scene.state
        workspace = self.root or self.scene.root
        repository = await git.find(workspace)
        where = await private.position(repository)
        self.private = await private.build(
            repository,
            into=state / "git-try",
            branch="agent--try",
            base=where.commit,
            run=RUN,
            workspace=workspace,
            home=self.scene.outside / "home",
            index=True,
            head=where.head,
        )
        folder = state / "run-try"
        folder.mkdir(mode=0o700)
        git_dir = self.private.git_dir
        self.place = Place(repository, workspace, git_dir, RUN, "agent--try", folder)
        began = await inplace.start(self.place, self.run_inside, self.plan())
        self.began = records.decode(Start, records.encode(began))

    @property
    def box(self) -> Box:
        return Box(self.place.workspace, self.scene.outside / "home", self.backend)

    def plan(self) -> Plan:
        return self.box.plan("true", protections=self.private.steps, limits=LIMITS)

    async def run_inside(self, plan: Plan, stdin: int, stdout: int, stderr: int) -> Ending:
        sandbox = await self.backend.launch(plan, Streams(stdin, stdout, stderr))
        await sandbox.release()
        return await sandbox.wait()

    def does(self, script: str) -> str:
        who = "git config --global user.name Agent; git config --global user.email a@example.org\n"
        words = ("/bin/bash", "-ec", who + script)
        ran = self.box.run(*words, protections=self.private.steps, limits=LIMITS)
        assert ran.code == 0, ran.out + ran.err
        return ran.out + ran.err

    def finish(self) -> Finish:
        ended = done(inplace.finish(self.place, self.began, self.run_inside, self.plan()))
        self.ended = records.decode(Finish, records.encode(ended))
        return self.ended

    def undo(self) -> tuple[str, ...]:
        return done(inplace.undo(self.place, self.began, self.ended))

    def changes(self) -> set[str]:
        told = sh(
            self.scene,
            f"git diff --name-status --no-renames -z {self.began.commit} {self.ended.commit}",
            self.root,
        )
        words = told.split("\0")
        return {f"{kind} {path}" for kind, path in zip(words[::2], words[1::2], strict=False)}


def listing(root: Path) -> dict[bytes, tuple[int, bytes]]:
    """Every file and link with its content and permissions."""
    found = {}
    for place, folders, names in os.walk(os.fsencode(root)):
        folders[:] = [name for name in folders if name != b".git"]
        for name in (
            *names,
            *(each for each in folders if os.path.islink(os.path.join(place, each))),
        ):
            path = os.path.join(place, name)
            facts = os.lstat(path)
            is_link = stat.S_ISLNK(facts.st_mode)
            content = os.readlink(path) if is_link else Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, os.fsencode(root))] = (facts.st_mode, content)
    return found


def person(scene: Scene, root: Path | None = None) -> str:
    """All that git tells the person, but for refs of ours."""
    return sh(
        scene,
        "git status --porcelain=v2 --branch --untracked-files=all; git ls-files -s -v;"
        "git for-each-ref | grep -v refs/ags || true; cat $(git rev-parse --git-path HEAD)",
        root,
    )


DIRTY = (
    "echo staged > staged; git add staged; echo changed > file; echo loose > loose\n"
    "echo '*.o' > .gitignore; echo precious > a.o; rm d/two; chmod +x x; ln -sfn d l\n"
    "git update-index --assume-unchanged m; echo hidden > m"
)
CHANGES = (
    "echo more >> file; rm loose staged; echo n > new; chmod -x x; ln -sfn e l; rm -r e\n"
    "echo now-a-file > e; mkdir f; echo f > f/f; rm .gitignore; : > d/empty; ln -s /etc/passwd p\n"
    "echo x > $'odd\\xff\\nname'; mv g h; rm k; mkdir k; echo k > k/k; chmod +x m"
)


@by_everyone
def test_a_dirty_folder_is_restored_to_the_byte(scene: Scene) -> None:
    project(scene, "echo x > x; ln -s file l; mkdir e; echo e > e/e; : > g; echo k > k; echo m > m")
    sh(scene, DIRTY)
    before, told = listing(scene.root), person(scene)
    run = InPlace(scene)
    assert person(scene) == told
    assert "On branch main" in run.does("git status")
    run.does(CHANGES)
    after = listing(scene.root)
    found = run.finish()
    assert (found.moved, found.kept_branch, found.head) == (None, None, run.began.head)
    assert run.changes() == {
        *("M file", "D loose", "D staged", "A new", "M x", "M l", "D e/e", "A e", "A f/f", "A p"),
        *("D .gitignore", "A d/empty", "A odd\udcff\nname", "D g", "A h", "D k", "A k/k", "M m"),
    }
    assert listing(scene.root) == after
    assert run.undo() == ()
    assert listing(scene.root) == before
    assert person(scene) == told
    assert sh(scene, f"git fsck --no-dangling 2>&1; find . -not -user {scene.owner.uid}") == ""


def test_a_clean_folder_is_its_own_snapshot(scene: Scene) -> None:
    project(scene)
    objects = sh(scene, "find .git/objects -type f | sort")
    run = InPlace(scene)
    assert run.finish() == Finish(run.began.commit, run.began.head)
    assert run.began.commit == run.began.head == sh(scene, "git rev-parse HEAD").strip()
    assert sh(scene, "find .git/objects -type f | sort") == objects
    refs = sh(scene, "git for-each-ref refs/ags --format='%(refname)'").split()
    assert refs == [f"refs/ags/{what}/{RUN}" for what in ("base", "end", "start")]


@pytest.mark.parametrize("how", ["rm .gitignore", "git add -f a.o deep; git commit -qm forced"])
def test_what_was_ignored_is_never_taken_for_the_agents(scene: Scene, how: str) -> None:
    project(scene, "printf '*.o\\ndeep/\\n' > .gitignore")
    sh(scene, "echo precious > a.o; mkdir deep; echo precious > deep/er")
    run = InPlace(scene)
    run.does(f"{how}; echo new > b.o; git add -f b.o")
    run.finish()
    assert "A b.o" in run.changes()
    assert not any("a.o" in each or "deep" in each for each in run.changes())
    run.undo()
    assert (scene.root / "a.o").read_text() == (scene.root / "deep/er").read_text() == "precious\n"
    assert not (scene.root / "b.o").exists()


@pytest.mark.parametrize(
    "lie",
    [
        "git update-index --assume-unchanged file; printf 'two\\n' > file",
        "printf 'two\\n' > file; touch -d @1000000000 file",
        "printf 'two\\n' > t; touch -d @1000000000 t; mv t file; git add file; git reset -q",
        "echo '[broken' > .git/config; printf 'two\\n' > file",
        "git config core.fileMode false; git config --global core.excludesFile /all;"
        "printf '*' > .git/info/exclude; printf 'two\\n' > file",
        "git rm -q --cached file; echo file > .gitignore; printf 'two\\n' > file",
        "rm -r .git/refs .git/index; mkdir .git/refs; printf 'two\\n' > file",
        "mkdir -p ~/bin; printf '#!/bin/sh\\nexit 0' > ~/bin/git; chmod +x ~/bin/git;"
        "printf '* filter=f' > .git/info/attributes; git config filter.f.clean 'echo one';"
        "printf 'two\\n' > file",
    ],
)
def test_no_trick_of_the_agents_hides_a_change(scene: Scene, lie: str) -> None:
    project(scene, "touch -d @1000000000 file")
    run = InPlace(scene)
    run.does(lie)
    run.finish()
    assert run.changes() - {"A .gitignore"} == {"M file"}
    run.undo()
    assert (scene.root / "file").read_text() == "one\n"


FORMS = {
    "crlf": "git config core.autocrlf true; printf 'a\\r\\nb\\r\\n' > w; printf 'a\\n' > u",
    "attributes": "echo '*.w text eol=crlf' > .gitattributes; printf 'a\\r\\n' > a.w; echo u > u",
    "filter": "git config filter.t.clean 'tr a-z A-Z'; git config filter.t.smudge 'tr A-Z a-z';"
    "git config filter.t.required true; echo '*.t filter=t ident' > .gitattributes;"
    "printf '$Id$ hello\\n' > a.t; echo u > u",
    "encoding": "echo '*.u working-tree-encoding=UTF-16' > .gitattributes;"
    "printf hello | iconv -t UTF-16 > a.u; echo u > u",
}


@pytest.mark.parametrize("form", FORMS)
@by_everyone
def test_files_are_kept_as_they_lie_there_and_not_as_git_stores_them(
    scene: Scene, form: str
) -> None:
    project(scene, FORMS[form])
    # Old enough for git to go by what its index knows.
    sh(scene, "rm -f w a.*; git checkout -q .; touch -d @1000000000 *; git status --porcelain")
    before, told = listing(scene.root), person(scene)
    run = InPlace(scene)
    tree = sh(scene, f"git ls-tree -r --name-only {run.began.commit}").split()
    stored = {name: sh(scene, f"git cat-file blob {run.began.commit}:{name}") for name in tree}
    assert stored == {os.fsdecode(n): os.fsdecode(c) for n, (_, c) in before.items()}
    run.does("for f in w u a.*; do [ ! -e $f ] || echo changed >> $f; done; rm file")
    run.finish()
    run.undo()
    assert listing(scene.root) == before
    assert person(scene) == told


KINDS = {
    "sha256": "true",
    "split": "git config core.splitIndex true; git update-index --split-index; cp file more;"
    "git add more",
    "sparse": "git sparse-checkout set --cone e",
    "sparse index": "git sparse-checkout set --cone --sparse-index e",
    "linked": "git worktree add -q -b side ../outside/linked",
    "shallow": "git commit -q --allow-empty -m old; git rev-parse HEAD > .git/shallow",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_repository_goes_forward_and_back(scene: Scene, kind: str) -> None:
    project(scene, "mkdir e; echo e > e/e", init="--object-format=sha256" * (kind == "sha256"))
    sh(scene, KINDS[kind])
    root = scene.outside / "linked" if kind == "linked" else None
    top = root or scene.root
    sh(scene, "echo loose > loose", top)
    before, told = listing(top), person(scene, root)
    run = InPlace(scene, root)
    run.does("echo 1 >> file; git commit -qam one; echo 2 >> file; echo e >> e/e; rm loose\n"
             "mkdir -p d; echo agent > d/two")  # fmt: skip
    after = listing(top)
    found = run.finish()
    two = "A d/two" if "sparse" in kind else "M d/two"
    assert run.changes() == {"M file", "M e/e", "D loose", two}
    assert found.moved is not None
    assert sh(scene, "git status --porcelain", root) == " M d/two\n M e/e\n M file\n"
    assert sh(scene, "git log -1 --format=%s", root) == "one\n"
    assert listing(top) == after
    assert run.undo() == ()
    assert listing(top) == before
    assert person(scene, root) == told


@by_everyone
def test_commits_of_the_agents_take_branch_and_index_along(scene: Scene) -> None:
    project(scene, "echo a > a; echo b > b")
    sh(scene, "echo staged >> a; echo staged >> b; git add a b; echo loose >> b; echo new > new")
    before, told = listing(scene.root), person(scene)
    run = InPlace(scene)
    run.does("echo agent >> a; git commit -qm one a; echo x > x; git add x; git commit -qm x x")
    found = run.finish()
    assert found.moved is not None
    assert found.head == found.moved.after == sh(scene, "git rev-parse main").strip()
    assert sh(scene, "git status --porcelain") == "MM b\n?? new\n"
    assert run.undo() == ()
    assert listing(scene.root) == before
    assert person(scene) == told


def test_a_repository_without_a_commit_gets_its_first_and_loses_it_again(scene: Scene) -> None:
    sh(scene, "git init -q -b trunk .; echo one > file")
    before, told = listing(scene.root), person(scene)
    run = InPlace(scene)
    assert run.does("git status").startswith("On branch trunk\n\nNo commits yet")
    run.does("git add file; git commit -qm first; echo two > two")
    found = run.finish()
    assert found.moved is not None
    assert found.moved.before is None
    assert sh(scene, "git status --porcelain; git log --format=%s trunk") == "?? two\nfirst\n"
    run.undo()
    assert listing(scene.root) == before
    assert person(scene) == told


COMMIT = "echo agent > agent; git add agent; git commit -qm agent"
APART = {
    "the person commits": (COMMIT, "git commit -q --allow-empty -m mine"),
    "the person stages": (COMMIT, "echo mine > mine; git add mine"),
    "the person switches": (COMMIT, "git checkout -q -b other"),
    "the person detaches": (COMMIT, "git checkout -q --detach"),
    "the person merges": (COMMIT, "git rev-parse HEAD > .git/MERGE_HEAD"),
    "git is at work": (COMMIT, "touch .git/index.lock"),
    "amended": ("git commit -q --amend -m agent", "true"),
    "on another branch": (f"git checkout -q -b mine; {COMMIT}", "true"),
    "on no branch": (f"git checkout -q --detach; {COMMIT}", "true"),
    "without a parent": ("git checkout -q --orphan o; git commit -q -m agent", "true"),
}


@pytest.mark.parametrize("how", APART)
def test_commits_that_cannot_follow_go_to_a_branch_of_their_own(scene: Scene, how: str) -> None:
    agents, persons = APART[how]
    project(scene)
    run = InPlace(scene)
    run.does(agents)
    sh(scene, persons)
    told = person(scene)
    found = run.finish()
    assert (found.moved, found.kept_branch) == (None, "agent--try")
    assert "git merge agent--try" in found.notes[-1]
    assert person(scene).replace(f"{found.head} commit\trefs/heads/agent--try\n", "") == told
    assert sh(scene, "git log -1 --format=%s agent--try") == "agent\n"


def test_a_look_at_the_status_meanwhile_is_no_change(scene: Scene) -> None:
    project(scene)
    run = InPlace(scene)
    run.does("echo agent > agent; git add agent; git commit -qm agent; touch file")
    sh(scene, "git update-index --refresh; git status")
    assert run.finish().moved is not None


def test_going_back_or_to_another_branch_leaves_nothing_to_keep(scene: Scene) -> None:
    project(scene)
    sh(scene, "git branch other; echo 2 >> file; git commit -qam second")
    told = person(scene)
    run = InPlace(scene)
    run.does("git reset -q --soft HEAD~; git checkout -q other || git checkout -qf other")
    found = run.finish()
    assert (found.moved, found.kept_branch) == (None, None)
    run.undo()
    assert person(scene) == told


def test_no_branch_checked_out_stays_so(scene: Scene) -> None:
    project(scene)
    sh(scene, "git checkout -q --detach")
    told = person(scene)
    run = InPlace(scene)
    assert "Not currently on any branch" in run.does("git status")
    run.does("echo x > x; git add x; git commit -qm x")
    assert run.finish().kept_branch == "agent--try"
    sh(scene, "git branch -qD agent--try")
    run.undo()
    assert person(scene) == told


def test_a_branch_that_is_taken_is_left_alone_and_the_commit_told(scene: Scene) -> None:
    project(scene)
    run = InPlace(scene)
    run.does("git commit -q --amend -m other")
    sh(scene, "git branch agent--try")
    found = run.finish()
    assert found.kept_branch is None
    assert f"git branch NAME {found.head}" in found.notes[-1]
    assert sh(scene, "git log -1 --format=%s agent--try") == "first\n"


def test_repositories_within_are_named_and_never_touched(scene: Scene) -> None:
    sh(scene, "git init -q ../outside/sub; cd ../outside/sub; git commit -q --allow-empty -m s")
    project(scene, "git -c protocol.file.allow=always submodule add -q ../outside/sub mod")
    sh(scene, "git init -q own; echo mine > own/mine; git init -q none; echo m > mod/mine")
    run = InPlace(scene)
    assert [note.split(":")[0] for note in run.began.notes] == ["mod", "none/", "own/"]
    run.does("rm -rf own/.git mod/.git; echo x > own/x; git init -q new; echo x > new/x; echo > y")
    assert [note.split(":")[0] for note in run.finish().notes] == ["new/"]
    assert run.changes() == {"A y"}
    run.undo()
    assert (scene.root / "own/mine").read_text() == "mine\n"
    assert (scene.root / "mod/mine").read_text() == "m\n"


def test_a_file_that_cannot_be_read_is_named_and_left(scene: Scene) -> None:
    project(scene)
    scene.write("closed", "mine\n").chmod(0)
    scene.write("file", "mine\n").chmod(0)
    run = InPlace(scene)
    assert [note.split(":")[0] for note in run.began.notes] == ["file", "closed"]
    run.does("chmod 644 closed file; echo x > x; mkfifo pipe; rm d/two; mkfifo d/two")
    run.finish()
    assert run.changes() == {"A x", "D d/two"}
    os.unlink(scene.root / "d/two")
    run.undo()
    assert (scene.root / "closed").read_text() == (scene.root / "file").read_text() == "mine\n"


SINCE = {
    "edited": "echo mine >> file",
    "same size": "printf 'ONE\\n' > file",
    "deleted": "rm new",
    "made executable": "chmod +x file",
    "a link instead": "ln -sf /etc/passwd file",
    "put back": "echo mine > d/two",
    "in the way": "mkdir -p d/two; echo mine > d/two/mine",
    "a link for a folder": "rm -r d; ln -s ../outside d",
    "another link": "ln -sfn d/two l",
}


@pytest.mark.parametrize("act", SINCE)
def test_undo_changes_nothing_when_the_person_has_been_there(scene: Scene, act: str) -> None:
    project(scene, "ln -s file l")
    run = InPlace(scene)
    run.does("printf 'one\\none\\n' > file; [ -s file ]; printf 'two\\n' > file; echo n > new\n"
             "rm d/two; echo d > d/d; ln -sfn d l; git commit -qam all; echo z > z")  # fmt: skip
    run.finish()
    sh(scene, SINCE[act])
    before, told = listing(scene.root), person(scene)
    outside = listing(scene.outside)
    with pytest.raises(AgsError) as caught:
        run.undo()
    assert caught.value.hint == "nothing was changed"
    assert (listing(scene.root), person(scene)) == (before, told)
    assert listing(scene.outside) == outside
    assert not list(scene.root.glob(".ags*"))


def test_undo_that_fails_at_the_branch_puts_the_files_back(scene: Scene) -> None:
    project(scene)
    run = InPlace(scene)
    run.does("echo 2 >> file; rm -r d; mkdir e; echo e > e/e; git add -A; git commit -qm all")
    run.finish()
    before, told = listing(scene.root), person(scene)
    (scene.root / ".git/index.lock").touch()
    with pytest.raises(AgsError, match="git is at work there"):
        run.undo()
    (scene.root / ".git/index.lock").unlink()
    assert (listing(scene.root), person(scene)) == (before, told)
    assert not list(scene.root.glob(".ags*"))
    run.undo()
    assert (scene.root / "d/two").read_text() == "two\n"


def test_undo_on_a_full_disk_changes_nothing(scene: Scene) -> None:
    with small_disk(scene.outside / "small", "4m") as disk:
        sh(scene, "git init -q -b main .; head -c 600000 /dev/urandom > big; echo 1 > one", disk)
        sh(scene, "git add -A; git commit -qm first", disk)
        run = InPlace(scene, disk)
        run.does("echo 2 > one; rm big")
        run.finish()
        filler, before = fill(disk), listing(disk)
        with pytest.raises(AgsError, match="no space"):
            run.undo()
        assert listing(disk) == before
        filler.unlink()
        run.undo()
        assert ((disk / "one").read_text(), (disk / "big").stat().st_size) == ("1\n", 600000)


def test_commits_of_the_persons_after_the_end_survive_undo(scene: Scene) -> None:
    project(scene)
    run = InPlace(scene)
    run.does("echo 2 >> file; git commit -qam agent")
    run.finish()
    sh(scene, "echo mine > mine; git add mine; git commit -qm mine")
    assert run.undo() == ("main has gone on since, so the agent's commits stay in it",)
    assert sh(scene, "git log --format=%s; git status --porcelain") == (
        "mine\nagent\nfirst\n M file\n"
    )


def test_thousands_of_files_are_no_matter(scene: Scene) -> None:
    many = "for d in $(seq 50); do mkdir $d; for f in $(seq 100); do echo $d $f > $d/$f; done; done"
    project(scene, many)
    run = InPlace(scene)
    assert run.began.commit == run.began.head
    run.does("for d in $(seq 50); do rm $d/1; echo x > $d/2; echo n > $d/new; done")
    run.finish()
    assert len(run.changes()) == 150
    run.undo()
    assert sh(scene, "git status --porcelain") == ""
