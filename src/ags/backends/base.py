"""What a backend is: a way to run a Plan behind a wall.

One contract suite (`tests/contract/`) runs on every backend; these comments are its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ags.frozen import frozen
from ags.model import Ending, Plan


@frozen
class Probe:
    """Whether a backend can work here; if not, why, and what to do."""

    ok: bool
    binary: str = ""
    version: str = ""
    cause: str = ""
    hint: str = ""


@frozen
class Streams:
    """Three open descriptors for the command. They stay the caller's to close."""

    stdin: int
    stdout: int
    stderr: int
    terminal: bool = False
    """stdin is a terminal made for this run: the command becomes leader of a session on it."""


class Entered(Protocol):
    """A second command inside a sandbox. It ends with the sandbox at the latest, and with us."""

    @property
    def pid(self) -> int:
        """The host's number of the process."""

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send it, or its whole process group, a signal. Nothing happens if it ended."""

    async def wait(self) -> int:
        """Its exit code, 128 and more if a signal ended it. May be asked again."""


class Sandbox(Protocol):
    """A started sandbox whose command waits until it is released."""

    @property
    def init(self) -> int:
        """The host's number of the sandbox's first process: its namespaces hang on it."""

    @property
    def limited_by(self) -> str:
        """What holds the limits: `cgroup v2`, `cgroup v1`, or `rlimits`."""

    async def release(self) -> None:
        """Let the command go. If we die before, it never runs."""

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send the command, or its whole process group, a signal. Nothing happens if it ended."""

    async def enter(self, command: Sequence[str], streams: Streams) -> Entered:
        """Start a second command behind the very same walls and limits, in the plan's directory
        and with its environment, in a session of its own. What it leaves behind stays until the
        sandbox ends. Raises AgsError unless the sandbox's own command runs, and rather than start
        with a wall missing.
        """

    async def wait(self) -> Ending:
        """The command's end; every process of the sandbox is gone by then. May be asked again."""

    async def kill(self) -> None:
        """End every process of the sandbox at once, released or not."""


class Backend(Protocol):
    """Few functions, so that a new one is a short file."""

    name: str

    async def probe(self) -> Probe:
        """Try it for real. Never raises."""

    async def launch(self, plan: Plan, streams: Streams) -> Sandbox:
        """Build the walls and check them. Raises AgsError rather than start with one missing, or
        with a link where something is to be mounted: then before anything is made (`ways.py`)."""
