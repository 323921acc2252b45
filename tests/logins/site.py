"""The vendor's hosts in the fake internet: a token endpoint, and a model that wants a token."""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.internet import Internet
from tests.logins.vendor import Vendor

ENDPOINT, MODEL = "platform.claude.com", "api.anthropic.com"


@dataclass
class Site:
    vendor: Vendor
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    """Host, path and status of every request."""
    bearers: list[str] = field(default_factory=list)
    """What the model was sent as a token."""
    bodies: list[bytes] = field(default_factory=list)
    tells_old: bool = False
    """Whether the model echoes every token there was, and not just the one it is sent. To a run
    that shares its log-in one of them may be news, which its fence cannot know and cover."""

    def answer(self, host: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        self.bodies.append(body)
        if (host, path) == (ENDPOINT, "/v1/oauth/token"):
            status, told = self.vendor.renew(headers.get("content-type", ""), body)
            return status, json.dumps(told)
        if host == ENDPOINT:
            return 200, "{}"
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        self.bearers.append(bearer)
        echo = {"echo": bearer, "all": sorted(self.vendor.issued) if self.tells_old else []}
        return (200, json.dumps(echo)) if self.vendor.good(bearer) else (401, '{"error": "no"}')


@contextlib.contextmanager
def serving(world: Internet, vendor: Vendor) -> Iterator[tuple[Site, str]]:
    """The hosts, and the policy that leads to them."""
    site = Site(vendor)
    with contextlib.ExitStack() as stack:
        lines = [f"domains: [{ENDPOINT}, {MODEL}]", "upstreams:"]
        for host in (ENDPOINT, MODEL):
            port = stack.enter_context(_listening(world, site, host))
            lines.append(f"  {host}: {{address: 127.0.0.1, port: {port}, ca: {world.ca_file}}}")
        yield site, "\n".join(lines) + "\n"


@contextlib.contextmanager
def _listening(world: Internet, site: Site, host: str) -> Iterator[int]:
    chain = Path(world.folder, f"{host}.pem")
    chain.write_bytes(world._authority.issue(host))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server = http.server.ThreadingHTTPServer(("", 0), _handler(site, host), False)
    server.daemon_threads = True
    server.socket.close()
    with world.enter() as there:
        plain = there.open()
    plain.bind(("127.0.0.1", 0))
    plain.listen(50)
    port: int = plain.getsockname()[1]
    server.socket = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(site: Site, host: str) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(size)
            if len(body) < size:  # the fence broke it off
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, told = site.answer(host, self.path, headers, body)
            site.asked.append((host, self.path, status))
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Tests read what was asked instead."""

    return Handler
