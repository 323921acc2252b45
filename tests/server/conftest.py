"""A real server process on a loopback port, with a home and AGS_HOME of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.server.warm import Warm

ROOT = Path(__file__).resolve().parents[2]
# The verb as the command line has it, without the start of bin/ags.
START = f"""
import sys
sys.path.insert(0, {str(ROOT / "src")!r})
from ags.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
AFRESH = ("server/test_auth.py", "server/test_health.py", "server/test_serve.py")
"""Whose subject is the start, or what it leaves behind for others to see."""
PATIENCE = 90.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Server:
    """One that runs. `call` sends what a good program sends, `send` what it is told."""

    process: subprocess.Popen[bytes]
    home: Path
    ags_home: Path
    url: str
    token: str
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def host(self) -> str:
        return self.url.partition("//")[2]

    def call(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = "",
    ) -> Answer:
        """`path` is below /api/v1 unless it begins with `//`, which is the root. No token: None."""
        given = dict(headers or {})
        if token is not None:
            given.setdefault("Authorization", f"Bearer {token or self.token}")
        body = None
        if json is not None:
            body = _dumped(json)
            given.setdefault("Content-Type", "application/json")
        target = path[1:] if path.startswith("//") else f"/api/v1{path}"
        return self.send(method, target, given, body)

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        """Host and lengths are added unless they are there."""
        with self.connection() as connection:
            connection.request(method, target, body, dict(headers))
            found = connection.getresponse()
            return Answer(found.status, found.headers, found.read())

    @contextlib.contextmanager
    def connection(self) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            yield connection
        finally:
            connection.close()

    def raw(self, data: bytes) -> bytes:
        """What comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as sock:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(data)
            parts = []
            with contextlib.suppress(ConnectionResetError):
                while part := sock.recv(65536):
                    parts.append(part)
            return b"".join(parts)

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def ags(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line of the same person."""
        argv = [sys.executable, "-I", "-c", START, *words]
        return subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=PATIENCE
        )

    def end(self, number: int = signal.SIGTERM, patience: float = PATIENCE) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(patience)


def _dumped(value: object) -> bytes:
    return json.dumps(value).encode()


@contextlib.contextmanager
def serving(
    folder: Path,
    words: Sequence[str] = ("web", "--no-open"),
    *,
    part: str = "web",
    port: int = 0,
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = ("--log", "json"),
    stdout: int = subprocess.PIPE,
    first: str = "",
) -> Iterator[Server]:
    """A server that is up when this begins, and gone when it ends. A folder may be used again.

    `first` is done in its process before anything else: to have it wait longer than it would.
    """
    home, ags_home, log = folder / "home", folder / "ags", folder / "server.log"
    home.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("PATH", "/usr/bin:/bin")
    environment = {"HOME": str(home), "AGS_HOME": str(ags_home), "PATH": path, **(env or {})}
    start: type[subprocess.Popen[bytes]] = Warm
    argv = [*words, "--port", str(port), *options]
    if first or any(file in os.environ.get("PYTEST_CURRENT_TEST", "") for file in AFRESH):
        start = subprocess.Popen
        script = START.replace("from ags", f"{first}\nfrom ags", 1)
        argv = [sys.executable, "-I", "-c", script, *argv]
    with log.open("ab") as errors:
        process = start(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=errors
        )
    try:
        url = _url(process, ags_home / "server" / f"{part}.lock", log)
        token = (ags_home / "server" / "token").read_text().strip()
        yield Server(process, home, ags_home, url, token, log, environment)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout:
            process.stdout.close()


def _url(process: subprocess.Popen[bytes], lock: Path, log: Path) -> str:
    # Its lock is written before it has printed anything, or would end in order.
    serving = re.compile(rf'"event": "serving", "pid": {process.pid}\b|serving pid={process.pid}\b')
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if serving.search(log.read_text()):
            return str(json.loads(lock.read_bytes())["url"])
        time.sleep(0.02)
    raise AssertionError(f"the server did not start: {log.read_text()}")


def free_port() -> int:
    """None of those that the kernel gives to whoever wants any, or that other workers draw from:
    it can be taken again later."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
    while True:
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", 20_000 + 1_000 * worker + random.randrange(1_000)))
            return int(sock.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Fresh, for tests that change something."""
    with serving(tmp_path / "served") as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of a file that leave it as it was."""
    with serving(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", key, "-out", cert, "-subj", "/CN=ags.example.org", "-days", "2",
         "-addext", "subjectAltName=DNS:ags.example.org"),
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key
