"""The sockets of a scripted model: HTTP/1.1 on loopback, with or without TLS."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from pathlib import Path
from types import TracebackType

from tests.models.script import Model, Reply, Request


class ModelServer:
    """Serves from a thread of its own, for as long as the `with` lasts."""

    def __init__(self, *models: Model, tls: ssl.SSLContext | None = None, log: Path | None = None):
        """With a `log`, each request is a line of JSON there too, for other processes to read."""
        self.requests: list[Request] = []
        self._models, self._log, self._lock = models, log, threading.Lock()
        self._server = _Listening(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._scheme = "https" if tls else "http"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def seen(self, route: str) -> list[Request]:
        """Requests for what ends in `route`."""
        return [each for each in self.requests if each.route.endswith(route)]

    def reply(self, request: Request) -> Reply:
        self._keep(request)
        for model in self._models:
            if (found := model.answer(request)) is not None:
                return found
        if request.route in ("/", "/api/hello"):
            return Reply.json({"message": "hello"})
        return Reply.json({"error": {"message": "not scripted", "code": 404}}, 404)

    def _keep(self, request: Request) -> None:
        with self._lock:
            self.requests.append(request)
            if self._log is not None:
                line = {
                    "method": request.method,
                    "path": request.path,
                    "headers": request.headers,
                    "body": request.body.decode(errors="replace"),
                }
                with self._log.open("a") as file:
                    file.write(json.dumps(line) + "\n")

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Listening(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # agents keep connections open

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that breaks off is no fault of the test's."""


def _handler(server: ModelServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(server.reply(self._request()))

        do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

        def _request(self) -> Request:
            headers = tuple((key, value) for key, value in self.headers.items())
            return Request(self.command, self.path, headers, self._body())

        def _body(self) -> bytes:
            if self.headers.get("transfer-encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("content-length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, reply: Reply) -> None:
            self.send_response(reply.status)
            self.send_header("content-type", reply.kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            if self.command == "HEAD":
                return
            for chunk in (*reply.chunks, b""):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Tests read the requests instead."""

    return Handler
