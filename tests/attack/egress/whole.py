"""Whole runs from the command line, on a machine whose network is the fake internet."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ags import runs
from tests.attack.egress.scene import ATTACKER, Scene
from tests.attack.whole import said, told, until
from tests.people import ROOT
from tests.workspace.repositories import Checkout, checkout

CLI = Path(__file__).with_name("whole_cli.py")
AT_WORK = "--at-work--"


class Desk:
    """Where a person sits who starts runs, and sees in `scene` what those do to the world."""

    def __init__(self, scene: Scene, place: Path, project: Checkout) -> None:
        self.scene, self.place, self.project = scene, place, project
        self.state, self.home = place / "state", place / "home"
        self._environ = {
            "HOME": str(self.home),
            "AGS_HOME": str(self.state),
            "SSL_CERT_FILE": str(scene.world.ca_file),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        }

    def ags(
        self, *arguments: str, fault: str = "", program: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """With a fault that `whole_cli.py` knows, the supervisor has it too."""
        names = [name for name in (self.scene.mutation, fault) if name]
        known = (str(CLI), *names, "--") if names else ("-m", "ags.cli.main")
        command = (*(program or (sys.executable, *known)), *arguments)
        world, folder = self.scene.world, self.project.folder
        return world.run(command, cwd=folder, env=self._environ, timeout=300)

    def run(self, name: str, goal: str, *flags: str) -> str:
        """To its end; what it printed."""
        ran = self.ags("start", name, "-a", "shell", *flags, goal)
        assert self.run_dir(name).exists(), ran.stderr
        return said(self.run_dir(name))

    def attack(self, name: str, script: str, *flags: str) -> str:
        """A script for the Python inside, with all of `attacker.py`, run to its end."""
        printed = self.run(name, python(script), *flags)
        assert "Traceback" not in printed, printed
        assert runs.load(self.run_dir(name)).state == "done", told(self.run_dir(name))
        return printed

    def at_work(self, name: str, goal: str, *flags: str) -> Path:
        """Until it has done `goal`; from then on its shell, with all that it knows, waits."""
        goal += f"\necho {AT_WORK}; sleep 600; true"
        started = self.ags("start", name, "-a", "shell", "--detach", *flags, goal)
        assert started.returncode == 0, started.stderr
        run_dir = self.run_dir(name)
        until(lambda: AT_WORK in said(run_dir) or not runs.is_alive(run_dir))
        assert runs.is_alive(run_dir), told(run_dir)
        return run_dir

    def run_dir(self, name: str) -> Path:
        return (self.state / "names" / name).resolve()

    def worktree(self, name: str) -> Path:
        return self.state / "worktrees" / name

    def policy(self, text: str) -> tuple[str, str]:
        """The flags for a run with this one."""
        file = self.place / "policy.yaml"
        file.write_text(text)
        return "--policy", str(file)

    def settings(self, text: str) -> None:
        file = self.home / ".config/ags/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def python(script: str) -> str:
    """As a goal of the shell agent."""
    return f"/usr/bin/python3 -I - <<'--END--'\n{ATTACKER}\n{script}\n--END--"


def supervisor(run_dir: Path) -> int:
    found = runs.load(run_dir).supervisor
    assert found is not None
    return found.pid


def below(pid: int) -> Iterator[int]:
    """All that this process started, and what those started: bwrap, and everything inside."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                yield child
                yield from below(child)


def works(pid: int) -> bool:
    """Rather than being gone, or dead with nobody to hear of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def supervisor_killed(run_dir: Path) -> Iterator[set[int]]:
    """What it had started, which is not left to itself even if it should live on."""
    left = set(below(supervisor(run_dir)))
    os.kill(supervisor(run_dir), signal.SIGKILL)
    until(lambda: not runs.is_alive(run_dir))
    try:
        yield left
    finally:
        _kill(filter(works, left))
        until(lambda: not any(map(works, left)))


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def unfinished(world_pid: int) -> list[str]:
    """The connections there are now, as the kernel of a namespace tells; also those that only one
    side has left, of which the other may still have something to read."""
    listed = ("ss", "-tnH", "state", "established", "state", "close-wait")
    command = ("nsenter", "-t", str(world_pid), "--net", *listed)
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return told.splitlines()


@contextlib.contextmanager
def abstract(scene: Scene, name: str) -> Iterator[socket.socket]:
    """A host's socket that has no file: whoever is in the same network namespace may connect."""
    with scene.world.enter() as there:
        made = there.open(socket.AF_UNIX)
    with made:
        made.bind(f"\0{name}")
        made.listen()
        made.setblocking(False)
        yield made


def visitors(listener: socket.socket) -> int:
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


@contextlib.contextmanager
def desk_for(scene: Scene) -> Iterator[Desk]:
    place = Path(tempfile.mkdtemp(prefix="ags-whole-", dir="/tmp"))
    project = checkout(place / "project")
    project.write("file", "one\n")
    project.commit("first")
    desk = Desk(scene, place, project)
    desk.home.mkdir()
    desk.home.joinpath(".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n")
    try:
        yield desk
    finally:
        end_all(tuple(desk.state.glob("runs/*")))
        shutil.rmtree(place)


def end_all(run_dirs: Sequence[Path]) -> None:
    """A test that failed may have left runs at work."""
    above = [supervisor(run_dir) for run_dir in filter(runs.is_alive, run_dirs)]
    left = [pid for each in above for pid in (each, *below(each))]
    _kill(left)
    # The first process inside is gone only after all others there are.
    until(lambda: not any(map(works, left)) and not any(map(runs.is_alive, run_dirs)))
