"""What the hooks speak about: one call of a tool, where it would happen, and what is said to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ags.frozen import frozen

Kind = Literal["bash", "write", "read", "other"]
Moment = Literal["before", "after", "stop"]


@frozen
class ToolCall:
    """What an agent wants to do, in one form for all agents. All of it is the agent's word."""

    agent: str
    tool: str
    """By the agent's own name for it."""
    kind: Kind
    command: str = ""
    """For `bash`: what a shell would be given."""
    paths: tuple[str, ...] = ()
    cwd: str = ""
    session: str = ""
    raw: Mapping[str, object] | None = None
    """The tool's input as it came."""


@frozen
class Ground:
    """The sandbox as an agent sees it: paths are those inside."""

    workspace: str
    home: str
    scratch: tuple[str, ...] = ("/tmp", "/var/tmp", "/dev/shm")
    """What is thrown away at the end: anything below may be deleted."""
    writable: tuple[str, ...] = ()
    """Further folders of the person's, given to this run for writing."""
    readable: tuple[str, ...] = ()
    """Further folders and files of the person's, given to this run for reading."""

    @property
    def mounted(self) -> tuple[str, ...]:
        return (self.workspace, *self.writable, *self.readable)


@frozen
class Verdict:
    """Empty `reason`: nothing against it."""

    allowed: bool
    reason: str = ""
    by: str = ""
    """Who says so: `guard`, or the name of a hook."""
    asks: bool = False
    """A no only until the person was asked."""


ALLOWED = Verdict(True)
