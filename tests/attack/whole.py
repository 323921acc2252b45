"""Whole runs on a project of the person's: started, ended, killed and cleared away for real."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from ags import runs
from ags.engine import Engine, Wish
from ags.events import read
from ags.model import Limits
from ags.runs import Order, Run
from ags.supervisor import process
from tests.workspace.agent import done, project, sh
from tests.workspace.scene import Scene, scene_for

MUTATED = Path(__file__).with_name("supervisor.py")
PATIENCE = 120.0
NAMED = "git config user.name Pat; git config user.email pat@example.org"


@dataclass(frozen=True, slots=True)
class Whole:
    """A project at `root`, a state folder of its own, and a folder no run ever sees: `outside`."""

    scene: Scene
    mutation: str | None = None

    @property
    def root(self) -> Path:
        return self.scene.root

    @property
    def outside(self) -> Path:
        return self.scene.outside

    @property
    def state(self) -> Path:
        return self.scene.state

    @property
    def home(self) -> Path:
        return self.outside / "home"

    def engine(self) -> Engine:
        environ = {"PATH": "/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8"}
        return Engine(environ, self.home, self.state, supervisor=self._supervisor())

    def _supervisor(self) -> Callable[[Path, str], tuple[str, ...]]:
        """The real one; or, with a protection taken out, one that goes without it as well."""
        if (name := self.mutation) is None:
            return process.command
        return lambda home, run: (sys.executable, "-I", str(MUTATED), str(home), run, name)

    def sh(self, script: str, cwd: Path | None = None, *, check: bool = True) -> str:
        """The person's own shell and git."""
        return sh(self.scene, script, cwd, check=check)

    def start(self, name: str, goal: str, base: str = "HEAD", folder: Path | None = None) -> Path:
        wish = Wish(name, goal, "shell", folder or self.root, Limits(), base)
        return runs.directory(self.state, done(self.engine().start(wish)).id)

    def run(self, name: str, goal: str, base: str = "HEAD") -> Run:
        """To its end, whatever that is."""
        return done(self.engine().ended(self.start(name, goal, base), PATIENCE))

    def in_place(self, name: str, script: str) -> Run:
        """In the person's own folder, to its end."""
        order = Order(arguments=("-c", script))
        wish = Wish(name, "", "shell", self.root, Limits(), mode="inplace", order=order)
        engine = self.engine()
        run_dir = runs.directory(self.state, done(engine.start(wish)).id)
        return done(engine.ended(run_dir, PATIENCE))

    def at_work(self, name: str, goal: str, base: str = "HEAD") -> Path:
        """Until it has done `goal`; from then on it sleeps."""
        run_dir = self.start(name, f"{goal}\necho --at-work--; sleep 600", base)
        until(lambda: "--at-work--" in said(run_dir) or not runs.is_alive(run_dir))
        assert runs.is_alive(run_dir), told(run_dir)
        return run_dir

    def interrupted(self, name: str, goal: str, base: str = "HEAD") -> Path:
        """Its supervisor is killed when it has done `goal`."""
        run_dir = self.at_work(name, goal, base)
        supervisor = runs.load(run_dir).supervisor
        assert supervisor is not None
        os.kill(supervisor.pid, signal.SIGKILL)
        until(lambda: not runs.is_alive(run_dir))
        return run_dir

    def git_dir(self, run: Run) -> Path:
        """Where the run's own git directory lies on the host."""
        return self.state / "git" / run.id / "git"

    def refs(self) -> dict[str, str]:
        """The project's, as the person's git tells them."""
        told = self.sh("git for-each-ref --format='%(refname) %(objectname)'")
        return dict(line.split(" ") for line in told.splitlines())


def said(run_dir: Path) -> str:
    """What the agent printed."""
    lines = (event.fields.get("text") for event in read(run_dir / "events.jsonl"))
    return "\n".join(str(line) for line in lines if line is not None)


def told(run_dir: Path) -> str:
    """All there is to know of a run, for a failed test."""
    return f"{runs.load(run_dir)}\n{said(run_dir)}\n{(run_dir / 'supervisor.log').read_text()}"


def dashed(name: str) -> str:
    """As a test's id, which `test_mutations` reads as one word."""
    return name.replace(" ", "-")


def until(true: Callable[[], bool], patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.01)


@contextmanager
def whole_for(seat: str, mutation: str | None) -> Iterator[Whole]:
    with scene_for(seat) as scene:
        project(scene, NAMED)
        try:
            yield Whole(scene, mutation)
        finally:
            _end_all(scene.state)


def _end_all(state: Path) -> None:
    """A test that failed may have left runs at work."""
    for run in runs.load_all(state)[0]:
        _end(runs.directory(state, run.id))


def _end(run_dir: Path) -> None:
    until(lambda: not runs.is_alive(run_dir) or runs.load(run_dir).supervisor is not None)
    if runs.is_alive(run_dir) and (supervisor := runs.load(run_dir).supervisor):
        with suppress(ProcessLookupError):  # it may end by itself meanwhile
            os.kill(supervisor.pid, signal.SIGKILL)
    until(lambda: not runs.is_alive(run_dir))


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> Iterator[Whole]:
    """A project of root's; as parameter `root for another`, one of an ordinary user's."""
    seat = getattr(request, "param", "self")
    with whole_for(seat, request.config.getoption("--mutation")) as made:
        yield made
