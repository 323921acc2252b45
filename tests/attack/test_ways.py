"""THREATS F2, F3: a link where something is to be mounted leads no start astray, whichever it is.

bwrap makes what it mounts on while the whole host is still below `/oldroot`, and follows links.
Here an agent leaves one in a folder that it was given. The victim is a folder that no sandbox has:
nothing is ever made there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from ags import runs
from ags.backends import ways
from ags.backends.bubblewrap import Bubblewrap
from ags.cli.main import main
from ags.config.schema import Settings
from ags.errors import AgsError
from ags.model import KIB, Bind, Cover, Directory, Link, Mask, MountStep, Text, Tmpfs
from ags.programs.inside import Cell
from tests.attack.test_agents import install, start
from tests.attack.whole import PATIENCE, Whole, told
from tests.attack.whole import whole as whole
from tests.box import Box
from tests.workspace.agent import done

GIVEN = PurePosixPath("/given")
PLACE = GIVEN / "in/place"
RAN = f"touch {GIVEN}/ran"
SETTINGS = """
[[mount]]
host = "{tool}"
container = "/given/in/place"

[[mount]]
host = "{given}"
container = "/given"
mode = "rw"
"""


@dataclass(frozen=True, slots=True)
class Gift:
    """The person's settings give every sandbox a folder, and another one within that."""

    whole: Whole
    given: Path
    tool: Path
    victim: Path

    def settle(self, more: str = "") -> None:
        file = self.whole.home / ".config/ags/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SETTINGS.format(tool=self.tool, given=self.given) + more)

    def worked_on(self, script: str) -> None:
        """By an agent that could not be collected from."""
        self.whole.interrupted("worker", f"echo work > work; {script}")

    def take_ran(self) -> bool:
        ran = self.given / "ran"
        there = ran.exists()
        ran.unlink(missing_ok=True)
        return there


@pytest.fixture
def gift(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> Gift:
    made = Gift(whole, *(whole.outside / name for name in ("given", "tool", "victim")))
    for folder in (made.given / "in/place", made.tool, made.victim):
        folder.mkdir(parents=True)
    made.settle()
    for name in os.environ.keys() - {"PATH", "LANG"}:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(whole.home))
    monkeypatch.setenv("AGS_HOME", str(whole.state))
    monkeypatch.chdir(whole.root)
    return made


def by_exec(gift: Gift) -> bool:
    main(("exec", "--", "/bin/sh", "-c", RAN))
    return gift.take_ran()


def by_auth(gift: Gift) -> bool:
    install(gift.whole, "claude", f"#!/bin/sh\n{RAN}\n")
    main(("auth", "claude"))
    return gift.take_ran()


def by_start(gift: Gift) -> bool:
    gift.whole.run("next", RAN)
    return gift.take_ran()


def by_setup(gift: Gift) -> bool:
    gift.settle(f'\n[workspace]\nsetup = "{RAN}"\n')
    gift.whole.run("next", "true")
    return gift.take_ran()


def by_in_place(gift: Gift) -> bool:
    gift.whole.in_place("next", RAN)
    return gift.take_ran()


def by_gather(gift: Gift) -> bool:
    engine = gift.whole.engine()
    with suppress(AgsError):
        done(engine.gather("worker"))
    return runs.load(engine.run_dir("worker")).result is not None


def by_install(gift: Gift) -> bool:
    cell = Cell(Bubblewrap(), Settings(), {}, gift.whole.home)
    bind, also = Bind(gift.given, GIVEN, writable=True), Bind(gift.tool, PLACE)
    with suppress(AgsError):
        done(cell.run(("/bin/sh", "-c", RAN), bind, GIVEN, also=(also,), timeout=PATIENCE))
    return gift.take_ran()


STARTS: dict[str, Callable[[Gift], bool]] = {
    "exec": by_exec,
    "auth": by_auth,
    "start": by_start,
    "setup": by_setup,
    "in-place": by_in_place,
    "gather": by_gather,
    "install": by_install,
}


@pytest.mark.parametrize("name", STARTS)
def test_a_link_that_an_agent_left_leads_no_start_outside(gift: Gift, name: str) -> None:
    gift.worked_on(f"mv /given/in /given/old; ln -s /oldroot{gift.victim} /given/in")
    assert (gift.given / "in").is_symlink()
    started = STARTS[name](gift)
    assert list(gift.victim.iterdir()) == []
    assert not started


@pytest.mark.parametrize("name", STARTS)
def test_an_honest_folder_is_come_to_by_every_start(gift: Gift, name: str) -> None:
    gift.worked_on("true")
    assert STARTS[name](gift)


PLANT = "mv ~/.gemini ~/old; ln -s /oldroot{victim} ~/.gemini"


def test_a_link_that_setup_left_in_the_home_leads_the_agents_start_nowhere(
    gift: Gift,
) -> None:
    """What a package brings runs then, and the home that it has becomes the agent's."""
    gift.settle(f'\n[workspace]\nsetup = "{PLANT.format(victim=gift.victim)}"\n')
    run = start(gift.whole, "gemini", RAN)
    assert list(gift.victim.iterdir()) == []
    assert run.state == "failed" and not gift.take_ran(), told(gift.whole.engine().run_dir("try"))


def test_a_link_that_a_filter_left_in_the_home_leads_setup_nowhere(gift: Gift) -> None:
    filter_ = f"{PLANT.format(victim=gift.victim)}; cat"
    gift.whole.sh(f"git config filter.f.smudge '{filter_}'; git config filter.f.clean cat; "
                  "echo 'a filter=f' > .gitattributes; echo x > a; git add -A; "
                  "git commit -qm filtered")  # fmt: skip
    gift.settle(f'\n[workspace]\nsetup = "{RAN}"\n')
    run = start(gift.whole, "gemini", RAN)
    assert list(gift.victim.iterdir()) == []
    assert run.state == "failed" and not gift.take_ran(), told(gift.whole.engine().run_dir("try"))


def test_what_setup_leaves_in_an_honest_home_is_there_for_the_agent(gift: Gift) -> None:
    gift.settle('\n[workspace]\nsetup = "echo x > ~/left"\n')
    run = start(gift.whole, "gemini", f"cat ~/left && {RAN}")
    assert run.state == "done" and gift.take_ran(), told(gift.whole.engine().run_dir("try"))


SMALL = 64 * KIB
STEPS: dict[str, Callable[[Path], MountStep]] = {
    "folder": lambda top: Bind(top / "tool", PLACE),
    "file": lambda top: Bind(top / "file", PLACE),
    "memory": lambda top: Tmpfs(PLACE, SMALL),
    "directory": lambda top: Directory(PLACE),
    "text": lambda top: Text(PLACE, b"ours"),
    "link": lambda top: Link(PLACE, "/usr"),
    "mask": lambda top: Mask(PLACE, "file"),
    "masked-folder": lambda top: Mask(PLACE, "dir"),
    "cover": lambda top: Cover(PLACE, b"ours"),
}


@pytest.fixture
def top(box: Box) -> Path:
    """What the person has: all of it theirs to write to, and so bwrap's."""
    above, owner = box.workspace.parent, box.workspace.stat()
    for name in ("tool", "victim", "given", "given/in"):
        (above / name).mkdir()
    for name in ("file", "victim/rc"):
        (above / name).write_text("precious")
    for path in (above / name for name in ("file", "tool", "victim", "victim/rc", "given")):
        os.chown(path, owner.st_uid, owner.st_gid)
    os.chown(above / "given/in", owner.st_uid, owner.st_gid)
    return above


def started(box: Box, top: Path, step: MountStep, *, writable: bool) -> str:
    """Why it did not."""
    given = Bind(top / "given", GIVEN, writable=writable)
    try:
        assert box.run("true", binds=[given], protections=[step]).code == 0
    except AgsError as error:
        return error.cause
    return ""


def victim(top: Path) -> dict[str, tuple[int, str]]:
    return {
        path.name: (stat.S_IFMT(path.lstat().st_mode), path.read_text() if path.is_file() else "")
        for path in (top / "victim").iterdir()
    }


@pytest.mark.parametrize("writable", [True, False], ids=["writable", "read-only"])
@pytest.mark.parametrize("kind", STEPS)
def test_nothing_is_made_behind_a_link_whatever_is_to_be_mounted(
    box: Box, top: Path, kind: str, writable: bool
) -> None:
    before = victim(top)
    (top / "given/in").rmdir()
    (top / "given/in").symlink_to(f"/oldroot{top}/victim")
    why = started(box, top, STEPS[kind](top), writable=writable)
    assert victim(top) == before
    assert "a link where something is to be mounted" in why


@pytest.mark.parametrize(
    ("kind", "name"),
    [("text", "rc"), ("text", "new"), ("file", "new"), ("mask", "new"), ("cover", "new")],
)
def test_nothing_is_written_through_a_link_at_the_place_itself(
    box: Box, top: Path, kind: str, name: str
) -> None:
    before = victim(top)
    (top / "given/in/place").symlink_to(f"/oldroot{top}/victim/{name}")
    why = started(box, top, STEPS[kind](top), writable=True)
    assert victim(top) == before
    assert "a link where something is to be mounted" in why


@pytest.mark.parametrize("kind", STEPS)
def test_each_is_mounted_in_an_honest_folder(box: Box, top: Path, kind: str) -> None:
    assert started(box, top, STEPS[kind](top), writable=True) == ""


def test_a_folder_mounted_over_others_is_looked_at_itself(box: Box, top: Path) -> None:
    """What was mounted below it before is out of sight, and vouches for nothing."""
    given = Bind(top / "given", GIVEN, writable=True)
    steps = [Tmpfs(GIVEN / "in", SMALL), given, Bind(top / "file", PLACE)]
    assert box.run("true", protections=steps).code == 0
    before = victim(top)
    (top / "given/in").rename(top / "given/old")
    (top / "given/in").symlink_to(f"/oldroot{top}/victim")
    with pytest.raises(AgsError, match="a link where"):
        box.run("true", protections=steps)
    assert victim(top) == before


def test_a_place_that_cannot_be_looked_at_ends_the_start(top: Path) -> None:
    given = Bind(top / "given", GIVEN, writable=True)
    with pytest.raises(AgsError, match="too long"):
        ways.check([given, Text(GIVEN / ("x" * 300), b"")])
    ways.check([given, Text(GIVEN / "file", b"")])
