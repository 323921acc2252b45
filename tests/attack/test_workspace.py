"""THREATS F3, F6, G1, K3 in the person's own folder: what the host obeys later stays theirs."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from ags.config.schema import Settings, Workspace
from tests.attack.as_exec import preparer, request, run
from tests.box import Box, run_plan


def own(box: Box, path: Path) -> Path:
    owner = box.workspace.stat()
    for each in (path, *path.parents):
        if each == box.workspace:
            break
        os.chown(each, owner.st_uid, owner.st_gid, follow_symlinks=False)
    return path


def give(box: Box, name: str, content: str = "as it was") -> Path:
    path = box.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return own(box, path)


OBEYED = [".vscode/tasks.json", ".idea/workspace.xml", ".envrc", ".husky/pre-commit", ".mcp.json",
          ".claude/settings.json", ".claude/settings.local.json", ".ags/config.toml"]  # fmt: skip


@pytest.mark.parametrize("name", OBEYED)
def test_what_the_host_obeys_cannot_be_changed(box: Box, name: str) -> None:
    path = give(box, name)
    top = name.split("/")[0]
    run(box, f"echo evil > {name}; rm -rf {name}; echo evil > {name}; mv {top} gone; rm -rf {top}")
    assert path.read_text() == "as it was"
    run(box, "mkdir -p src && echo fine > src/main.py")
    assert (box.workspace / "src" / "main.py").read_text() == "fine\n"


@pytest.mark.parametrize("name", OBEYED)
def test_what_the_host_would_obey_cannot_be_created(box: Box, name: str) -> None:
    top = name.split("/")[0]
    run(box, f"mkdir -p $(dirname {name}); echo evil > {name}; rmdir {top}; echo evil > {top}")
    assert not any(path.is_file() for path in (box.workspace / top, box.workspace / name))
    assert os.listdir(box.workspace) == [], "nothing of ours is left behind either"


def test_a_parent_of_a_protected_path_cannot_be_renamed_away(box: Box) -> None:
    path = give(box, ".claude/settings.json")
    give(box, ".claude/settings.local.json")
    run(
        box,
        "mv .claude old; mkdir .claude; echo evil > .claude/settings.json; touch .claude/notes.md",
    )
    assert path.read_text() == "as it was"
    assert (box.workspace / ".claude" / "notes.md").exists()


@pytest.mark.parametrize(
    "name", ["hooks/pre-commit", "config", "commondir", "info/attributes", "objects/x"]
)
def test_the_git_folder_cannot_be_changed_and_git_still_works(box: Box, name: str) -> None:
    repository(box, box.workspace)
    outcome = run(
        box,
        f"echo evil > .git/{name}; mv .git moved; rm -rf .git; git status -s; git log --oneline",
    )
    assert "evil" not in _text(box.workspace / ".git" / name)
    assert "first" in outcome.out
    assert (box.workspace / ".git" / "HEAD").exists()


def test_a_nested_repository_cannot_be_changed_either(box: Box) -> None:
    inner = box.workspace / "vendor" / "lib"
    inner.mkdir(parents=True)
    repository(box, inner)
    run(
        box,
        "echo evil > vendor/lib/.git/hooks/post-merge; mv vendor/lib/.git x; mv vendor y; touch ok",
    )
    assert not (inner / ".git" / "hooks" / "post-merge").exists()
    assert (inner / ".git" / "HEAD").exists()
    assert (box.workspace / "ok").exists()


def repository(box: Box, folder: Path) -> None:
    own(box, folder)
    environment = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": os.devnull}
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(
            ["git", *identity, *command],
            cwd=folder,
            env=environment,
            user=box.workspace.stat().st_uid,
            check=True,
        )


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def test_a_socket_of_the_host_in_the_workspace_is_out_of_reach(box: Box) -> None:
    place = box.workspace / "engine.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        own(box, place).chmod(0o777)
        connect = f"s = socket.socket(socket.AF_UNIX); s.connect({str(place)!r})"
        knock = f"import socket; {connect}; s.send(b'x')"
        run(box, f'/usr/bin/python3 -c "{knock}"')
        server.settimeout(0.3)
        with pytest.raises(TimeoutError):
            server.accept()
        subprocess.run(["/usr/bin/python3", "-c", knock], check=True)
        assert server.accept()[0].recv(1) == b"x"


def test_a_file_with_a_name_outside_is_not_changed_there(box: Box) -> None:
    store = box.workspace.parent / "store"
    store.mkdir()
    outside = store / "package.js"
    outside.write_text("as it was")
    os.chown(outside, box.workspace.stat().st_uid, -1)
    (box.workspace / "package.js").hardlink_to(outside)
    run(box, "echo evil >> package.js")
    assert outside.read_text() == "as it was"
    assert (box.workspace / "package.js").read_text() == "as it wasevil\n"


def test_with_links_allowed_both_names_change_and_the_run_says_so(box: Box) -> None:
    outside = box.workspace.parent / "package.js"
    outside.write_text("as it was")
    os.chown(outside, box.workspace.stat().st_uid, -1)
    (box.workspace / "package.js").hardlink_to(outside)
    run(box, "echo evil >> package.js", settings=Settings(workspace=Workspace(hard_links="allow")))
    assert outside.read_text() == "as it wasevil\n"


def test_a_protected_path_that_is_a_link_is_an_error(box: Box) -> None:
    from ags.errors import AgsError

    elsewhere = box.workspace / "elsewhere"
    elsewhere.mkdir()
    (box.workspace / ".vscode").symlink_to(elsewhere)
    with pytest.raises(AgsError, match="symbolic link"):
        run(box, "touch ran")
    assert not (box.workspace / "ran").exists()
    shutil.rmtree(elsewhere)


def test_a_protected_file_replaced_on_the_host_during_the_run_is_told(box: Box) -> None:
    """As an editor does that saves by renaming: the mount inside is then lifted in silence."""
    settings = give(box, ".claude/settings.json")
    give(box, ".claude/settings.local.json")
    prepared = asyncio.run(preparer(box).prepare(request(box, "true")))
    with prepared:
        assert prepared.replaced() == ()
        saved = give(box, ".claude/saved")
        saved.rename(settings)
        assert prepared.replaced() == (settings,)


def test_a_workspace_exchanged_while_we_look_gives_nobody_another_identity(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner could put a folder of root's in its place, and run as root's uid in it."""
    from ags import prepare
    from ags.errors import AgsError
    from ags.workspace.root import find_root

    owner, other = box.workspace.stat().st_uid, box.workspace.parent / "other"
    other.mkdir()

    def exchange_then(*arguments: object) -> Path:
        found = find_root(*arguments)  # type: ignore[arg-type]
        box.workspace.rename(box.workspace.parent / "away")
        other.rename(box.workspace)
        return found

    monkeypatch.setattr(prepare, "find_root", exchange_then)
    with asyncio.run(preparer(box).prepare(request(box, "touch ran"))) as prepared:
        assert prepared.plan.identity.host_uid == owner
        with pytest.raises(AgsError, match="not what was to be mounted"):
            asyncio.run(run_plan(box.backend, prepared.plan))
    assert not (box.workspace / "ran").exists()
