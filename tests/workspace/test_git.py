"""The one caller of git: what it finds, what it refuses, and how it ends."""

from __future__ import annotations

import asyncio
import os

import pytest

from ags.errors import AgsError, Missing
from ags.proc import ProcessError
from ags.workspace import git
from tests.interactive.watching import gone
from tests.workspace.agent import done, project, sh
from tests.workspace.scene import Scene, by_everyone


def text(repository: git.Repository, *arguments: str) -> str:
    return done(git.run(repository, *arguments)).text


@by_everyone
def test_a_repository_is_found_from_below(scene: Scene) -> None:
    project(scene)
    found = done(git.find(scene.root / "d"))
    assert (found.git_dir, found.work_tree) == (scene.root / ".git", scene.root)
    assert found.common == found.git_dir
    assert text(found, "log", "--format=%s") == "first\n"


def test_what_is_written_belongs_to_the_owner(scene: Scene) -> None:
    project(scene)
    found = done(git.find(scene.root))
    done(git.run(found, "hash-object", "-w", "--stdin", stdin=b"new"))
    assert sh(scene, f"find .git -not -user {scene.owner.uid}") == ""


def test_a_repository_that_the_folder_only_names_is_refused(scene: Scene) -> None:
    """An archive can bring a `.git` that leads into any repository of the person's."""
    project(scene)
    other = scene.outside / "unpacked"
    for poison in (
        f"echo 'gitdir: {scene.root}/.git' > .git",
        f"git init -q .; echo {scene.root}/.git > .git/commondir",
        f"git -C {scene.root} worktree add -q ../outside/real; cp ../real/.git .git",
    ):
        sh(scene, f"rm -rf {other}; mkdir {other}; cd {other}; {poison}")
        with pytest.raises(AgsError, match="knows nothing of it"):
            done(git.find(other))
    assert done(git.find(scene.outside / "real")).common == scene.root / ".git"


def test_a_git_directory_elsewhere_that_names_its_work_tree_is_fine(scene: Scene) -> None:
    sh(scene, "git init -q --separate-git-dir ../outside/elsewhere .; "
       f"git config core.worktree {scene.root}; git commit -q --allow-empty -m first")  # fmt: skip
    assert done(git.find(scene.root)).git_dir == scene.outside / "elsewhere"


def test_an_unknown_extension_is_told(scene: Scene) -> None:
    project(scene)
    sh(scene, "git config extensions.preciousObjects true")
    done(git.find(scene.root))
    sh(scene, "printf '[extensions]\\n\\tfuture = 1\\n' >> .git/config")
    with pytest.raises(AgsError, match="'future'"):
        done(git.find(scene.root))


def test_a_repository_of_another_users_is_refused(scene: Scene) -> None:
    if scene.owner.uid != 0:
        pytest.skip("needs root")
    project(scene)
    sh(scene, "chown -R 65534:65534 .git")
    with pytest.raises(git.NotARepository, match="dubious ownership") as told:
        done(git.find(scene.root))
    assert "belongs to somebody else" in told.value.cause and "\\n" not in told.value.cause
    assert "as its owner" in told.value.hint


def test_only_harmless_settings_come_along(scene: Scene) -> None:
    project(scene)
    sh(scene, "git config core.autocrlf input; git config filter.x.clean evil; "
       "git config core.fsmonitor evil; git config include.path ../evil; "
       "git config diff.x.textconv evil; git config core.editor evil")  # fmt: skip
    found = done(git.find(scene.root))
    assert ("core.autocrlf", "input") in found.settings
    assert "evil" not in str(found.settings)
    assert "evil" not in text(found, "config", "--list")


def test_no_protocol_is_open_unless_the_call_says_so(scene: Scene) -> None:
    project(scene)
    found = done(git.find(scene.root))
    fetch = ("fetch", str(scene.root), "main:refs/heads/copy")
    with pytest.raises(ProcessError, match="transport 'file' not allowed"):
        done(git.run(found, *fetch))
    done(git.run(found, *fetch, protocols=("file",)))
    assert text(found, "rev-parse", "copy") == text(found, "rev-parse", "main")


def test_too_much_output_ends_the_call(scene: Scene) -> None:
    project(scene, "seq 100000 > numbers")
    found = done(git.find(scene.root))
    assert len(text(found, "show", "HEAD:numbers")) > 500_000
    with pytest.raises(ProcessError, match="more than 1000 bytes"):
        done(git.run(found, "show", "HEAD:numbers", most=1000))


def test_a_call_that_takes_too_long_is_ended(scene: Scene) -> None:
    project(scene)
    found = done(git.find(scene.root))
    reading, writing = os.pipe()
    with pytest.raises(ProcessError, match="no end after"):
        done(git.run(found, "hash-object", "--stdin", stdin=reading, timeout=0.3))
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_a_call_that_is_cancelled_leaves_no_process(scene: Scene) -> None:
    project(scene)
    found = done(git.find(scene.root))

    async def cancelled() -> None:
        reading, writing = os.pipe()
        task = asyncio.create_task(git.run(found, "hash-object", "--stdin", stdin=reading))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for descriptor in (reading, writing):
            os.close(descriptor)

    done(cancelled())
    gone(str(scene.root))


def test_nothing_of_a_call_stays_behind(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    project(scene)
    monkeypatch.setattr("tempfile.tempdir", str(scene.state))
    found = done(git.find(scene.root))
    text(found, "log")
    done(git.run(found, "nonsense", check=False))
    assert list(scene.state.iterdir()) == []


def test_moving_a_branch_keeps_its_log_and_runs_with_the_persons_locks(scene: Scene) -> None:
    project(scene)
    sh(scene, "git commit -q --allow-empty -m second")
    found = done(git.find(scene.root))
    text(found, "update-ref", "-m", "ours", "refs/heads/main", "HEAD~")
    assert "ours" in sh(scene, "git reflog main -1")
    assert sh(scene, "git log --format=%s main") == "first\n"
    lock = scene.write(".git/refs/heads/main.lock")
    with pytest.raises(ProcessError, match=r"main\.lock"):
        text(found, "update-ref", "refs/heads/main", "HEAD~0")
    lock.unlink()


@pytest.mark.parametrize("word", ["--all", "-x", "no such", "main^{tree}", "HEAD~9"])
def test_a_word_that_is_no_commit_is_told(scene: Scene, word: str) -> None:
    project(scene)
    with pytest.raises(AgsError, match="find the commit"):
        done(git.resolve(done(git.find(scene.root)), word))


def test_a_repository_that_is_gone_since_it_was_found_is_told(scene: Scene) -> None:
    project(scene)
    found = done(git.find(scene.root))
    commit = done(git.resolve(found, "HEAD"))
    os.rename(found.git_dir, scene.root / "aside")
    for call in (git.resolve(found, "HEAD"), git.configuration(found)):
        with pytest.raises(Missing, match="the repository is gone"):
            done(call)
    os.rename(scene.root / "aside", found.git_dir)
    assert done(git.resolve(found, "HEAD")) == commit


def test_settings_are_written_as_git_reads_them(scene: Scene) -> None:
    odd = {
        "user.name": 'a "quoted" \\ name # ; \n end',
        'branch.we.i"r\\d.merge': "refs/heads/x",
        "core.eol": "lf ",
    }
    file = scene.outside / "config"
    file.write_text(git.config_text(odd))
    told = sh(scene, f"git config --file {file} --null --list")
    assert dict(entry.split("\n", 1) for entry in told.split("\0") if entry) == odd
