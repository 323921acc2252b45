"""Readers of streams: quick ones, slow ones, and ones that never read."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.server.conftest import Server


@dataclass(frozen=True)
class Message:
    id: str
    event: str
    data: bytes

    def json(self) -> Any:
        return json.loads(self.data)


class Listener:
    """One open stream. Comments are counted, not given."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.response = connection.getresponse()
        self.beats = 0

    @property
    def status(self) -> int:
        return self.response.status

    def __iter__(self) -> Iterator[Message]:
        """Until the stream ends."""
        while (message := self.next()) is not None:
            yield message

    def next(self) -> Message | None:
        fields: dict[str, bytes] = {}
        while line := self.response.readline():
            if line == b"\n":
                if "data" in fields:
                    id_, event = (fields.get(name, b"").decode() for name in ("id", "event"))
                    return Message(id_, event, fields["data"])
                fields = {}
                continue
            name, _, value = line.rstrip(b"\n").partition(b":")
            self.beats += not name
            fields[name.decode()] = value.removeprefix(b" ")
        return None

    def until(self, found: Callable[[Message], bool]) -> Message:
        for message in self:
            if found(message):
                return message
        raise AssertionError("the stream ended before")


@contextlib.contextmanager
def listening(
    server: Server, path: str, headers: Mapping[str, str] | None = None, *, token: str = ""
) -> Iterator[Listener]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    given = {"Authorization": f"Bearer {token or server.token}", **(headers or {})}
    try:
        connection.request("GET", f"/api/v1{path}", headers=given)
        listener = Listener(connection)
        try:
            yield listener
        finally:
            # A response that is not read to its end keeps the socket open.
            listener.response.close()
    finally:
        connection.close()


@contextlib.contextmanager
def deaf(server: Server, path: str) -> Iterator[socket.socket]:
    """One that asks and then never reads."""
    made = socket.socket()
    # As little as there can be, so that what waits has to wait in the server.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with contextlib.closing(made):
        made.connect(("127.0.0.1", server.port))
        head = (
            f"GET /api/v1{path} HTTP/1.1\r\nHost: {server.host}\r\n"
            f"Authorization: Bearer {server.token}\r\n\r\n"
        )
        made.sendall(head.encode())
        yield made


def memory(pid: int) -> int:
    """Bytes of the process, resident; without files, which count as soon as they are touched."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nRssAnon:")[2].split()[0]) * 1024


def eventually(what: str, true: Callable[[], bool], patience: float = 90.0) -> None:
    until = time.monotonic() + patience
    while not true():
        assert time.monotonic() < until, f"never came true: {what}"
        time.sleep(0.02)
