"""A server that says what it is told to: one function for each connection, in order."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

TOKEN = "canary-" + "t0k3n" * 8
Answers = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Scripted:
    port: int
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def scripted(
    *answers: Answers | bytes, last: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[Scripted]:
    """With `last`, the last answer is given again and again; else nobody listens any more."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        made = Scripted(listening.getsockname()[1])
        serving = threading.Thread(
            target=_serve, args=(listening, made, list(answers), last, tls), daemon=True
        )
        serving.start()
        yield made
    serving.join(0.1 if last else 60)


def _serve(
    listening: socket.socket,
    made: Scripted,
    answers: Sequence[Answers | bytes],
    last: bool,
    tls: ssl.SSLContext | None,
) -> None:
    at = 0
    with contextlib.suppress(OSError):
        while at < len(answers):
            connection, _ = listening.accept()
            with contextlib.suppress(OSError), contextlib.ExitStack() as held:
                connection.settimeout(60)
                held.callback(connection.close)
                if tls is not None:
                    connection = held.enter_context(tls.wrap_socket(connection, server_side=True))
                made.asked.append(_request(connection))
                answer = answers[at]
                if isinstance(answer, bytes):
                    connection.sendall(answer)
                else:
                    answer(connection)
            at += not (last and at == len(answers) - 1)
    listening.close()


def _request(connection: socket.socket) -> Asked:
    data = b""
    while b"\r\n\r\n" not in data:
        data += (piece := connection.recv(65536))
        if not piece:
            raise OSError("nothing was asked")
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    return Asked(method, target, headers, body)


def reply(
    body: object = None, status: int = 200, media: str = "application/json", extra: str = ""
) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: {media}\r\n"
        f"Content-Length: {len(data)}\r\n{extra}\r\n"
    )
    return head.encode() + data


def problem(status: int, **fields: object) -> bytes:
    return reply(
        {"type": "about:blank", "status": status, **fields}, status, "application/problem+json"
    )


def stream(*pieces: bytes) -> bytes:
    """Events, until the connection ends."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"
    return head + b"".join(pieces)


def sent(seq: int, **fields: object) -> bytes:
    event = {"seq": seq, "ts": 1.5, "kind": "output", **fields}
    return f"id: {seq}\nevent: output\ndata: {json.dumps(event)}\n\n".encode()


END = b'event: end\ndata: {"state": "done"}\n\n'
