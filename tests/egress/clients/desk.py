"""Where a client works: a workspace behind the fence, and whom it may reach from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bootstrap.packages import find_program
from tests.egress.behind import Outcome, behind
from tests.internet import Internet

POLICY = """\
domains:
  - opaque.example
  - plain.example
  - {host: inner.example, methods: [GET, HEAD, POST, PUT]}
  - {host: packages.example, paths: [/*]}
  - {host: git.example, methods: [GET, POST]}
  - clear-git.example
  - {host: ssh.example, ports: [22]}
  - {host: db.example, ports: [5432]}
"""
"""What has a method or a path rule is ended by the fence; the other TLS passes unseen."""


class Sites:
    """Nobody allows `refused`, by whichever protocol."""

    def __init__(self, world: Internet) -> None:
        self.opaque = world.origin("opaque.example", tls=True)
        self.inner = world.origin("inner.example", tls=True)
        self.plain = world.origin("plain.example")
        self.refused = world.origin("refused.example", tls=True)
        self.refused_plain = world.origin("refused.example")

    @property
    def allowed(self) -> dict[str, str]:
        """An address of each kind, and whose greeting is there."""
        return {site.url("/hello"): site.name for site in (self.opaque, self.inner, self.plain)}

    @property
    def forbidden(self) -> list[str]:
        return [self.refused.url("/taken"), self.refused_plain.url("/taken")]


@dataclass(frozen=True)
class Desk:
    world: Internet
    sites: Sites
    workspace: Path

    def run(
        self, *command: str, environment: Mapping[str, str] | None = None, policy: str = POLICY
    ) -> Outcome:
        """To its end, with no word to it about any proxy."""
        return behind(
            self.world, command, policy, workspace=self.workspace, environment=environment
        )

    def shell(self, script: str, environment: Mapping[str, str] | None = None) -> Outcome:
        return self.run("/bin/bash", "-euc", script, environment=environment)

    @property
    def untouched(self) -> bool:
        """Whether nothing went to the refused host, nor a question about it to anybody."""
        refused = (self.sites.refused, self.sites.refused_plain)
        asked = {query.name for query in self.world.queries}
        targets = {packet.target for packet in self.world.packets}
        return (
            not any(site.visits for site in refused)
            and self.sites.refused.address not in targets
            and not any("refused" in name for name in asked)
        )


def needs(*programs: str) -> None:
    """The sandbox has what is under /usr, and nothing of what the tests run in."""
    for program in programs:
        if not find_program(program):
            pytest.skip(f"there is no {program} on this machine")
