"""What the API's answers hold. Times are seconds since the epoch."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

State = Literal[
    "queued", "preparing", "running", "collecting", "done", "failed", "stopped", "interrupted"
]
Mode = Literal["separate", "inplace"]
Verdict = Literal["once", "for", "always", "deny"]
How = Literal["merge", "squash", "patch", "push"]
Outcome = Literal["merge", "squash", "patch", "fast-forward", "push", "in place", "nothing"]
Side = Literal["workspace", "base", "result"]


class Summary(TypedDict):
    """What a row of the list and a whole run have in common."""

    id: str
    name: str
    agent: str
    goal: str
    mode: Mode
    client: str
    group: str
    project: str
    project_id: str | None
    branch: str | None
    state: State
    asking: bool
    created: float
    started: float | None
    ended: float | None
    exit_code: int | None
    stopped_by: str | None


class Row(Summary):
    weakenings: list[str]
    files: int | None
    insertions: int | None
    deletions: int | None
    applied: bool
    activity: NotRequired[dict[str, Any]]
    """On the board: cost, tokens, the agent's last words, questions that wait."""


class Rows(TypedDict):
    items: list[Row]
    total: int


class Limits(TypedDict):
    memory: int | None
    cpus: float | None
    pids: int | None
    timeout: float | None


class Weakening(TypedDict):
    name: str
    text: str


class Result(TypedDict):
    commit: str
    files: int
    insertions: int
    deletions: int


class Applied(TypedDict):
    how: Outcome
    target: str
    before: str | None
    after: str | None
    source: str | None
    at: float
    undone: float | None


class Pushed(TypedDict):
    remote: str
    branch: str
    commit: str
    at: float


class Run(Summary):
    model: str
    base: str | None
    workspace: str | None
    said: str | None
    turn: int
    answer: str
    session: str
    limits: Limits
    limited_by: str | None
    weakenings: list[Weakening]
    notes: list[str]
    result: Result | None
    applied: list[Applied]
    pushed: list[Pushed]
    attempts: list[str]
    terminal: bool
    network: bool
    allow: list[str]
    ask: bool | None
    publish: list[int]
    left: list[str]


class Risk(TypedDict):
    path: str
    line: int | None
    sort: str
    reason: str


class Line(TypedDict):
    kind: Literal["context", "added", "removed"]
    text: str
    no_newline: bool


class Hunk(TypedDict):
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    heading: str
    lines: list[Line]


class FileChange(TypedDict):
    path: str
    path_base64: str | None
    old_path: str | None
    old_path_base64: str | None
    kind: Literal[
        "added", "deleted", "modified", "renamed", "copied", "type-changed", "mode-changed"
    ]
    old_mode: str
    new_mode: str
    old_id: str
    new_id: str
    old_size: int | None
    new_size: int | None
    binary: bool
    additions: int
    deletions: int
    left_out: str
    hunks: list[Hunk]


class Stat(TypedDict):
    files: int
    additions: int
    deletions: int
    binaries: int
    left_out: int
    kinds: dict[str, int]


class Diff(TypedDict):
    run: str
    old: str
    new: str
    files: list[FileChange]
    stat: Stat
    risks: list[Risk]


class Done(TypedDict):
    """What an apply or undo did; all but the outcome is null if that is `nothing`."""

    outcome: Outcome
    target: str | None
    before: str | None
    after: str | None
    source: str | None


class Entry(TypedDict):
    name: str
    kind: str
    size: int | None


class File(TypedDict):
    """A file, or a folder with its entries."""

    path: str
    kind: Literal["file", "folder"]
    truncated: bool
    entries: NotRequired[list[Entry] | None]
    size: NotRequired[int | None]
    binary: NotRequired[bool | None]
    text: NotRequired[str | None]


class Event(TypedDict):
    """And whatever goes with its kind."""

    seq: int
    ts: float
    kind: str


class Events(TypedDict):
    items: list[Event]
    last: int


class Lines(TypedDict):
    """Of egress.jsonl, each with its number."""

    items: list[dict[str, Any]]


class Ask(TypedDict):
    """And what it is about: scheme, host, port, method, path, rule."""

    id: str
    run: str
    waited: NotRequired[float]
    left: NotRequired[float]


class Asks(TypedDict):
    items: list[Ask]


class Port(TypedDict):
    port: int
    host_port: int
    url: str


class Ports(TypedDict):
    items: list[Port]


class Apart(TypedDict):
    """Branches that the last pull left as they were, though the remote's are others."""

    diverged: list[str]
    gone: list[str]
    more: int


class Project(TypedDict):
    id: str
    name: str
    url: str
    client: str
    linked: NotRequired[bool]
    state: Literal["cloning", "ready", "failed", "pulling"]
    progress: int | None
    stage: str
    error: str
    head: str
    added: float
    runs: int
    apart: NotRequired[Apart]


class Projects(TypedDict):
    items: list[Project]
    total: int


class Branch(TypedDict):
    name: str
    commit: str
    title: str
    when: float
    run: str | None


class Branches(TypedDict):
    items: list[Branch]


class Trouble(TypedDict):
    what: str
    cause: str
    hint: str


class Health(TypedDict):
    status: Literal["ok", "degraded"]
    version: str
    problems: list[Trouble]
    runs: dict[str, int]


class Change(TypedDict):
    """One event of the board, as the stream names it: `snapshot`, `run`, `gone`, …"""

    event: str
    data: Any
