"""A fence between a client and origins that answer whatever a test has them say."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ags.egress import inject, policy, tls
from ags.egress.audit import Line
from ags.egress.fence import Fence, Terms
from ags.egress.inject import Injection
from ags.egress.policy import Layer, Rule, Upstream
from ags.egress.server import Server
from ags.kernel.netns import Opened

LOCAL = "127.0.0.1"
PATIENCE = 60.0
SECRET = "sk-ant-api03-Zq8vKp3WmXr7TyBn2LsDf5HgJc9RtEaUo4MiVb6NxQwPzYkGhSdFlCj1"
STANDS = inject.placeholder("KEY", SECRET, client="", key=b"k" * 32)
OWN, OTHER, READ_ONLY = "api.example", "other.example", "read.example"
"""Whom the secret is for; another host that is looked into; one that may only be read."""

Said = Callable[[ssl.SSLSocket, bytes], None]
"""What an origin does on a request, of which it gets the head."""


def saying(*pieces: bytes, close: bool = False) -> Said:
    """These bytes, each in a TLS record of its own."""

    def say(talk: ssl.SSLSocket, head: bytes) -> None:
        for piece in pieces:
            talk.sendall(piece)
        if close:
            with contextlib.suppress(OSError):
                talk.unwrap()
            raise EOFError

    return say


def fine(talk: ssl.SSLSocket, head: bytes) -> None:
    talk.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")


@dataclass
class Origin:
    """All hosts at once. `says` is by path; any other is answered as it should be."""

    listener: socket.socket
    context: ssl.SSLContext
    says: dict[str, Said] = field(default_factory=dict)
    heard: list[bytes] = field(default_factory=list)
    """All that came, one entry per connection."""

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                made, _ = self.listener.accept()
                threading.Thread(target=self._talk, args=(made,), daemon=True).start()

    def _talk(self, made: socket.socket) -> None:
        at = len(self.heard)
        self.heard.append(b"")
        with contextlib.suppress(OSError, EOFError, ValueError):
            made.settimeout(600)
            with self.context.wrap_socket(made, server_side=True) as talk:
                while head := self._head(talk, at):
                    path = head.split(b" ")[1].decode()
                    self.says.get(path, fine)(talk, head)
                with contextlib.suppress(OSError):
                    talk.unwrap()

    def _head(self, talk: ssl.SSLSocket, at: int) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (data := talk.recv(1)):
                return b""
            head += data
            self.heard[at] += data
        return head

    def body(self, talk: ssl.SSLSocket, size: int) -> bytes:
        """More of what came, noted as well."""
        got = b""
        while len(got) < size and (data := talk.recv(size - len(got))):
            got += data
            self.heard[-1] += data
        return got


@dataclass
class Stage:
    origin: Origin
    proxy: tuple[str, int]
    context: ssl.SSLContext
    audit: list[Line]

    def reasons(self, lines: int) -> list[str]:
        """Of what was not simply allowed, once so many lines are written: the answer is first."""
        deadline = time.monotonic() + PATIENCE
        while len(self.audit) < lines and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(self.audit) == lines, self.audit
        return [line.reason for line in self.audit if line.reason != "allowed"]

    def connection(self, host: str = OWN) -> http.client.HTTPSConnection:
        made = http.client.HTTPSConnection(*self.proxy, timeout=PATIENCE, context=self.context)
        made.set_tunnel(host, 443)
        return made

    def raw(self, host: str = OWN) -> ssl.SSLSocket:
        made = self.connection(host)
        made.connect()
        assert isinstance(made.sock, ssl.SSLSocket)
        return made.sock

    def ask(
        self, path: str, connection: http.client.HTTPSConnection | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """With the placeholder where it belongs."""
        asking = connection or self.connection()
        asking.request("GET", path, headers={"x-api-key": STANDS.text})
        answer = asking.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def works(self) -> bool:
        """Somebody else is served."""
        status, _, body = self.ask("/fine")
        return (status, body) == (200, b"fine")


def _policy(port: int) -> policy.Policy:
    rules = (
        Rule(OWN, (443,), "tls"),
        Rule(OTHER, (443,), "tls", methods=("GET", "POST")),
        Rule(READ_ONLY, (443,), "tls", methods=("GET",)),
    )
    upstreams = tuple(Upstream(rule.host, LOCAL, port) for rule in rules)
    return policy.merge([Layer("user", rules, upstreams=upstreams)], [(OWN, 443)])


async def _fence(
    authority: tls.Authority, terms: Terms, trusted: Sequence[bytes], audit: list[Line]
) -> tuple[Server, tuple[str, int]]:
    listener = socket.create_server((LOCAL, 0))
    fence = Fence(
        terms,
        authority=authority,
        upstream=tls.upstream(trusted),
        record=audit.append,
        secret={"KEY": SECRET}.get,
    )
    server = Server(fence, Opened((), None, None, listener, (), (), False))
    server.start()
    return server, listener.getsockname()[:2]


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    theirs, ours = tls.Authority("origins"), tls.Authority("run")
    contexts = {host: theirs.leaf(host) for host in (OWN, OTHER, READ_ONLY)}

    def by_name(spoken: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        spoken.context = contexts[name or OWN]

    contexts[OWN].sni_callback = by_name
    listener = socket.create_server((LOCAL, 0))
    origin = Origin(listener, contexts[OWN])
    threading.Thread(target=origin.serve, daemon=True).start()
    injection = Injection("KEY", OWN, 443, "tls", "x-api-key", "{}")
    terms = Terms(_policy(listener.getsockname()[1]), (injection,), (STANDS,))
    audit: list[Line] = []
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    starting = _fence(ours, terms, tls.certificates(theirs.certificate), audit)
    server, proxy = asyncio.run_coroutine_threadsafe(starting, loop).result(PATIENCE)
    context = ssl.create_default_context(cadata=ours.certificate.decode())
    try:
        yield Stage(origin, proxy, context, audit)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
