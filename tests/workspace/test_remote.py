"""Clone, pull and push as the person: what counts of their settings, and what never runs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import zlib
from hashlib import sha1

import pytest

from ags.errors import AgsError
from ags.workspace import git, remote
from ags.workspace.remote import Ear, Person, Pulled, checked_url, unheard
from tests.interactive.watching import gone
from tests.workspace.forge import PASSWORD, Forge, forge
from tests.workspace.repositories import Checkout, checkout, go
from tests.workspace.room import Room, bare, helper, refs, trusts
from tests.workspace.room import room as room
from tests.workspace.room import site as site


def test_a_clone_has_the_branches_as_its_own_and_as_the_remotes(room: Room) -> None:
    room.origin.git("branch", "side")
    room.origin.git("branch", "agent--x")
    room.origin.git("tag", "v1")
    room.origin.git("update-ref", "refs/ags/base/x", "HEAD")
    made = room.clone()
    own = ("refs/heads/main", "refs/heads/side", "refs/tags/v1")
    theirs = (f"refs/remotes/origin/{name}" for name in ("agent--x", "main", "side"))
    assert refs(made) == dict.fromkeys((*own, *theirs), room.first)
    assert (made.git_dir / "HEAD").read_text() == "ref: refs/heads/main\n"
    assert made.work_tree is None and not (made.git_dir / "hooks").exists()
    assert go(remote.url_of(made)).folder == room.origin.folder


def test_no_inode_is_shared_with_where_it_came_from(room: Room) -> None:
    made = room.clone()
    files = [path for path in made.git_dir.rglob("*") if path.is_file()]
    assert files and all(path.stat().st_nlink == 1 for path in files)


@pytest.mark.parametrize("spelling", ["{}", "file://{}", "{}/.git"])
def test_a_folder_can_be_cloned_by_any_spelling(room: Room, spelling: str) -> None:
    made = room.clone(spelling.format(room.origin.folder))
    assert refs(made)["refs/heads/main"] == room.first


def test_the_default_branch_of_the_remote_is_ours(room: Room) -> None:
    room.origin.git("checkout", "--quiet", "-b", "trunk/näher")
    made = room.clone()
    assert (made.git_dir / "HEAD").read_bytes().decode() == "ref: refs/heads/trunk/näher\n"


@pytest.mark.parametrize(
    "head, expected",
    [
        ("ref: refs/heads/gone\n", "main"),
        ("ref: refs/heads/agent--x\n", "main"),
        ("{first}\n", "main"),
    ],
)
def test_where_the_remote_has_no_default_branch_a_usual_one_is(
    room: Room, head: str, expected: str
) -> None:
    room.origin.git("branch", "aside")
    room.origin.git("branch", "agent--x")
    (room.origin.folder / ".git/HEAD").write_text(head.format(first=room.first))
    made = room.clone()
    assert (made.git_dir / "HEAD").read_text() == f"ref: refs/heads/{expected}\n"


def test_an_empty_repository_can_be_cloned_and_pulled_later(room: Room) -> None:
    empty = checkout(room.folder / "empty")
    made = room.clone(str(empty.folder))
    assert refs(made) == {}
    empty.git("checkout", "--quiet", "-b", "later")
    commit = empty.commit("late")
    assert room.fetch(made, str(empty.folder)).new == ("later",)
    assert (made.git_dir / "HEAD").read_text() == "ref: refs/heads/later\n"
    assert refs(made)["refs/heads/later"] == commit


def test_a_repository_with_longer_ids_can_be_cloned(room: Room) -> None:
    other = checkout(room.folder / "sha256", "--object-format=sha256")
    commit = other.commit("first")
    made = room.clone(str(other.folder))
    assert refs(made)["refs/heads/main"] == commit and len(commit) == 64


def test_progress_is_heard_in_stages_and_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAUSE", 600.0)
    heard: list[tuple[str, int | None]] = []
    ear = Ear(lambda stage, percent: heard.append((stage, percent)))
    ear(b"Cloning into 'x'...\nremote: Enumerating objects: 3, done.\nRecei")
    ear(b"ving objects:   1% (1/100)\rReceiving objects:   2% (2/100)\r")
    ear(b"remote: \x1b[2Jevil: 50% (1/2)\rResolving deltas: 100% (5/5)\r")
    assert heard == [
        ("enumerating objects", None),
        ("receiving objects", 1),
        ("resolving deltas", 100),
    ]


def test_a_clone_tells_its_progress(room: Room) -> None:
    heard: list[str] = []
    url = checked_url(str(room.origin.folder))
    into = room.folder / "clone.git"
    go(remote.clone(url, into, room.person, lambda stage, _: heard.append(stage)))
    assert "receiving objects" in heard


def test_hooks_templates_and_commands_of_anybody_stay_out(room: Room) -> None:
    mark = room.folder / "ran"
    for name in ("post-checkout", "reference-transaction", "pre-push", "post-update"):
        hook = room.script(f"template/hooks/{name}".replace("/", "-"), f"touch {mark}")
        for hooks in (room.folder / "template/hooks", room.folder / "hooks"):
            hooks.mkdir(parents=True, exist_ok=True)
            (hooks / name).write_bytes(hook.read_bytes())
            (hooks / name).chmod(0o755)
    own = f"\thooksPath = {room.folder}/hooks\n\tfsmonitor = touch {mark}\n"
    room.settings(f"[core]\n{own}\n[init]\n\ttemplateDir = {room.folder}/template\n")
    for key, value in {
        "core.hooksPath": f"{room.folder}/hooks",
        "core.fsmonitor": f"touch {mark}",
        "core.sshCommand": f"touch {mark};",
        "core.alternateRefsCommand": f"touch {mark};",
        "uploadpack.packObjectsHook": f"touch {mark};",
        f"url.ext::touch {mark} .insteadOf": str(room.origin.folder),
    }.items():
        room.origin.git("config", key, value)
    made = room.clone()
    assert not mark.exists()
    room.origin.commit("second")
    mark.unlink()  # that was the person's own git
    assert room.fetch(made).updated == ("main",)
    assert not mark.exists()
    # The same settings do run something where they are obeyed.
    plain = {"PATH": os.environ["PATH"], "HOME": str(room.home)}
    command = ("git", "clone", "--quiet", room.origin.folder, room.folder / "victim")
    subprocess.run(command, env=plain, check=True, capture_output=True)
    assert mark.exists()


def test_a_repository_with_bad_objects_is_refused_and_with_old_faults_taken(room: Room) -> None:
    evil = checkout(room.folder / "evil")
    blob = evil.ask("hash-object", "-w", "-t", "blob", "--stdin")
    bad = _object(evil, b"tree", b"40000 .git\0" + bytes.fromhex(_tree(evil, blob)))
    evil.git("update-ref", "refs/heads/main", _commit(evil, bad))
    said = room.refuses(str(evil.folder))
    assert "hasDotgit" in said.cause

    old = checkout(room.folder / "old")
    blob = old.ask("hash-object", "-w", "-t", "blob", "--stdin")
    padded = b"040000 d\0" + bytes.fromhex(_tree(old, blob))
    commit = _commit(old, _object(old, b"tree", padded), zone="+051800")
    old.git("update-ref", "refs/heads/main", commit)
    assert refs(room.clone(str(old.folder)))["refs/heads/main"] == commit


def _tree(project: Checkout, blob: str) -> str:
    return _object(project, b"tree", b"100644 f\0" + bytes.fromhex(blob))


def _commit(project: Checkout, tree: str, zone: str = "+0000") -> str:
    who = f"Ann <ann@example.org> 1000000000 {zone}"
    return _object(
        project, b"commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nold\n".encode()
    )


def _object(project: Checkout, kind: bytes, content: bytes) -> str:
    """Written by hand, for git itself would refuse."""
    data = kind + b" " + str(len(content)).encode() + b"\0" + content
    name = sha1(data).hexdigest()
    path = project.folder / ".git/objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(data))
    return name


def test_a_private_repository_is_reached_by_the_persons_own_helper(room: Room, site: Forge) -> None:
    trusts(room, site)
    helper(room)
    made = room.clone(site.url("shop.git"))
    assert refs(made)["refs/heads/main"] == room.first
    kept = b"".join(path.read_bytes() for path in made.git_dir.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in kept
    room.push(made, room.first, "topic/x", site.url("shop.git"))
    there = subprocess.check_output(
        ("git", "-C", site.root / "shop.git", "rev-parse", "topic/x"), text=True
    )
    assert there.strip() == room.first


def test_without_credentials_nobody_is_asked_and_the_error_says_what_to_do(
    room: Room, site: Forge
) -> None:
    trusts(room, site)
    asked = room.folder / "asked"
    window = room.script("window", f"touch {asked}; echo x")
    room.environ |= {"GIT_ASKPASS": str(window), "SSH_ASKPASS": str(window), "DISPLAY": ":0"}
    room.settings(f"[core]\n\taskPass = {window}\n")
    said = room.refuses(site.url("shop.git"))
    assert "credential.helper" in said.hint and "could not read Username" in said.cause
    assert site.asked == [] and site.refused and not asked.exists()


def test_a_wrong_password_is_told_without_showing_it(room: Room, site: Forge) -> None:
    trusts(room, site)
    keeps = room.script("keeps", "echo username=ann; echo password=wr0ng-canary")
    room.settings(f'[credential]\n\thelper = "!{keeps}"\n')
    said = room.refuses(site.url("shop.git"))
    assert "Authentication failed" in said.cause and "canary" not in f"{said} {said.hint}"


def test_a_certificate_that_nobody_vouches_for_is_refused(room: Room, site: Forge) -> None:
    helper(room)
    said = room.refuses(site.url("shop.git"))
    assert "certificate" in said.cause and not site.refused and not site.asked


def test_a_repository_that_is_not_there_is_told(room: Room, site: Forge) -> None:
    trusts(room, site)
    helper(room)
    assert "not found" in room.refuses(site.url("none.git")).cause


def test_nothing_goes_on_in_the_clear_where_a_secure_site_leads(room: Room, site: Forge) -> None:
    trusts(room, site)
    helper(room)
    (room.folder / "plain").mkdir()
    with forge(room.folder / "plain", tls=False, locked=False) as plain:
        bare(room, plain.root / "shop.git")
        site.elsewhere = plain.url("", "http").rstrip("/")
        room.refuses(site.url("shop.git"))
        assert plain.asked == []
        plain_url = plain.url("shop.git", "http")
        assert refs(room.clone(plain_url))["refs/heads/main"] == room.first
        (room.folder / "other").mkdir()
        with forge(room.folder / "other", tls=False, locked=False) as other:
            bare(room, other.root / "shop.git")
            plain.elsewhere = other.url("", "http").rstrip("/")
            room.refuses(plain_url)
            assert other.asked == []


def test_the_persons_own_ssh_command_is_used(room: Room) -> None:
    log = room.folder / "log"
    ssh = room.script("ssh", f'echo "$@" >> {log}\nfor last; do :; done\nexec sh -c "$last"')
    room.settings(f"[core]\n\tsshCommand = {ssh}\n")
    made = room.clone(f"git@forge:{room.origin.folder}")
    assert refs(made)["refs/heads/main"] == room.first
    assert "git@forge git-upload-pack" in log.read_text() and "Batch" not in log.read_text()


def test_without_one_ssh_is_told_not_to_ask(room: Room) -> None:
    log = room.folder / "log"
    (room.folder / "bin").mkdir()
    room.script("bin/ssh", f'echo "$@" >> {log}; exit 255')
    room.environ["PATH"] = f"{room.folder}/bin:{room.environ['PATH']}"
    room.refuses("ssh://127.0.0.1:9/shop.git")
    assert not log.exists()  # a program of the system's comes before one on the person's path
    room.environ["GIT_SSH_COMMAND"] = f"{room.folder}/bin/ssh"
    room.refuses("ssh://127.0.0.1:9/shop.git")
    assert "BatchMode" not in log.read_text()
    environment = go(remote._environment(checked_url("h:x"), Person({}, room.home), None))
    assert "BatchMode=yes" in " ".join(environment.values())


def test_addresses_are_rewritten_by_the_persons_settings_alone(room: Room) -> None:
    made = room.clone()
    room.settings(f'[url "{room.origin.folder}"]\n\tinsteadOf = https://short.example.org/x\n')
    room.origin.commit("second")
    assert room.fetch(made, "https://short.example.org/x").updated == ("main",)
    (room.home / ".gitconfig").unlink()
    third = room.origin.commit("third")
    with (made.git_dir / "config").open("a") as file:
        file.write(f'[url "{room.origin.folder}"]\n\tinsteadOf = https://127.0.0.1:9/x\n')
    with pytest.raises(AgsError):
        room.fetch(made, "https://127.0.0.1:9/x")
    assert third not in refs(made).values()


def test_even_the_persons_own_rewriting_leads_to_no_program(room: Room) -> None:
    mark = room.folder / "ran"
    room.settings(f'[url "ext::touch {mark} "]\n\tinsteadOf = https://127.0.0.1:9/\n')
    room.settings("[protocol]\n\tallow = always\n")
    assert "'ext' not allowed" in room.refuses("https://127.0.0.1:9/x").cause
    assert not mark.exists()


def test_what_the_person_happens_to_stand_in_is_no_matter(room: Room) -> None:
    stray = room.folder / "stray"
    room.environ |= {"GIT_DIR": str(stray), "GIT_WORK_TREE": str(stray)}
    room.environ |= {"GIT_OBJECT_DIRECTORY": str(stray), "GIT_NAMESPACE": "other"}
    assert refs(room.clone())["refs/heads/main"] == room.first
    assert not stray.exists()


def test_a_pull_brings_what_is_new_and_never_takes_away(room: Room) -> None:
    for name in ("side", "gone", "fork", "agent--y"):
        room.origin.git("branch", name)
    made = room.clone()
    ours = go(git.run(made, "commit-tree", "-p", room.first, "-m", "ours", f"{room.first}^{{tree}}",
                      env=room.origin.environment)).text.strip()  # fmt: skip
    for ref in ("heads/fork", "heads/agent--x", "heads/agent--y", "heads/side", "ags/base/x"):
        go(git.run(made, "update-ref", f"refs/{ref}", ours))
    second = room.origin.commit("second")
    for name in ("fork", "agent--x", "new"):
        room.origin.git("branch", "--force", name, second)
    room.origin.git("branch", "--delete", "gone", "agent--y")
    room.origin.git("update-ref", "refs/ags/base/y", second)
    room.origin.git("tag", "v2")
    pulled = room.fetch(made)
    assert pulled == Pulled(("main",), new=("new",), diverged=("fork",), gone=("gone",))
    found = refs(made)
    assert found["refs/heads/main"] == found["refs/heads/new"] == found["refs/tags/v2"] == second
    for ref in ("heads/fork", "heads/agent--x", "heads/side", "ags/base/x"):
        assert found[f"refs/{ref}"] == ours
    assert found["refs/heads/gone"] == room.first
    assert "refs/remotes/origin/gone" not in found and "refs/ags/base/y" not in found
    assert room.fetch(made) == Pulled(diverged=("fork",))


def test_a_history_that_was_rewritten_leaves_ours_as_it_was(room: Room) -> None:
    second = room.origin.commit("second")
    room.origin.git("tag", "v1")
    made = room.clone()
    room.origin.git("reset", "--quiet", "--hard", room.first)
    other = room.origin.commit("another")
    room.origin.git("tag", "--force", "v1")
    assert room.fetch(made) == Pulled(diverged=("main",))
    found = refs(made)
    assert found["refs/heads/main"] == second and found["refs/remotes/origin/main"] == other
    assert found["refs/tags/v1"] == other


def test_a_branch_in_the_way_of_another_is_told(room: Room) -> None:
    room.origin.git("branch", "a")
    made = room.clone()
    room.origin.git("branch", "--move", "a", "a/b")
    assert room.fetch(made) == Pulled(diverged=("a/b",), gone=("a",))
    assert refs(made)["refs/heads/a"] == room.first


def test_what_only_lies_in_a_repository_is_not_one(room: Room) -> None:
    room.origin.write("inner/b.txt")
    assert "not one itself" in room.refuses(str(room.origin.folder / "inner")).cause
    (room.folder / "nothing").mkdir()
    assert "not a git repository" in room.refuses(str(room.folder / "nothing")).cause


def test_a_clone_that_lacks_objects_is_not_cloned_further(room: Room) -> None:
    made = room.clone()
    pack = next((made.git_dir / "objects/pack").glob("*.pack"))
    pack.with_suffix(".promisor").touch()
    assert "lacks objects" in room.refuses(str(made.git_dir)).cause


def test_a_clone_that_nobody_wants_any_more_is_ended_and_leaves_nothing(
    room: Room, site: Forge
) -> None:
    trusts(room, site)
    helper(room)
    site.stall = True
    into = room.folder / "stopped.git"

    async def scene() -> None:
        url = checked_url(site.url("shop.git"))
        task = asyncio.create_task(remote.clone(url, into, room.person, unheard))
        while not any(method == "POST" for method, _ in site.asked):
            await asyncio.sleep(0.02)
        assert into.exists()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)

    go(scene())
    assert not into.exists()
    gone(str(into))
