"""The agent's own git directory: what it has of the person's, and what it never has."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from ags.errors import AgsError
from ags.model import Bind, Mask
from ags.workspace import git, private
from ags.workspace.private import Private, without_credentials
from tests.box import Box
from tests.workspace.agent import RUN, Agent, done, project, sh
from tests.workspace.scene import Scene, by_everyone


def built(scene: Scene, root: Path | None = None, **wishes: object) -> Private:
    """For work in place, on the person's own files."""
    top = root or scene.root
    repository = done(git.find(top))
    return done(
        private.build(
            repository,
            into=scene.state / "private",
            branch=str(wishes.get("branch", "agent--try")),
            base=done(git.resolve(repository, "HEAD")),
            run=str(wishes.get("run", RUN)),
            workspace=top,
            home=scene.outside / "home",
            index=True,
        )
    )


def inside(scene: Scene, made: Private, script: str, root: Path | None = None) -> str:
    box = Box(root or scene.root, scene.outside / "home")
    ran = box.run("/bin/sh", "-c", script, protections=made.steps)
    return ran.out + ran.err


@by_everyone
def test_in_place_the_agent_sees_the_tree_as_the_person_does(scene: Scene) -> None:
    project(scene)
    sh(scene, "echo staged > staged; git add staged; echo changed > file; echo loose > loose")
    before = sh(scene, "git status --porcelain; cat .git/config; git for-each-ref")
    made = built(scene)
    assert inside(scene, made, "git status --porcelain; git branch --show-current") == (
        " M file\nA  staged\n?? loose\nagent--try\n"
    )
    inside(scene, made, "git config alias.x '!evil'; git config user.name A; git branch -D main;"
           "git config user.email e; git commit -qam agent; mkdir .git/hooks;"
           "echo evil > .git/hooks/pre-commit")  # fmt: skip
    sh(scene, f"git update-ref -d refs/ags/base/{RUN}; git reset -q; git add staged")
    assert sh(scene, "git status --porcelain; cat .git/config; git for-each-ref") == before


def test_a_change_that_only_the_content_shows_is_seen_inside(scene: Scene) -> None:
    project(scene)
    sh(scene, "touch -d @1000000000 file; git update-index --refresh; printf 'two\\n' > file; "
       "touch -d @1000000000 file .git/index")  # fmt: skip
    assert inside(scene, built(scene), "git status --porcelain") == " M file\n"


def test_without_the_mounts_the_agent_would_write_to_the_persons_own(scene: Scene) -> None:
    project(scene)
    box = Box(scene.root, scene.outside)
    box.run("/bin/sh", "-c", "git config alias.x '!evil'")
    assert "evil" in (scene.root / ".git/config").read_text()


@by_everyone
def test_a_git_file_is_replaced_by_one_of_ours(scene: Scene) -> None:
    project(scene)
    linked = scene.outside / "linked"
    sh(scene, f"git worktree add -q {linked}")
    before = (linked / ".git").read_bytes()
    made = built(scene, linked)
    told = inside(scene, made, "cat .git; git rev-parse --git-dir; git status --porcelain", linked)
    assert told == "gitdir: /ags/git\n/ags/git\n"
    assert "Read-only" in inside(scene, made, "echo evil > .git", linked)
    assert "busy" in inside(scene, made, "mv .git gone", linked)
    assert (linked / ".git").read_bytes() == before


def test_the_borrowed_objects_cannot_be_changed(scene: Scene) -> None:
    project(scene)
    before = sh(scene, "find .git/objects -type f | sort | xargs sha1sum")
    made = built(scene)
    told = inside(scene, made, "rm -rf /ags/base/objects/*; touch /ags/base/objects/new")
    assert "Read-only file system" in told
    assert sh(scene, "find .git/objects -type f | sort | xargs sha1sum") == before


def test_what_runs_programs_on_the_host_is_not_carried_in(scene: Scene) -> None:
    project(scene)
    evil = "core.fsmonitor core.sshCommand core.editor core.pager credential.helper alias.x "
    sh(scene, f"for key in {evil} diff.x.textconv merge.x.driver gpg.program core.gitProxy; do "
       "git config $key EVIL; done; git config --file .git/more user.name Included; "
       "git config include.path more; git config core.autocrlf input; "
       "echo EVIL > .git/hooks/pre-commit; git config http.extraHeader EVIL; "
       "git config url.https://t:EVIL@h.test/.insteadOf h:")  # fmt: skip
    made = built(scene)
    settings = (made.git_dir / "config").read_text()
    assert "EVIL" not in settings
    assert "include" not in settings
    assert "Included" in settings
    assert 'autocrlf = "input"' in settings
    assert not (made.git_dir / "hooks").exists()
    assert "the repository's hooks: they do not run for an agent" in made.left_out
    assert "credential helpers of the repository's settings: not there inside" in made.left_out


def test_identity_that_depends_on_the_folder_is_the_right_one(scene: Scene) -> None:
    home = scene.outside / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f'[user]\n\tname = Home\n[includeIf "gitdir:{scene.root}/"]\n\tpath = work\n'
    )
    (home / "work").write_text("[user]\n\tname = Work\n")
    project(scene)
    assert inside(scene, built(scene), "git config user.name") == "Work\n"


def test_a_file_of_the_persons_is_not_carried_in_by_a_link_or_a_setting(scene: Scene) -> None:
    project(scene)
    secret = scene.outside / "secret"
    secret.write_text("SECRET\n")
    sh(scene, f"for f in exclude attributes; do ln -sf {secret} .git/info/$f; done; "
       f"ln -sf {secret} .git/info/sparse-checkout; git config core.excludesFile {secret}; "
       f"git config core.attributesFile {secret}")  # fmt: skip
    made = built(scene)
    told = sh(scene, f"grep -rl SECRET {made.git_dir} || true")
    assert told == ""


def test_a_folder_that_holds_no_objects_is_not_mounted(scene: Scene) -> None:
    project(scene)
    keys = scene.outside / "keys"
    keys.mkdir()
    (keys / "id_ed25519").write_text("SECRET")
    (scene.root / ".git/objects/info/alternates").write_text(f"{keys}\n")
    with pytest.raises(AgsError, match="'id_ed25519' is there"):
        built(scene)
    assert not (scene.state / "private").exists()


def test_alternates_are_all_mounted_and_their_own_lists_covered(scene: Scene) -> None:
    sh(scene, "git init -q ../outside/a; git init -q ../outside/b")
    (scene.outside / "a/.git/objects/info/alternates").write_text(
        f"# why\n{scene.outside}/b/.git/objects\n"
    )
    project(scene)
    (scene.root / ".git/objects/info/alternates").write_text(f"{scene.outside}/a/.git/objects\n")
    made = built(scene)
    stores = {step.source: step.target for step in made.steps if isinstance(step, Bind)}
    assert stores[scene.outside / "b/.git/objects"] == PurePosixPath("/ags/base/2/objects")
    masks = [str(step.target) for step in made.steps if isinstance(step, Mask)]
    assert masks == [
        "/ags/base/objects/info/alternates",
        "/ags/base/1/objects/info/alternates",
    ]
    assert inside(scene, made, "git log --format=%s 2>&1; git fsck 2>&1") == "first\n"


def test_the_base_is_held_by_a_ref_of_ours(scene: Scene) -> None:
    project(scene)
    built(scene)
    pinned, head = sh(scene, f"git rev-parse refs/ags/base/{RUN} HEAD").split()
    assert pinned == head


def test_refs_of_ours_are_not_shown_to_an_agent(scene: Scene) -> None:
    project(scene)
    sh(scene, "git update-ref refs/ags/base/other HEAD; git branch agent--other")
    told = inside(scene, built(scene), "git for-each-ref --format='%(refname)'")
    assert told == "refs/heads/agent--other\nrefs/heads/agent--try\nrefs/heads/main\n"


def test_odd_branch_names_are_carried(scene: Scene) -> None:
    project(scene)
    sh(scene, "git branch 'we\u2028ird'; git branch \"$(printf 'by\\377te')\"; git branch 'q\"u'")
    agent = Agent(scene)
    listed = agent.does("git -c core.quotePath=false branch --format='%(refname:short)' | wc -l")
    assert listed.strip() == "5"


@pytest.mark.parametrize(
    ("branch", "run"),
    [
        ("main", RUN),
        ("agent--", RUN),
        ("agent--a/../b", RUN),
        ("agent--x", "../x"),
        ("agent--X", RUN),
    ],
)
def test_odd_names_of_branches_and_runs_are_refused(scene: Scene, branch: str, run: str) -> None:
    project(scene)
    with pytest.raises(AgsError, match="use the"):
        built(scene, branch=branch, run=run)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://user:token@host.test/a.git", "https://host.test/a.git"),
        ("https://token@host.test:8443/a", "https://host.test:8443/a"),
        ("https://host.test/a?private_token=x", "https://host.test/a"),
        ("https://u:p@ss@host.test/a", "https://host.test/a"),
        ("ssh://git:secret@host.test/a", "ssh://git@host.test/a"),
        ("git@host.test:a/b.git", "git@host.test:a/b.git"),
        ("/srv/git/a", "/srv/git/a"),
        ("ext::sh -c evil", ""),
        ("https://[bad/a", ""),
    ],
)
def test_addresses_lose_their_credentials(address: str, shown: str) -> None:
    assert without_credentials(address) == shown
