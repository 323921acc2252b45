"""A run as a value, and its life from state to state."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal, Self

from ags.config.schema import MountConfig
from ags.errors import AgsError, Unfit
from ags.frozen import frozen
from ags.kernel import processes
from ags.model import Limits, Weakening

State = Literal[
    "queued", "preparing", "running", "collecting", "done", "failed", "stopped", "interrupted"
]
Mode = Literal["separate", "inplace"]

FINAL: frozenset[State] = frozenset({"done", "failed", "stopped", "interrupted"})
NEXT: dict[State, frozenset[State]] = {
    "queued": FINAL - {"done"} | {"preparing"},
    "preparing": FINAL - {"done"} | {"running"},
    "running": FINAL - {"done"} | {"collecting"},
    "collecting": FINAL,
    # A run that is over can be started anew, and what it left behind can be collected later.
    "done": frozenset({"queued"}),
    "failed": frozenset({"queued", "collecting"}),
    "stopped": frozenset({"queued", "collecting"}),
    "interrupted": frozenset({"queued", "collecting"}),
}

NAME = r"(?!.*--\Z)[a-z0-9][a-z0-9-]{0,47}"
ID = r"[0-9a-f]{20}"
FORMAT = 1


@dataclass(frozen=True, slots=True)  # made by the thousand, for a list
class Moment:
    """A point in time that survives somebody setting the clock."""

    wall: float
    uptime: float
    """Seconds since the machine's boot, sleep included."""
    boot: str


Clock = Callable[[], Moment]


def now() -> Moment:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Moment(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), boot)


def seconds(since: Moment, until: Moment) -> float:
    """Never negative. Within one boot the wall clock is not asked."""
    if since.boot == until.boot:
        return max(0.0, until.uptime - since.uptime)
    return max(0.0, until.wall - since.wall)


@frozen
class Result:
    """What came back."""

    commit: str
    files: int
    insertions: int
    deletions: int


@frozen
class Turn:
    """What a run had at the end of a turn that is over."""

    commit: str
    said: str | None
    """What it had been told; None: its goal."""


@frozen
class Applied:
    """The result went into `target`, which was at `before` and then at `after`."""

    how: Literal["merge", "squash", "patch", "fast-forward", "in place"]
    target: str
    before: str | None
    after: str | None
    at: Moment
    source: str | None = None
    """The commit that was brought there."""
    undone: Moment | None = None


@frozen
class Pushed:
    """The result went to a branch of another repository, which nothing here takes back."""

    remote: str
    branch: str
    commit: str
    at: Moment


@frozen
class Move:
    """An apply or undo under way, noted before anything of the person's changes."""

    record: Applied
    undoing: bool


@frozen
class Mount:
    """A folder or file of the person's that the run sees, and the flag that asked for it."""

    flag: str
    config: MountConfig


@frozen
class Order:
    """How the run was asked for, beyond its goal: enough to do the same again."""

    arguments: tuple[str, ...] = ()
    """The agent's own."""
    terminal: bool = False
    """A person sits at it, now or later."""
    folder: PurePosixPath = PurePosixPath(".")
    """Where in the workspace it starts."""
    mounts: tuple[Mount, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    ptrace: bool = False
    backend: str | None = None
    config: Path | None = None
    network: bool = True
    """False: sealed, whatever the policy says."""
    allow: tuple[str, ...] = ()
    """Domains that this run may reach as well."""
    policy: Path | None = None
    """A policy file for this run."""
    ask: bool | None = None
    """Whether a refused request waits for the person; None: as the policy says."""
    publish: tuple[int, ...] = ()
    """Ports of it that come to the host's loopback."""
    client: str = ""
    """Whose work it is: homes, secrets and policies of clients never meet."""
    model: str = ""
    """As the agent names it; empty: the agent's own choice."""
    session: str = ""
    """A conversation of the agent's to go on with."""
    defaults: bool = False
    """The agent works without asking before each step."""
    yolo: bool = False
    """The same, and the guard on its tool calls is off."""
    login: Path | None = None
    """A folder of the person's whose log-in it shares, on purpose."""


@frozen
class Supervisor:
    """To show and to signal; whether it lives is the lock's to say."""

    pid: int
    started: int
    """Clock ticks from boot, see `processes.start_time`."""

    @classmethod
    def me(cls) -> Self:
        return cls(os.getpid(), processes.start_time(os.getpid()) or 0)


@frozen
class Run:
    """One goal given to one agent, and all that became of it."""

    id: str
    name: str
    agent: str
    goal: str
    mode: Mode
    project: Path
    created: Moment
    group: str = ""
    """What several attempts at one goal have in common; empty for a single one."""
    order: Order = Order()
    common: Path | None = None
    """Where the repository is, if the project is a linked worktree of it."""
    workspace: Path | None = None
    base: str | None = None
    """The commit it starts from."""
    branch: str | None = None
    left_at: str | None = None
    """The commit its branch was put at, in this attempt or an earlier one."""
    state: State = "queued"
    asking: bool = False
    started: Moment | None = None
    ended: Moment | None = None
    exit_code: int | None = None
    stopped_by: str | None = None
    limits: Limits = Limits()
    limited_by: str | None = None
    """What holds the limits: `cgroup v2`, `rlimits`."""
    weakenings: tuple[Weakening, ...] = ()
    notes: tuple[str, ...] = ()
    result: Result | None = None
    applied: tuple[Applied, ...] = ()
    pushed: tuple[Pushed, ...] = ()
    moving: Move | None = None
    session: str = ""
    """The agent's own name for the conversation, once it told."""
    turn: int = 0
    """How many times it was told to go on."""
    turns: tuple[Turn, ...] = ()
    """Those before this one, as far as they brought anything."""
    said: str | None = None
    """What it was told last; None: its goal."""
    answer: str = ""
    """The agent's last words."""
    egress_count: int = 0
    egress_last: str = ""
    """How many lines its egress.jsonl has, and the hash of the last: a cut tail shows."""
    supervisor: Supervisor | None = None
    format: int = FORMAT

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def wanted(self) -> str:
        """In this turn."""
        return self.goal if self.said is None else self.said


@frozen
class Damaged:
    """A run whose record cannot be read. It is left as it is."""

    id: str
    cause: str


def duration(run: Run, at: Moment) -> float:
    """Seconds it has been at work, up to its end or to `at`."""
    return seconds(run.started, run.ended or at) if run.started else 0.0


def moved(run: Run, state: State, at: Moment) -> Run:
    """The run in its next state, with the times that go with it."""
    check_step(run.id, run.state, state)
    if state == "queued":
        run = replace(run, started=None, ended=None, exit_code=None, stopped_by=None, result=None)
    started = at if state == "running" else run.started
    # Kept where it is known: collecting the work of an interrupted run does not prolong it.
    ended = run.ended or at if state in FINAL else run.ended
    asking = run.asking and state not in FINAL
    return replace(run, state=state, started=started, ended=ended, asking=asking)


def check_step(subject: str, old: State, new: State) -> None:
    if new not in NEXT[old]:
        cause = f"a run that is {old} cannot become {new}"
        raise AgsError("change the state of a run", subject=subject, cause=cause)


def checked_name(name: str) -> str:
    """Names become folders, branches and arguments, so they are plain."""
    if not re.fullmatch(NAME, name):
        shown = repr(name if len(name) <= 60 else f"{name[:59]}…")
        raise Unfit(
            "use this name",
            cause=f"{shown} is not a name for a run",
            hint="up to 48 of a-z, 0-9 and -, starting with a letter or digit: fix-login",
        )
    return name


def new_id(at: Moment) -> str:
    """In the order of creation, as far as the clock goes."""
    return f"{max(0, int(at.wall * 1000)) & 0xFFFF_FFFF_FFFF:012x}{os.urandom(4).hex()}"
