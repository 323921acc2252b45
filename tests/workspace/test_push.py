"""Pushing a commit to a branch of a remote's: never back, and nothing runs here."""

from __future__ import annotations

import subprocess

import pytest

from ags.errors import AgsError, Missing, Unfit
from ags.workspace import git, remote
from ags.workspace.remote import Person, checked_url
from tests.workspace.agent import sh
from tests.workspace.forge import Forge
from tests.workspace.repositories import checkout, go
from tests.workspace.room import Room, bare, helper, refs, trusts
from tests.workspace.room import room as room
from tests.workspace.room import site as site
from tests.workspace.scene import Scene, by_everyone


def test_a_push_makes_a_branch_or_moves_it_on_and_never_back(room: Room) -> None:
    target = room.folder / "target.git"
    bare(room, target)
    second = room.origin.commit("second")
    room.origin.git("tag", "--annotate", "--message=x", "v1")
    room.settings("[push]\n\tfollowTags = true\n")
    source = room.origin.repository
    room.push(source, second, "main", str(target))
    room.push(source, second, "topic", str(target))
    there = go(git.find(target))
    assert refs(there) == {"refs/heads/main": second, "refs/heads/topic": second}
    with pytest.raises(AgsError) as caught:
        room.push(source, room.first, "main", str(target))
    assert "rejected" in caught.value.cause and "another branch" in caught.value.hint
    assert refs(there)["refs/heads/main"] == second


def test_a_push_runs_no_hook_of_either_side(room: Room) -> None:
    target, mark = room.folder / "target.git", room.folder / "ran"
    bare(room, target)
    second = room.origin.commit("second")
    hook = room.origin.folder / ".git/hooks/pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    hook.chmod(0o755)
    (target / "objects/info/alternates").write_text(f"{room.origin.folder}/.git/objects\n")
    command = ("git", "-C", target, "config", "core.alternateRefsCommand", f"touch {mark};")
    subprocess.run(command, check=True)
    room.push(room.origin.repository, second, "one", str(target))
    (target / "hooks").mkdir(exist_ok=True)
    hook.rename(target / "hooks/update")
    with pytest.raises(AgsError, match="has hooks"):
        room.push(room.origin.repository, second, "two", str(target))
    assert not mark.exists() and "refs/heads/two" not in refs(go(git.find(target)))
    room.origin.git("push", "--quiet", str(target), "HEAD:refs/heads/two", code=1)
    assert mark.exists()  # the person's own git does run them


def test_the_words_of_a_remote_that_refuses_are_shown_harmless(room: Room, site: Forge) -> None:
    trusts(room, site)
    helper(room)
    hooks = site.root / "shop.git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "update").write_text("#!/bin/sh\nprintf 'no \\033[2Jpushing here\\n' >&2; exit 1\n")
    (hooks / "update").chmod(0o755)
    with pytest.raises(AgsError) as caught:
        room.push(room.origin.repository, room.first, "x", site.url("shop.git"))
    assert "pushing here" in caught.value.cause and "\x1b" not in caught.value.cause


def test_a_branch_that_is_checked_out_is_not_pushed_to(room: Room) -> None:
    made = room.clone()
    second = go(git.run(made, "commit-tree", "-p", room.first, "-m", "x", f"{room.first}^{{tree}}",
                        env=room.origin.environment)).text.strip()  # fmt: skip
    room.origin.git("config", "receive.denyCurrentBranch", "updateInstead")
    with pytest.raises(AgsError, match="checked out"):
        room.push(made, second, "main")
    room.push(made, second, "aside")
    assert room.origin.ask("rev-parse", "main", "aside").split() == [room.first, second]


@by_everyone
def test_a_push_acts_as_the_owner_of_the_repository(scene: Scene) -> None:
    sh(scene, "git init -q -b main .; git commit -q --allow-empty -m first")
    sh(scene, "git init -q --bare ../outside/target.git")
    source, target = go(git.find(scene.root)), scene.outside / "target.git"
    commit = go(git.resolve(source, "HEAD"))
    person = Person({}, scene.outside / "home")
    go(remote.push(source, checked_url(str(target)), commit, "x", person))
    assert refs(go(git.find(target))) == {"refs/heads/x": commit}
    assert sh(scene, f"find . ../outside -not -user {scene.owner.uid}") == ""


@pytest.mark.parametrize("branch", ["-x", "a..b", "", "HEAD", "a b", "a:b", "+x", "x\n"])
def test_a_push_to_what_is_no_branch_is_refused(room: Room, branch: str) -> None:
    if branch == "+x":  # which is one, and no order to force
        room.push(room.origin.repository, room.first, branch)
        assert room.origin.ask("rev-parse", "refs/heads/+x") == room.first
        return
    with pytest.raises(Unfit):
        room.push(room.origin.repository, room.first, branch)


def test_a_remote_is_found_by_its_name_and_judged(room: Room) -> None:
    room.origin.git("remote", "add", "origin", "https://git.example.org/shop.git")
    room.origin.git("remote", "add", "near", "../near")
    room.origin.git("remote", "add", "evil", "ext::sh -c x")
    room.origin.git("remote", "add", "open", "https://ann:s3cr3t@git.example.org/x")
    checkout(room.folder / "near")
    source = room.origin.repository
    assert go(remote.url_of(source)).url == "https://git.example.org/shop.git"
    assert go(remote.url_of(source, "near")).folder == room.folder / "near"
    room.origin.git("config", "remote.origin.pushurl", "git@git.example.org:shop.git")
    assert go(remote.url_of(source)).url == "git@git.example.org:shop.git"
    for name in ("evil", "open", "-x"):
        with pytest.raises(Unfit) as caught:
            go(remote.url_of(source, name))
        assert "s3cr3t" not in str(caught.value)
    with pytest.raises(Missing):
        go(remote.url_of(source, "none"))
