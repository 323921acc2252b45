"""What requests may say and what answers hold, for FastAPI to check and OpenAPI to tell.

Requests are taken strictly: no value is turned into another, and a name that is not known is an
error. What comes from agents may be no text at all: whoever fills an answer calls `clean`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ags.agents import AGENTS
from ags.backends import BACKENDS
from ags.engine import MOST_GOAL
from ags.runs import checked_name
from ags.server.schema_projects import Apart, Url
from ags.text import utf8
from ags.wishes import MOST_ATTEMPTS

MOST_ITEMS, USUAL_ITEMS = 500, 100
MOST_OFFSET = 10_000_000
MOST_NUMBER = 1 << 53
"""Of a line: no larger number comes through JSON unharmed."""
MOST_WORD, MOST_ADDRESS = 200, 4096
MOST_RULES, MOST_PORTS = 100, 32
LONGEST_GRANT = 366 * 86400.0
HIGHEST_PORT = 65535
NAME: dict[str, Any] = {"pattern": "^[a-z0-9][a-z0-9-]{0,47}$"}

State: TypeAlias = Literal[
    "queued", "preparing", "running", "collecting", "done", "failed", "stopped", "interrupted"
]
Mode: TypeAlias = Literal["separate", "inplace"]
Order: TypeAlias = Literal["newest", "oldest", "name"]
Side: TypeAlias = Literal["workspace", "base", "result"]
Verdict: TypeAlias = Literal["once", "for", "always", "deny"]
How: TypeAlias = Literal["merge", "squash", "patch", "push"]
Outcome: TypeAlias = Literal[
    "merge", "squash", "patch", "fast-forward", "push", "in place", "nothing"
]
Step: TypeAlias = Literal["stop", "tell", "restart", "apply", "undo", "remove"]


def clean(value: object) -> Any:  # noqa: ANN401
    """The same with nothing in it that UTF-8 has no bytes for."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, Mapping):
        return {utf8(str(name)): clean(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [clean(each) for each in value]
    return value


def _checked_text(text: str) -> str:
    if "\0" in text:
        raise ValueError("it holds a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("it holds half a character")
    return text


def _checked_goal(text: str) -> str:
    if len(os.fsencode(text)) > MOST_GOAL:
        raise ValueError(f"it is over {MOST_GOAL} bytes long")
    return text


def _one_of(known: Collection[str]) -> AfterValidator:
    def check(text: str) -> str:
        if text not in known:
            raise ValueError(f"it is none of {', '.join(known)}")
        return text

    return AfterValidator(check)


Text: TypeAlias = Annotated[str, AfterValidator(_checked_text)]
Word: TypeAlias = Annotated[Text, Field(min_length=1, max_length=MOST_WORD)]
Address: TypeAlias = Annotated[Text, Field(min_length=1, max_length=MOST_ADDRESS)]
Goal: TypeAlias = Annotated[Text, AfterValidator(_checked_goal), Field(max_length=MOST_GOAL)]
Limit: TypeAlias = Annotated[Text, Field(min_length=1, max_length=40)]
# Refused in our own words, which come with a hint; the document has the pattern for programs.
Name: TypeAlias = Annotated[Text, AfterValidator(checked_name), Field(json_schema_extra=NAME)]
Agent: TypeAlias = Annotated[str, _one_of(AGENTS), Field(json_schema_extra={"enum": [*AGENTS]})]
Backend: TypeAlias = Annotated[
    str, _one_of(BACKENDS), Field(json_schema_extra={"enum": [*BACKENDS]})
]
Port: TypeAlias = Annotated[int, Field(ge=1, le=HIGHEST_PORT)]

# In addresses. What does not match is nobody's name: 404 by who looks for it, not 422.
RunName: TypeAlias = Annotated[str, Path(description="A run's name or id", json_schema_extra=NAME)]
AskId: TypeAlias = Annotated[
    str, Path(description="As the run tells it", json_schema_extra={"pattern": "^[a-z0-9]{1,20}$"})
]
ProjectId: TypeAlias = Annotated[
    str,
    Path(
        description="A project's id",
        json_schema_extra={"pattern": "^project-[0-9a-f]{20}$"},
    ),
]
PageSize: TypeAlias = Annotated[int, Query(ge=1, le=MOST_ITEMS)]
Offset: TypeAlias = Annotated[int, Query(ge=0, le=MOST_OFFSET)]
Number: TypeAlias = Annotated[int, Query(ge=0, le=MOST_NUMBER)]
Lines: TypeAlias = Annotated[int, Query(ge=1, le=5000)]
Force: TypeAlias = Annotated[bool, Query(description="Even if work is lost that is nowhere else")]


# Requests


class Asked(BaseModel):
    """What somebody wants."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Nothing(Asked):
    """There is nothing to choose."""


class WantedLimits(Asked):
    """As the flags of `ags start` take them. What is not there is as the settings say."""

    memory: Annotated[Limit | None, Field(examples=["2G", "50%", "none"])] = None
    cpus: Annotated[Limit | None, Field(examples=["1.5", "none"])] = None
    pids: Annotated[Limit | None, Field(examples=["4096", "none"])] = None
    timeout: Annotated[Limit | None, Field(examples=["90s", "10m", "none"])] = None


class NewRun(Asked):
    """One goal for one agent, or for several attempts at it."""

    project: Address
    """The id of a project, or the absolute path of a repository on the server."""
    goal: Goal
    agent: Agent = "claude"
    name: Name | None = None
    """Without one, it is made from the words of the goal."""
    base: Annotated[Text, Field(min_length=1, max_length=1000)] = "HEAD"
    client: Word | None = None
    model: Word | None = None
    backend: Backend | None = None
    limits: WantedLimits = WantedLimits()
    network: bool = True
    allow: Annotated[list[Word], Field(max_length=MOST_RULES)] = []
    """Domains that it may reach as well, such as `api.example.com`."""
    ask: bool | None = None
    publish: Annotated[list[Port], Field(max_length=MOST_PORTS)] = []
    attempts: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)] = 1


class Stop(Asked):
    now: bool = False
    """Do not give the agent time to end by itself."""


class Tell(Asked):
    text: Goal


class Apply(Asked):
    how: How = "merge"
    into: Address | None = None
    """A branch: the person's, or with `push` the remote one's."""
    expected: Word | None = None
    """The commit that was looked at: another one is not applied."""
    remote: Word | None = None
    """With `push`; without one, `origin`."""

    @model_validator(mode="after")
    def _goes_together(self) -> Apply:
        if self.remote is not None and self.how != "push":
            raise ValueError("remote goes with push")
        return self


class Answer(Asked):
    """What the person says to what a run asked for."""

    verdict: Verdict
    seconds: Annotated[float, Field(gt=0, le=LONGEST_GRANT, allow_inf_nan=False)] | None = None
    uses: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _goes_together(self) -> Answer:
        if (self.verdict == "for") != (self.seconds is not None):
            raise ValueError("seconds go with the verdict `for`, and it needs them")
        if self.uses is not None and self.verdict != "for":
            raise ValueError("uses go with the verdict `for`")
        return self


class Publish(Asked):
    port: Port
    host_port: Annotated[int, Field(ge=0, le=HIGHEST_PORT)] = 0
    """On this machine; 0: the same, or any if that is taken."""


class NewProject(Asked):
    url: Annotated[Url, AfterValidator(_checked_text), Field(max_length=MOST_ADDRESS)]
    client: Word | None = None
    link: bool = False  # a repository on the server's machine, used as it is


# Answers


class Listed(BaseModel):
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


class Row(Listed):
    weakenings: list[str]
    files: int | None
    insertions: int | None
    deletions: int | None
    applied: bool


class Rows(BaseModel):
    items: list[Row]
    total: int


class Limits(BaseModel):
    memory: int | None
    cpus: float | None
    pids: int | None
    timeout: float | None


class Weakening(BaseModel):
    name: str
    text: str


class Result(BaseModel):
    commit: str
    files: int
    insertions: int
    deletions: int


class Done(BaseModel):
    """What an apply or undo did; all but the outcome is null if that is `nothing`."""

    outcome: Outcome
    target: str | None
    before: str | None
    after: str | None
    source: str | None


class Applied(BaseModel):
    how: Outcome
    target: str
    before: str | None
    after: str | None
    source: str | None
    at: float
    undone: float | None


class Pushed(BaseModel):
    remote: str
    branch: str
    commit: str
    at: float


class Turn(BaseModel):
    turn: int
    commit: str
    said: str | None


class Run(Listed):
    model: str
    base: str | None
    workspace: str | None
    said: str | None
    turn: int
    turns: list[Turn]
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
    """The names of all attempts at this goal that there are, its own included."""
    terminal: bool
    network: bool
    allow: list[str]
    ask: bool | None
    publish: list[int]
    left: list[Step]
    """What can be done with it now."""


class Risk(BaseModel):
    path: str
    line: int | None
    sort: str
    reason: str


class Line(BaseModel):
    kind: Literal["context", "added", "removed"]
    text: str
    no_newline: bool


class Hunk(BaseModel):
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    heading: str
    lines: list[Line]


class FileChange(BaseModel):
    path: str
    path_base64: str | None
    """The bytes of the path, where it is not text."""
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


class Stat(BaseModel):
    files: int
    additions: int
    deletions: int
    binaries: int
    left_out: int
    kinds: dict[str, int]


class Diff(BaseModel):
    run: str
    old: str
    new: str
    files: list[FileChange]
    stat: Stat
    risks: list[Risk]


class Entry(BaseModel):
    name: str
    """To be shown: bytes that are no text are written out."""
    path: str
    """The same, from the top."""
    address: str
    """The exact path, percent-encoded: to be put behind `?path=` as it is."""
    kind: Literal["file", "folder", "link", "submodule", "other"]
    size: int | None


class Folder(BaseModel):
    path: str
    kind: Literal["folder"]
    entries: list[Entry]
    truncated: bool
    """Whether there are more entries than these."""


class File(BaseModel):
    path: str
    kind: Literal["file"]
    size: int
    binary: bool
    text: str | None
    """Null where it is binary, or too large to be shown."""
    truncated: bool


class Event(BaseModel):
    """And whatever goes with its kind."""

    model_config = ConfigDict(extra="allow")
    seq: int
    ts: float
    kind: str


class Events(BaseModel):
    items: list[Event]
    last: int
    """How far this answer looked: as `after`, it gives what comes next."""


class Decision(BaseModel):
    """A line of egress.jsonl."""

    model_config = ConfigDict(extra="allow")
    number: int


class Decisions(BaseModel):
    items: list[Decision]
    last: int


class Ask(BaseModel):
    """And whatever else the run tells of it."""

    model_config = ConfigDict(extra="allow")
    id: str
    run: str


class Asks(BaseModel):
    items: list[Ask]


class Published(BaseModel):
    port: int
    host_port: int
    url: str


class Ports(BaseModel):
    items: list[Published]


class Project(BaseModel):
    id: str
    name: str
    url: str
    client: str
    linked: bool
    state: Literal["cloning", "ready", "failed", "pulling"]
    progress: int | None
    stage: str
    error: str
    head: str
    added: float
    runs: int
    apart: Apart


class Projects(BaseModel):
    items: list[Project]
    total: int


class Branch(BaseModel):
    name: str
    commit: str
    title: str
    when: float
    run: str | None


class Branches(BaseModel):
    items: list[Branch]
