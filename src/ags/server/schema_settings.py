"""What requests about settings may say and what their answers hold; `schema` has the rest."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from fastapi import Path, Query
from pydantic import BaseModel, Field, model_validator

from ags.server.schema import LONGEST_GRANT, MOST_NUMBER, Asked, Text

MOST_POLICY = 1 << 16
"""Characters. It is read while everybody waits, and a longer one is nothing for a browser."""

MOST_RULE = 2000

Level: TypeAlias = Literal["ok", "warn", "fail", "unknown"]
Whose: TypeAlias = Annotated[
    Text, Query(min_length=1, max_length=200, description="A client; `default`: your own work")
]
LineNumber: TypeAlias = Annotated[
    int, Path(ge=1, le=MOST_NUMBER, description="Of the line, as the run's egress log has it")
]
AgentName: TypeAlias = Annotated[
    str,
    Path(description="An agent's name", json_schema_extra={"pattern": "^[a-z][a-z0-9-]{0,47}$"}),
]


# Requests


class PolicyDraft(Asked):
    """Nothing is written by asking."""

    text: Annotated[Text, Field(max_length=MOST_POLICY)]


class NewPolicy(PolicyDraft):
    revision: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """Of what was read: if the file is another by now, it stays."""


class AllowRefused(Asked):
    """What is past cannot be allowed once. `for` so many seconds is for this run alone."""

    verdict: Literal["for", "always"]
    seconds: Annotated[float, Field(gt=0, le=LONGEST_GRANT, allow_inf_nan=False)] | None = None
    revision: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Of the policy, if that was looked at: if the file is another by now, it stays."""

    @model_validator(mode="after")
    def _goes_together(self) -> AllowRefused:
        if (self.verdict == "for") != (self.seconds is not None):
            raise ValueError("seconds go with the verdict `for`, and it needs them")
        return self


class Withdraw(Asked):
    rule: Annotated[Text, Field(min_length=1, max_length=MOST_RULE)]
    """As it was told when it was added."""
    revision: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Install(Asked):
    version: Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+-]{0,63}$")] | None = None
    """Without one, the newest that has been out for long enough."""


# Answers


class Rule(BaseModel):
    host: str
    ports: list[int]
    """Empty: any."""
    methods: list[str]
    """Empty: any."""
    paths: list[str]
    """Empty: any."""
    layer: str
    """Who says so: built-in, user, client or run."""
    service: str
    """The service that brings it, if one does."""


class PolicyFile(BaseModel):
    client: str
    file: str
    there: bool
    """Whether there is such a file yet. Without it, only what is built in may be reached."""
    text: str
    revision: str


class Unmoved(BaseModel):
    run: str
    cause: str


class SavedPolicy(PolicyFile):
    reloaded: list[str]
    """Runs at work that hold to it from now on."""
    unmoved: list[Unmoved]
    """Those that keep what they had."""
    notes: list[str]


class AddedRule(SavedPolicy):
    rule: str
    """As the file has it now, or as it was granted; empty if nothing was needed."""
    added: bool
    """To the file."""
    until: float | None
    """When it ends, if it was allowed for a time."""


class Mistake(BaseModel):
    line: int | None
    what: str
    hint: str


class Upstream(BaseModel):
    """A name that is dialled at a fixed address."""

    host: str
    address: str
    port: int | None


class Checked(BaseModel):
    ok: bool
    problems: list[Mistake]
    rules: list[Rule]
    deny: list[Rule]
    ask: bool | None
    """Null: it does not say."""
    pending: list[str]
    """Services whose hosts the tools themselves are asked for when a run starts."""
    upstreams: list[Upstream]
    host_services: list[int]
    """Ports of this machine."""


class Reach(BaseModel):
    agent: str
    client: str
    network: bool
    ask: bool
    rules: list[Rule]
    """What may be reached. Denied is left out."""
    deny: list[Rule]
    pending: list[str]
    host_services: list[int]
    """Ports of this machine."""


class KeptSecret(BaseModel):
    """Never its value."""

    name: str
    env: str | None
    """What it is called inside."""
    hosts: list[str]
    """Where it may go."""
    where: str
    """What it comes from, in words."""
    kept: Literal["keyring", "file"] | None
    """Where `ags secret` keeps it. Null: it does not."""
    weakened: bool
    """The value itself is put in the sandbox."""


class Secrets(BaseModel):
    client: str
    items: list[KeptSecret]


class Client(BaseModel):
    name: str
    runs: int
    working: int
    homes: list[str]
    """Agents that keep something for it."""
    secrets: list[str]
    logins: bool
    policy: bool
    """Whether it has one of its own."""
    settings: list[str]
    approved: list[str]


class Clients(BaseModel):
    items: list[Client]


class AgentKey(BaseModel):
    name: str
    where: str


class Failure(BaseModel):
    cause: str
    hint: str


class AgentFacts(BaseModel):
    name: str
    installed: str | None
    newest: str | None
    """Null: not asked for, or not known."""
    problem: str
    """Why what is installed cannot be used."""
    login: str
    keys: list[AgentKey]
    size: int | None
    installing: str | None
    """What is being done; null: nothing."""
    failed: Failure | None
    """How the last installation ended, if not well."""


class AgentsFacts(BaseModel):
    items: list[AgentFacts]


class AgentChoice(BaseModel):
    name: str
    installed: str | None
    ready: bool
    """Whether a run of it can start: it is installed, or every sandbox has it."""


class AgentChoices(BaseModel):
    items: list[AgentChoice]


class Finding(BaseModel):
    section: str
    name: str
    level: Level
    text: str
    hint: str


class Findings(BaseModel):
    ok: bool
    items: list[Finding]
