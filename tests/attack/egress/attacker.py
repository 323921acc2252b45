"""What an attacker has at hand inside: its text goes before every script that runs there.

Whatever fails is no matter here. Attacks are judged at their victims.
"""

from __future__ import annotations

import contextlib
import json
import os  # noqa: F401  (for the scripts)
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator

PATIENCE = 60.0
GATEWAY, PROXY = "198.18.0.1", 3128
FAILURES = (OSError, ValueError, TypeError, EOFError)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    with contextlib.suppress(*FAILURES):
        yield


def dial(host: str | bytes, port: int) -> socket.socket:
    # Bytes go to the resolver as they are, whatever is said of its types.
    return socket.create_connection((host, port), PATIENCE)  # type: ignore[arg-type]


def hear(talk: socket.socket, until: bytes = b"") -> bytes:
    """All that comes before the end, or before long."""
    heard = b""
    with quietly():
        while (piece := talk.recv(1 << 16)) and not (until and until in heard + piece):
            heard += piece
        heard += piece
    return heard


def say(talk: socket.socket, *pieces: bytes, pause: float = 0.02, until: bytes = b"") -> bytes:
    """Each piece in a segment of its own; gives back what is answered."""
    talk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with quietly():
        for piece in pieces:
            talk.sendall(piece)
            time.sleep(pause if len(pieces) > 1 else 0)
    return hear(talk, until)


def connected(host: str, port: int) -> socket.socket:
    """Through the proxy, by CONNECT; the name goes as it is, be it UTF-8 or worse."""
    talk = dial(GATEWAY, PROXY)
    where = f"{host}:{port}".encode("utf-8", "surrogateescape")
    talk.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (where, where))
    answer = b""
    while b"\r\n\r\n" not in answer and (piece := talk.recv(1)):
        answer += piece
    if not answer.startswith(b"HTTP/1.1 200"):
        raise OSError(answer.decode("latin-1"))
    return talk


def socksed(host: str | bytes, port: int) -> socket.socket:
    """Through the proxy, by SOCKS: a name of any bytes, or an address as its bytes."""
    talk = dial(GATEWAY, PROXY)
    talk.sendall(b"\5\1\0")
    talk.recv(2)
    if isinstance(host, bytes):
        where = bytes((4 if len(host) == 16 else 1,)) + host
    else:
        name = host.encode("utf-8", "surrogateescape")
        where = b"\3" + bytes((len(name),)) + name
    talk.sendall(b"\5\1\0" + where + struct.pack(">H", port))
    answer = talk.recv(10)
    if answer[1:2] != b"\0":
        raise OSError(f"socks {answer!r}")
    return talk


def get(path: str = "/", host: str = "", *lines: str, method: str = "GET") -> bytes:
    head = (f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", "")
    return "\r\n".join(head).encode("utf-8", "surrogateescape")


LAST = "Connection: close"


def trusting() -> ssl.SSLContext:
    """As careless as can be: not even the fence's own certificate matters to an attacker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def secured(talk: socket.socket, name: str | None) -> ssl.SSLSocket:
    return trusting().wrap_socket(talk, server_hostname=name)


def fetch(talk: socket.socket, name: str | None, request: bytes) -> bytes:
    """One request over TLS with this name in its hello."""
    with quietly(), secured(talk, name) as inner:
        return say(inner, request)
    return b""


def hello(name: str | None) -> bytes:
    """A real one."""
    out = ssl.MemoryBIO()
    made = trusting().wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        made.do_handshake()
    return out.read()


def extended(raw: bytes, kind: int, value: bytes) -> bytes:
    """A hello with one more extension."""
    body = raw[9:]
    at = 34 + 1 + body[34]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    extensions = body[at + 2 :] + struct.pack(">HH", kind, len(value)) + value
    return rewrapped(body[:at] + struct.pack(">H", len(extensions)) + extensions)


def greeting(name: bytes) -> bytes:
    """A hello with any bytes for a name."""
    entry = b"\0" + struct.pack(">H", len(name)) + name
    return extended(hello(None), 0, struct.pack(">H", len(entry)) + entry)


def rewrapped(body: bytes) -> bytes:
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + struct.pack(">H", len(message)) + message


def query(name: str, kind: int, labels: list[bytes] | None = None) -> bytes:
    parts = labels or [part.encode() for part in name.split(".")]
    wire = b"".join(bytes((len(part),)) + part for part in parts) + b"\0"
    return struct.pack(">6H", 7, 256, 1, 0, 0, 0) + wire + struct.pack(">HH", kind, 1)


def ask(message: bytes, server: str = GATEWAY, tcp: bool = False, patience: float = 0.3) -> bytes:
    """A question, to any server; gives back the whole answer."""
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with quietly(), socket.socket(family, 1 if tcp else 2) as talk:
        talk.settimeout(patience)
        talk.connect((server, 53))
        talk.sendall(struct.pack(">H", len(message)) * tcp + message)
        return talk.recv(4096)
    return b""


def tell(**told: object) -> None:
    print(json.dumps(told), flush=True)


def every(attacks: list[Callable[[], object]]) -> None:
    for attack in attacks:
        with quietly():
            attack()
