"""What a run can and cannot do to protected paths, tried in a real sandbox, judged on the host."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace

from ags.backends import walls
from ags.errors import AgsError
from ags.model import Bind, Mask, MountStep
from ags.workspace.protect import Protection, adrift, places, steps
from ags.workspace.survey import Survey, survey
from tests.workspace.box import Box
from tests.workspace.scene import Scene, by_everyone
from tests.workspace.test_survey import bind

ODD = os.fsdecode(b"odd-\xff")


def furnish(scene: Scene) -> None:
    scene.write(".git/config", "[core]\n")
    scene.write(".envrc", "person's")
    scene.write(".claude/settings.json", "person's")
    scene.write(".claude/settings.local.json", "person's")
    scene.write(f"vendor/{ODD}/.git/config", "person's")
    scene.write("src/main.c", "")


def look(scene: Scene, protection: Protection) -> Survey:
    return survey(scene.root, protection.read_only)


def all_steps(scene: Scene, protection: Protection) -> tuple[MountStep, ...]:
    return steps(protection, look(scene, protection))


ATTACK = f"""
echo evil > .envrc; rm -f .envrc; mv .envrc gone; echo evil > .envrc
echo evil > .git/config; mv .git gone.git; mkdir -p .git; echo evil > .git/evil
echo evil > .claude/settings.json; mv .claude gone.claude; mkdir -p .claude
rm -rf .claude/settings.local.json; echo evil > .claude/settings.local.json
mkdir -p .vscode; echo evil > .vscode/tasks.json; rmdir .vscode; mv .vscode gone.vscode
rmdir .mcp.json; echo evil > .mcp.json; ln -s src .husky
cd vendor/{ODD}; echo evil > .git/config; cd ../..; mv vendor/{ODD} vendor/gone; mv vendor gone
"""


@by_everyone
def test_a_run_changes_no_protected_path_and_everything_else(scene: Scene) -> None:
    furnish(scene)
    with scene.prepare() as protection, Box(scene, all_steps(scene, protection)) as box:
        box.do(ATTACK)
        box.do("echo work > src/main.c; mkdir .claude/commands; echo work > .claude/commands/a")
        box.do("echo work > new; mv new newer; mkdir -p deep/er")
        box.do(f"echo work > vendor/{ODD}/code")
    settings = (".claude/settings.json", ".claude/settings.local.json")
    for path in (".envrc", *settings, f"vendor/{ODD}/.git/config"):
        assert (scene.root / path).read_text() == "person's"
    assert (scene.root / ".git/config").read_text() == "[core]\n"
    for path in ("src/main.c", ".claude/commands/a", "newer", f"vendor/{ODD}/code"):
        assert (scene.root / path).read_text() == "work\n"
    assert {path.name for path in scene.root.iterdir()} == {
        *(".git", ".envrc", ".claude", "vendor", "src", "newer", "deep"),
    }


@by_everyone
def test_without_the_mounts_the_same_run_changes_them_all(scene: Scene) -> None:
    furnish(scene)
    with Box(scene, ()) as box:
        box.do(ATTACK)
    assert (scene.root / ".envrc").read_text() == "evil\n"
    assert (scene.root / ".mcp.json").read_text() == "evil\n"
    assert (scene.root / "gone.vscode/tasks.json").read_text() == "evil\n"
    assert (scene.root / "gone.git/config").read_text() == "evil\n"
    assert (scene.root / ".claude/settings.local.json").read_text() == "evil\n"
    assert (scene.root / "gone/gone/.git/config").read_text() == "evil\n"


def attack_parent(scene: Scene, made: Sequence[MountStep]) -> bool:
    """Whether a run got its own settings to where the host looks for them."""
    with Box(scene, made) as box:
        box.do("mv .claude away; mkdir .claude; echo evil > .claude/settings.json")
    return (scene.root / ".claude/settings.json").read_text() == "evil\n"


def test_it_is_the_anchor_that_keeps_the_parent_in_place(scene: Scene) -> None:
    furnish(scene)
    with scene.prepare(".claude/settings.json") as protection:
        made = steps(protection, Survey())
        assert len(made) == 2
        assert not attack_parent(scene, made)
        assert attack_parent(scene, made[1:])


def test_a_run_is_not_laid_open_when_another_ends(scene: Scene) -> None:
    first = scene.prepare()
    with scene.prepare() as second, Box(scene, steps(second, Survey())) as box:
        first.close()
        box.do("echo evil > .vscode/tasks.json; rmdir .envrc; echo evil > .envrc")
        assert list((scene.root / ".vscode").iterdir()) == []
        assert (scene.root / ".envrc").is_dir()


def test_a_place_laid_open_on_the_host_is_noticed(scene: Scene) -> None:
    """And this is why placeholders stay until the last run has ended."""
    with scene.prepare(".vscode") as protection:
        held = places(protection, Survey())
        with Box(scene, steps(protection, Survey())) as box:
            assert adrift(scene.root, held) == ()
            (scene.root / ".vscode").rmdir()
            assert adrift(scene.root, held) == (".vscode",)
            box.do("mkdir .vscode; echo evil > .vscode/tasks.json")
    assert (scene.root / ".vscode/tasks.json").read_text() == "evil\n"


def breach(box: Box, asked_for: Sequence[MountStep]) -> str:
    """What is wrong with the mounts as they are seen from outside."""
    try:
        walls.check_mounts(box.pid, walls.expect(asked_for))
    except AgsError as error:
        return error.cause
    return ""


@by_everyone
def test_all_mounts_are_seen_in_place_from_outside(scene: Scene) -> None:
    furnish(scene)
    with scene.person():
        server = bind(scene.root / "src/host.sock")
    with scene.prepare() as protection, server:
        asked_for = steps(protection, look(scene, protection))
        with Box(scene, asked_for) as box:
            assert breach(box, asked_for) == ""
        unmasked = tuple(step for step in asked_for if not isinstance(step, Mask))
        with Box(scene, unmasked) as box:
            assert "host.sock can be written to" in breach(box, asked_for)


def test_a_missing_mount_and_a_wrong_order_are_seen_from_outside(scene: Scene) -> None:
    furnish(scene)
    with scene.prepare(".claude/settings.json", ".envrc") as protection:
        made = steps(protection, Survey())
        with Box(scene, made) as box:
            assert breach(box, made) == ""
        with Box(scene, made[:-1]) as box:
            assert ".envrc" in breach(box, made)
        with Box(scene, made[::-1]) as box:
            assert ".claude/settings.json" in breach(box, made)


def test_a_link_swapped_in_before_mounting_is_seen_from_outside(scene: Scene) -> None:
    """Mounting goes by name. A link that is there just while bwrap resolves it has this effect."""
    (scene.outside / "secret").write_text("key")
    scene.folder("sub/.git")
    with scene.prepare(".envrc") as protection:
        asked_for = steps(protection, look(scene, protection))
        *made, last = asked_for
        assert isinstance(last, Bind)
        with Box(scene, (*made, replace(last, source=scene.outside))) as box:
            assert box.do("cat sub/.git/secret") == "key"
            assert "not what was to be mounted" in breach(box, asked_for)


@by_everyone
def test_a_socket_of_the_host_is_out_of_reach(scene: Scene) -> None:
    call = (
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX);"
        ' s.connect("src/host.sock"); s.send(b"hello")\''
    )
    scene.folder("src")
    with scene.person():
        server = bind(scene.root / "src/host.sock")
    server.settimeout(0.5)
    with server, scene.prepare() as protection:
        with Box(scene, all_steps(scene, protection)) as box:
            box.do(call)
            assert not called(server)
        with Box(scene, ()) as box:
            box.do(call)
            assert called(server)


def called(server: socket.socket) -> bool:
    try:
        connection, _ = server.accept()
    except TimeoutError:
        return False
    connection.close()
    return True


def test_git_reads_a_read_only_repository(scene: Scene) -> None:
    with Box(scene, ()) as box:
        box.do("git init -q . && echo one > file && git add file")
        box.do("git -c user.name=p -c user.email=p@p commit -qm first")
    with scene.prepare() as protection, Box(scene, all_steps(scene, protection)) as box:
        assert "first" in box.do("git log --oneline")
        assert box.do("echo two > file; git status --porcelain") == " M file\n"
        assert "+two" in box.do("git diff")
        box.do("git config core.fsmonitor evil")
    assert "evil" not in (scene.root / ".git/config").read_text()
