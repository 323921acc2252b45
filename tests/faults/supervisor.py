"""A supervisor in which something goes wrong, at a place of the test's choosing.

`python -I supervisor.py AGS_HOME RUN POINT ACTION`, with the run's lock as descriptor 3. POINT is
one of those in the supervisor, or `step-N`: the Nth save of the record or change made by git.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ags import runs
from ags.errors import AgsError
from ags.supervisor import process
from ags.supervisor.process import LOCK, Supervisor
from ags.workspace import git

POINTS = (
    *("queued", "preparing", "created", "prepared", "launched", "running", "released"),
    *("collecting", "collected", "ending"),
)
CHANGES = {"update-ref", "index-pack", "read-tree"}
YEAR = 365 * 86400.0


class Faulty(Supervisor):
    """Does as its parent does, but for one moment."""

    def __init__(self, held: runs.Held, ags_home: Path, point: str, action: str) -> None:
        super().__init__(held, ags_home, os.environ)
        self._point = point
        self._action = action
        self.steps: list[str] = []

    def reached(self, point: str) -> None:
        if point == self._point:
            self._point = ""  # once: what follows must be able to end in order
            ACTIONS[self._action](self)

    def step(self, what: str) -> None:
        self.steps.append(what)
        self.reached(f"step-{len(self.steps)}")

    @property
    def run_dir(self) -> Path:
        return self._held.run_dir

    def hang(self) -> None:
        """For the whole process: a loop that does not turn."""
        (self.run_dir / "hanging").touch()
        time.sleep(600)

    def wait_for(self, seconds: float) -> None:
        """Before it loses its patience with an agent that was asked to end."""
        process.GRACE = seconds

    def lose_stop(self) -> None:
        """As if it had come while the sandbox was started, and its cancellation was lost."""
        self._stopped_by = "stopped by the test"

    def shift_clock(self, seconds: float) -> None:
        real = time.time
        time.time = lambda: real() + seconds
        self._log._clock = time.time


def kill(_: Faulty) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(_: Faulty) -> None:
    raise AgsError("go through the test", cause="it was to fail here", hint="none")


def crash(_: Faulty) -> None:
    raise RuntimeError("a fault was put here")


def stop(supervisor: Faulty, *, at_once: bool = False) -> None:
    """As a request comes: when the loop turns next, never in the middle of a step."""
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: supervisor.stop("the test", at_once=at_once))


ACTIONS: dict[str, Callable[[Faulty], None]] = {
    "nothing": lambda _: None,
    "kill": kill,
    "raise": refuse,
    "crash": crash,
    "hang": Faulty.hang,
    "clock-back": lambda supervisor: supervisor.shift_clock(-YEAR),
    "clock-forward": lambda supervisor: supervisor.shift_clock(YEAR),
    "stop": stop,
    "impatient": lambda supervisor: supervisor.wait_for(2.0),
    "patient": lambda supervisor: supervisor.wait_for(600.0),
    "lost-stop": Faulty.lose_stop,
    "stop-now": lambda supervisor: stop(supervisor, at_once=True),
}


def watch_steps(step: Callable[[str], None]) -> None:
    """In this process, have `step` called after each save and each change that git has made."""
    save: Callable[[runs.Held, runs.Run], runs.Run] = runs.Held.save
    run: Callable[..., Awaitable[Any]] = git.run

    def saved(held: runs.Held, record: runs.Run) -> runs.Run:
        done = save(held, record)
        step("save")
        return done

    async def ran(repository: git.Repository, *arguments: str, **options: Any) -> Any:
        done = await run(repository, *arguments, **options)
        if not CHANGES.isdisjoint(arguments):
            step(f"git {shlex.join(arguments)}")
        return done

    runs.Held.save = saved  # type: ignore[method-assign, assignment]
    git.run = ran


async def main() -> None:
    ags_home, run, point, action = sys.argv[1:]
    held = runs.Held.adopt(runs.directory(Path(ags_home), run), LOCK)
    supervisor = Faulty(held, Path(ags_home), point, action)
    watch_steps(supervisor.step)
    await supervisor.run()
    (supervisor.run_dir / "steps").write_text("\0".join(supervisor.steps))


if __name__ == "__main__":
    asyncio.run(main())
