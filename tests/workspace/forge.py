"""A small forge on loopback: git's own http-backend behind TLS and a password, with a log."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.internet.certificates import Authority

USER, PASSWORD = "ann", "s3cr3t-canary"


@dataclass
class Forge:
    root: Path
    """What is served: folders with bare repositories."""
    authority: Path
    port: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of each request that was let in."""
    refused: int = 0
    elsewhere: str = ""
    """If set, every request is sent on to there."""
    stalled: threading.Event = field(default_factory=threading.Event)
    stall: bool = False
    """Whether a request for objects is never answered."""

    def url(self, path: str, scheme: str = "https") -> str:
        return f"{scheme}://127.0.0.1:{self.port}/{path}"


@contextmanager
def forge(folder: Path, *, tls: bool = True, locked: bool = True) -> Iterator[Forge]:
    root, certificate = folder / "forge", folder / "forge.pem"
    root.mkdir()
    authority = Authority("forge")
    (folder / "ca.pem").write_bytes(authority.certificate)
    certificate.write_bytes(authority.issue("127.0.0.1"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(locked=locked))
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    made = Forge(root, folder / "ca.pem", server.server_address[1])
    server.forge = made  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.stalled.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(*, locked: bool) -> type[BaseHTTPRequestHandler]:
    expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made: Forge = self.server.forge  # type: ignore[attr-defined]
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if made.elsewhere:
                self._answer(302, {"Location": made.elsewhere + self.path})
            elif locked and self.headers.get("Authorization") != expected:
                made.refused += 1
                self._answer(401, {"WWW-Authenticate": 'Basic realm="forge"'})
            else:
                made.asked.append((self.command, self.path))
                if made.stall and self.command == "POST":
                    made.stalled.wait(300)
                self._serve(made, body)

        do_POST = do_GET

        def _serve(self, made: Forge, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            ran = subprocess.run(
                ("git", "http-backend"),
                input=body,
                env={
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(made.root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "REMOTE_USER": USER,
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                },
                capture_output=True,
                check=False,
            )
            head, _, answer = ran.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self._answer(int(headers.pop("Status", "200")[:3]), headers, answer)

        def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            with suppress(OSError):  # whoever asked was ended
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *given: object) -> None:
            pass

    return Handler
