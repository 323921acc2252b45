"""What an agent is to AGS: a program, what it is given beforehand, and how to read what it prints.

All of it is values and pure functions: who installs, mounts, writes and runs is elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from ags.events import Kind
from ags.frozen import frozen
from ags.hooks import managed
from ags.model import KIB, MIB

OWN: tuple[Kind, ...] = ("message", "thinking", "tool_call", "tool_result", "output", "usage")
"""What an agent can say. The other kinds are AGS's own word, which no agent speaks."""

AGENT_DIR = "/ags/agent"
"""Where the folder that npm installed into is, inside."""
PROMPT_FILE = "/etc/ags/prompt.md"
"""Inside, where the agent is told where it is."""

LATEST = "latest"
"""In place of a conversation's id: the newest one of this folder."""

CPU = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, "x64")
"""As npm's packages name it."""


@frozen
class Program:
    """What npm installs, and what in there is run."""

    package: str
    path: str
    """Of the executable, below the folder that was installed into."""
    node: bool = False
    """Whether it needs Node to run."""
    scripts: bool = False
    """Whether npm must run the package's lifecycle scripts for it to work at all."""

    @property
    def inside(self) -> str:
        return f"{AGENT_DIR}/{self.path}"


@frozen
class Wish:
    """What is wanted of one start of an agent."""

    goal: str = ""
    model: str = ""
    session: str = ""
    """The conversation to go on with: its id, or LATEST."""
    defaults: bool = False
    yolo: bool = False
    arguments: tuple[str, ...] = ()
    """The agent's own, as the person wrote them."""
    trusted: bool = False
    """Whether the person approved the settings, hooks and servers that the repository brings."""

    @property
    def unasked(self) -> bool:
        """Whether it works without asking the person before each step."""
        return self.defaults or self.yolo


@frozen
class Facts:
    """What an agent is prepared with."""

    home: str
    cwd: str
    keys: Mapping[str, str]
    """Variables for its keys, each with what stands in for the key inside."""
    prompt: str = ""
    """What it is told of where it is, by `prompt.text`."""
    client: str = ""
    trusted: bool = False
    python: str = ""
    """The one inside that asks the hooks, by `hooks.managed.interpreter`; empty: nobody does."""
    logins: frozenset[str] = frozenset()
    """Agents whose log-in stands in the home."""


@frozen
class HomeFile:
    """Something that must stand in a file of its home before it starts. `merge` puts it there."""

    path: str
    """Below the home."""
    values: Mapping[str, object] | None = None
    """For a JSON file, to be merged into what it has."""
    text: str = ""
    """For any other file, all of it."""
    gently: bool = False
    """Whether what is there already stays."""
    fixed: bool = False
    """Whether it is to be mounted read-only then: what it says of hooks must stay."""


@frozen
class EtcFile:
    """A file that the sandbox has, in /etc or /ags, and that nobody inside can change."""

    path: str
    text: str


@frozen
class Bring:
    """Something of the person's own settings that comes along, as a copy."""

    path: str
    """Below the person's home: a file or a folder."""
    keys: tuple[str, ...] = ()
    """Of a JSON or TOML file, only these; none: all of it."""


@frozen
class Said:
    """One thing that a line of an agent's output means, ready to become an event."""

    kind: Kind
    fields: Mapping[str, object]


@frozen
class Heard:
    """All that one line means. Nothing said: it is of no interest to a reader."""

    said: tuple[Said, ...] = ()
    session: str = ""
    """The id of its conversation, where the line tells."""
    failure: str | None = None
    """Empty: it went well, says the agent. A text: it failed, and why. The last one counts."""
    answer: str = ""
    """What it says its final answer is; where it never says so, that is its last message."""


class Agent(Protocol):
    """One short file each. Pure: what runs it is elsewhere."""

    name: str
    program: Program | None
    """None for what every sandbox has."""
    longest: int
    """Bytes of a line that are read as one. What is longer comes in pieces, as plain output."""
    login: tuple[str, ...]
    """Arguments that begin a log-in; none: it asks for one where it is started."""
    keeps: tuple[str, ...]
    """Paths in its home that outlive a run: log-in, history, conversations."""
    brings: tuple[Bring, ...]
    wants: tuple[str, ...]
    """Files that it would write into such a folder, and fails if it cannot; empty ones do."""
    settings: tuple[str, ...]
    """Paths in a repository from which it takes settings, hooks, plugins or servers, in every
    folder from the repository's first to the one it works in. No option of its own keeps it from
    all of them, so until the person approved what is there, something read-only stands over each:
    over a file `{}`, over a folder one with just an empty `.gitignore`, which opencode would write
    there and fail."""

    def headless(self, wish: Wish) -> tuple[str, ...]:
        """The command that works on a goal without a person and then ends."""

    def interactive(self, wish: Wish) -> tuple[str, ...]:
        """The command for a person at a terminal."""

    def environment(self, facts: Facts) -> Mapping[str, str]:
        """Variables of its own, beside those that hold its keys."""

    def files(self, facts: Facts) -> tuple[HomeFile, ...]:
        """What is put into its home: the answers to what it would ask at its first start."""

    def etc(self, facts: Facts) -> tuple[EtcFile, ...]:
        """Files it cannot change: what it is told, and that its tool calls pass the hooks."""

    def parse(self, line: str) -> Heard:
        """One line of what `headless` prints. Whatever it holds, never an exception."""


class Plain:
    """What an agent without a home of its own needs of all this: nothing."""

    program: Program | None = None
    longest = 8 * KIB
    login: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    brings: tuple[Bring, ...] = ()
    settings: tuple[str, ...] = ()
    wants: tuple[str, ...] = ()

    def environment(self, facts: Facts) -> Mapping[str, str]:
        return {}

    def files(self, facts: Facts) -> tuple[HomeFile, ...]:
        return ()

    def etc(self, facts: Facts) -> tuple[EtcFile, ...]:
        return ()


LONGEST = MIB
"""Of a line of JSON: what a tool printed may be in it."""
MCP_LOGINS = ".mcp-auth"
"""In every agent's home: the log-ins of MCP servers."""


def output(line: str) -> Heard:
    """A line that means nothing more than its text."""
    return Heard((Said("output", {"text": line}),))


def forwarder() -> EtcFile:
    """What asks the hooks, for agents that call a command to do so."""
    return EtcFile(str(managed.FORWARD), managed.forwarder().decode())


def told_where(facts: Facts) -> EtcFile:
    """What the agent is told. There even if it is empty, for commands that name it."""
    return EtcFile(PROMPT_FILE, facts.prompt)
