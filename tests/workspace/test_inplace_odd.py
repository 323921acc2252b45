"""In place: what no snapshot holds is undone all the same, and a kill leaves nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import time
from typing import Any

import pytest

from ags.errors import AgsError
from ags.workspace import git, index, inplace, leftovers, unseen
from tests.workspace.agent import done, project, sh
from tests.workspace.scene import Scene, by_everyone, end_fork, start_fork
from tests.workspace.test_inplace import InPlace, listing, person


def folders(scene: Scene) -> dict[str, int]:
    found = (path for path in scene.root.rglob("*") if ".git" not in path.parts)
    return {
        str(path.relative_to(scene.root)): stat.S_IMODE(path.stat().st_mode)
        for path in found
        if path.is_dir() and not path.is_symlink()
    }


@by_everyone
def test_undo_takes_away_what_is_no_file_or_was_closed(scene: Scene) -> None:
    project(scene)
    sh(scene, "mkfifo own; mkdir e; mkfifo e/own")
    pipes = {path: path.lstat().st_ino for path in (scene.root / "own", scene.root / "e/own")}
    files = sh(scene, "find . -type f -not -path './.git/*' | sort | xargs cat")
    before = folders(scene)
    run = InPlace(scene)
    run.does("""mkfifo pipe d/pipe .gitattributes; rm d/two; mkfifo d/two
        echo s > shut; mkdir closed; echo c > closed/c; echo f > file; chmod 000 shut closed file
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'""")
    began = time.monotonic()
    run.finish()
    assert time.monotonic() - began < leftovers.MOST_SECONDS / 3
    assert run.changes() == {"A shut", "A closed/c", "M file", "D d/two"}
    run.undo()
    assert sh(scene, "find . -type f -not -path './.git/*' | sort | xargs cat") == files
    special = {path for path in scene.root.rglob("*") if path.is_fifo() or path.is_socket()}
    assert {path: path.lstat().st_ino for path in special} == pipes
    assert folders(scene) == before


def test_a_pipe_that_the_person_put_there_since_stays(scene: Scene) -> None:
    project(scene)
    run = InPlace(scene)
    run.does("mkfifo pipe; rm d/two; mkfifo d/two")
    run.finish()
    sh(scene, "mkfifo mine; mkfifo other; mv -f other d/two")
    with pytest.raises(AgsError, match="d/two: no file"):
        run.undo()
    assert (scene.root / "pipe").is_fifo()
    sh(scene, "rm d/two")
    run.undo()
    assert (scene.root / "mine").is_fifo()
    assert not (scene.root / "pipe").exists()


@by_everyone
def test_folders_that_were_empty_are_there_again(scene: Scene) -> None:
    project(scene, "echo ignored > .gitignore")
    sh(scene, "mkdir -p a b/c x/y/z keep ignored/deep; chmod 700 b/c; mkdir -p .vscode")
    before = folders(scene)
    run = InPlace(scene)
    run.does("echo 1 > a/1; rmdir b/c; rm -r x; echo 2 > b/2; echo x > x; rm -r ignored/deep")
    run.finish()
    sh(scene, "rmdir keep")
    run.undo()
    del before["keep"]  # which was the person's doing
    assert folders(scene) == before


def test_what_is_looked_for_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen, "MOST_ENTRIES", 50)
    sh(scene, "for n in $(seq 100); do mkdir e$n; done")
    sh(scene, "d=deep; for n in $(seq 200); do d=$d/d; done; mkdir -p $d")
    assert len(unseen.look(scene.root, scene.owner).empty) <= 50
    monkeypatch.setattr(unseen, "MOST_ENTRIES", 5000)
    assert len(unseen.look(scene.root, scene.owner).empty) == 100


STEPS = ("before", "after the branch", "after the index")


@pytest.mark.parametrize("step", STEPS)
@by_everyone
def test_killed_around_the_move_of_the_branch_it_is_known_and_undone(
    scene: Scene, step: str
) -> None:
    project(scene)
    sh(scene, "echo staged > staged; git add staged")
    before, told = listing(scene.root), person(scene)
    run = InPlace(scene)
    run.does("echo a >> file; git add file; git commit -qm agents; echo b > new")

    def killed() -> None:
        move, install = inplace._set_branch, index.Lock.install

        async def moved(*given: Any) -> None:
            if step != "before":
                await move(*given)
            if step != "after the index":
                os.kill(os.getpid(), signal.SIGKILL)

        def installed(lock: index.Lock) -> None:
            install(lock)
            os.kill(os.getpid(), signal.SIGKILL)

        inplace._set_branch, index.Lock.install = moved, installed  # type: ignore[method-assign,assignment]
        run.finish()

    assert end_fork(start_fork(killed)) == signal.SIGKILL
    assert (scene.root / ".git/index.lock").exists()
    run.finish()
    assert run.ended.moved is not None
    assert not list((scene.root / ".git").glob("*lock*"))
    assert not list((scene.root / ".git").glob("ags-*"))
    assert sh(scene, "git log -1 --format=%s; git status --porcelain") == "agents\n?? new\n"
    run.undo()
    assert (listing(scene.root), person(scene)) == (before, told)


def test_a_lock_of_the_persons_own_git_is_left_alone(scene: Scene) -> None:
    project(scene)
    repository = done(git.find(scene.root))
    lock = scene.root / ".git/index.lock"

    def killed() -> None:
        with index.locked(repository):
            lock.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    assert end_fork(start_fork(killed)) == signal.SIGKILL
    scene.write(".git/index.lock")
    with pytest.raises(AgsError, match="git is at work there"), index.locked(repository):
        pass
    assert lock.exists()
    assert not list((scene.root / ".git").glob("ags-*"))


def test_a_lock_of_one_of_us_at_work_is_left_alone(scene: Scene) -> None:
    project(scene)
    repository = done(git.find(scene.root))
    with index.locked(repository):
        with pytest.raises(AgsError, match="git is at work there"), index.locked(repository):
            pass
        assert (scene.root / ".git/index.lock").exists()
    assert not (scene.root / ".git/index.lock").exists()
