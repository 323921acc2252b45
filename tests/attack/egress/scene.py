"""Who is attacked, from where, and what was seen of it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.egress import behind
from tests.egress.behind import Outcome, Running
from tests.internet import Internet, Origin
from tests.internet.world import NAMESERVER

ATTACKER = Path(__file__).with_name("attacker.py").read_text()
BOTH = pytest.mark.parametrize("scene", ["root", "user"], indirect=True)
"""As whoever owns the workspace: root, without any right, or an ordinary user."""

ALLOW = "domains: [api.example, plain.example]\n"
OWN = "11.0.0.2"
"""The address of the machine that the fence is on."""


class Sites:
    """`api` and `plain` are what policies allow; nobody ever allows `other`, at any port."""

    def __init__(self, world: Internet) -> None:
        self.api = world.origin("api.example", tls=True)
        self.plain = world.origin("plain.example")
        self.other = world.origin("other.example", tls=True)
        self.other_plain = world.origin("other.example")

    @property
    def others(self) -> tuple[Origin, ...]:
        return self.other, self.other_plain


@dataclass(frozen=True)
class Scene:
    world: Internet
    sites: Sites
    workspace: Path
    bwrap: str
    mutation: str | None

    @property
    def _given(self) -> dict[str, Any]:
        return {"workspace": self.workspace, "bwrap": self.bwrap, "mutation": self.mutation}

    def attack(self, script: str, policy: str | Path = ALLOW, **told: Any) -> Outcome:
        """A script for the Python inside, with all of `attacker.py`, run to its end."""
        ended = behind.behind(self.world, _python(script), policy, **self._given, **told)
        assert "Traceback" not in ended.err, ended.err
        return ended

    def attacking(
        self, script: str, policy: str | Path = ALLOW, **told: Any
    ) -> AbstractContextManager[Running]:
        return behind.started(self.world, _python(script), policy, **self._given, **told)

    def run(self, *command: str, policy: str | Path = ALLOW, **told: Any) -> Outcome:
        return behind.behind(self.world, command, policy, **self._given, **told)

    @property
    def reached(self) -> set[tuple[str, str, int]]:
        """Whom anything at all was sent to over the cable, but for the resolver."""
        return {
            (packet.protocol, packet.target, packet.port)
            for packet in self.world.packets
            if (packet.target, packet.port) != (NAMESERVER, 53)
        }

    @property
    def asked(self) -> set[str]:
        """The names of all DNS queries that left."""
        return {query.name for query in self.world.queries}

    def only(self, *origins: Origin) -> bool:
        """Whether nobody but these was looked up or sent anything."""
        wanted = {("tcp", origin.address, origin.port) for origin in origins}
        return self.reached == wanted and self.asked <= {origin.name for origin in origins}


def _python(script: str) -> tuple[str, ...]:
    return "/usr/bin/python3", "-I", "-c", f"{ATTACKER}\n{script}"


def told(outcome: Outcome) -> dict[str, Any]:
    """All that the script has told."""
    found: dict[str, Any] = {}
    for line in outcome.out.splitlines():
        found |= json.loads(line)
    return found


def paths(origin: Origin) -> list[str]:
    return [seen.path for seen in origin.requests]


@contextlib.contextmanager
def listening(world: Internet, address: str, port: int) -> Iterator[list[bytes]]:
    """A service on the machine that the fence is on: what came to it, one entry per visit."""
    came: list[bytes] = []
    with world.enter() as there:
        server = there.open(socket.AF_INET6 if ":" in address else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen()
    thread = threading.Thread(target=_serve, args=(server, came), daemon=True)
    thread.start()
    try:
        yield came
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


def _serve(server: socket.socket, came: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        while True:
            talk, _ = server.accept()
            talk.settimeout(30)
            at = len(came)
            came.append(b"")
            with talk, contextlib.suppress(OSError):
                came[at] = talk.recv(1 << 16)
                talk.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhost")
