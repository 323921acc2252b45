"""A project of the person's, runs on it whose supervisors have faults, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ags import runs
from ags.engine import Engine, Wish
from ags.events import Event, read
from ags.kernel import processes
from ags.model import Limits
from ags.runs import Run, State
from ags.supervisor import process
from tests.workspace.repositories import Checkout

T = TypeVar("T")
PROGRAM = Path(__file__).with_name("supervisor.py")
WORK = "echo more >> file; echo made > made; echo said"
CHANGED = {"file": "one\nmore", "made": "made"}
SOON = 60.0


def cgroups(prefix: str) -> list[Path]:
    """Not by `rglob`, which fails when one of somebody else's is removed meanwhile."""
    found = os.walk("/sys/fs/cgroup")
    return [Path(at, name) for at, names, _ in found for name in names if name.startswith(prefix)]


def wait_for(what: str, ready: Callable[[], T], patience: float = SOON) -> T:
    until = time.monotonic() + patience
    while not (found := ready()):
        assert time.monotonic() < until, f"{what}: not after {patience:g} s"
        time.sleep(0.03)
    return found


@dataclass
class Workshop:
    """Everything is below `place`, so whatever names it in /proc is a process of ours."""

    place: Path
    project: Checkout

    @property
    def ags_home(self) -> Path:
        return self.place / "ags"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place / "home"),
            "AGS_HOME": str(self.ags_home),
            "TMPDIR": str(self.place / "tmp"),
            "LC_ALL": "C.UTF-8",
        }

    def engine(self, point: str = "", action: str = "nothing") -> Engine:
        def command(ags_home: Path, run: str) -> tuple[str, ...]:
            faulty = (sys.executable, "-I", str(PROGRAM), str(ags_home), run, point, action)
            return faulty if point else process.command(ags_home, run)

        return Engine(self.environ, self.place / "home", self.ags_home, supervisor=command)

    def wish(self, name: str, goal: str = WORK, limits: Limits | None = None) -> Wish:
        return Wish(name, goal, "shell", self.project.folder, limits or Limits())

    def start(
        self,
        name: str = "try",
        goal: str = WORK,
        *,
        at: str = "",
        action: str = "nothing",
        limits: Limits | None = None,
    ) -> Run:
        return self.does(self.engine(at, action).start(self.wish(name, goal, limits)))

    def does(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    def run_dir(self, run: Run) -> Path:
        return runs.directory(self.ags_home, run.id)

    def load(self, run: Run) -> Run:
        return runs.load(self.run_dir(run))

    def ended(self, run: Run, patience: float = 120.0) -> Run:
        ended = self.does(self.engine().ended(self.run_dir(run), patience))
        reap()
        return ended

    def untended(self, run: Run) -> None:
        wait_for("its lock is free", lambda: not runs.is_alive(self.run_dir(run)))
        wait_for("its supervisor ends", lambda: not self.supervisors(run))
        reap()

    def supervisors(self, run: Run) -> list[int]:
        """One at most, from before it has written down its pid."""
        asked = f"\0{run.id}\0".encode()
        return [pid for pid, told in said() if asked in told]

    def kill_supervisor(self, run: Run) -> None:
        (pid,) = wait_for("a supervisor", lambda: self.supervisors(run))
        os.kill(pid, signal.SIGKILL)
        self.untended(run)

    def restarted(self, run: Run) -> Run:
        self.does(self.engine().restart(run.name))
        return self.ended(run)

    def cli(self, *arguments: str) -> subprocess.Popen[str]:
        """`ags`, as from a terminal of the person's in the project."""
        return subprocess.Popen(
            (sys.executable, "-I", "-m", "ags.cli.main", *arguments),
            cwd=self.project.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def said(self, run: Run) -> str:
        """What the log and the notes have of AGS's own words."""
        told = (str(dict(event.fields)) for event in self.events(run) if event.kind == "system")
        return "\n".join((*told, *self.load(run).notes))

    def events(self, run: Run) -> list[Event]:
        return list(read(self.run_dir(run) / "events.jsonl"))

    # What the person has

    def own(self) -> tuple[str, bytes, bytes, bytes, dict[str, bytes]]:
        """All that no run may touch: their refs, HEAD, index, settings and files."""
        refs = self.project.ask("for-each-ref")
        theirs = [
            line for line in refs.splitlines() if "/ags/" not in line and "/agent--" not in line
        ]
        git = self.project.folder / ".git"
        kept = ((git / name).read_bytes() for name in ("HEAD", "index", "config"))
        return "\n".join(theirs), *kept, self.project.state()[2]  # type: ignore[return-value]

    def files(self, run: Run) -> dict[str, str]:
        """What its branch changed, with what is in there."""
        span = (str(run.base), f"agent--{run.name}")
        names = self.project.ask("diff", "--name-only", "--no-renames", *span)
        return {name: self.project.ask("show", f"{span[1]}:{name}") for name in names.split()}

    def check_sound(self) -> None:
        problems = self.project.git("fsck", "--full", "--strict", "--no-dangling")
        assert problems.strip() == b""

    # What is left

    def processes(self, run: Run | None = None) -> list[int]:
        """Of that run, or of any here."""
        # The supervisor has the id among its arguments, what runs inside as AGS_RUN.
        mark = run.id.encode() if run else os.fsencode(self.place)
        return [pid for pid, told in said() if mark in told]

    def nothing_runs(self, run: Run | None = None) -> None:
        wait_for("its processes end", lambda: not self.processes(run))

    def traces(self, run: Run) -> list[str]:
        """All that there is of a run, its branch aside."""
        found = [
            *self.ags_home.glob(f"*/{run.id}*"),
            *self.ags_home.glob(f"runs/.*{run.id}*"),
            *(path for path in self.ags_home.glob(f"*/{run.name}") if os.path.lexists(path)),
            *cgroups(f"ags-{run.id}-"),
            *(self.place / "tmp").glob("ags-*"),
        ]
        refs = self.project.ask("for-each-ref", "refs/ags").splitlines()
        return [str(path) for path in found] + [line for line in refs if run.id in line]


def reap() -> None:
    """Those that we started ourselves: a dead process that nobody has looked at keeps its pid."""
    for pid in processes.children(os.getpid()):
        if (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]) == "Z":
            os.waitpid(pid, 0)


def said() -> Iterator[tuple[int, bytes]]:
    """Each process, with its arguments and its environment."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        told = (_content(f"/proc/{name}/{file}") for file in ("cmdline", "environ"))
        yield int(name), b"\0".join(told)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:  # it is gone, or another's
        return b""


def made(place: Path) -> Workshop:
    for name in ("home", "tmp", "project"):
        (place / name).mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place / "home"),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_NAME": "Ann" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "ann@example.org" for role in ("AUTHOR", "COMMITTER")},
    }
    (place / "home/.gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n")
    project = Checkout(place / "project", environment)
    project.git("init", "--quiet", "--initial-branch=main")
    project.write("file", "one\n")
    project.commit("first")
    project.write("file", "one\n")
    project.write("own", "the person's own, uncommitted\n")
    return Workshop(place, project)


def states(workshop: Workshop, chosen: list[Run]) -> dict[str, State]:
    return {run.name: workshop.load(run).state for run in chosen}
