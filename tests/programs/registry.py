"""A small npm registry on loopback: documents with times, tarballs with checksums, and a log."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

CPU = {"x86_64": "x64", "aarch64": "arm64"}[os.uname().machine]
OLD = 30.0
"""Days since a version was published, unless a test says otherwise."""
CLAUDE, PI = "@anthropic-ai/claude-code", "@mariozechner/pi-coding-agent"


def tarball(files: Mapping[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text.encode()), 0o755 if "#!" in text else 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


class Registry:
    """Publish first; `url` is for the person's npm settings."""

    def __init__(self) -> None:
        self.packages: dict[str, dict[str, dict[str, Any]]] = {}
        self.times: dict[str, dict[str, str]] = {}
        self.balls: dict[str, bytes] = {}
        self.log: list[tuple[str, str]] = []
        """Path and Authorization of each request."""
        self.stalled = threading.Event()
        self.stalls = ""
        """A request whose path holds this is never answered."""
        self.over = threading.Event()
        self.url = ""

    def publish(
        self,
        name: str,
        version: str,
        files: Mapping[str, str],
        *,
        days: float = OLD,
        **manifest: object,
    ) -> None:
        whole = {"name": name, "version": version, **manifest}
        ball = tarball({"package.json": json.dumps(whole), **files})
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        checksum = base64.b64encode(hashlib.sha512(ball).digest()).decode()
        dist = {"tarball": self.url + path, "integrity": f"sha512-{checksum}"}
        self.balls[path] = ball
        self.packages.setdefault(name, {})[version] = {**whole, "dist": dist}
        at = datetime.now(UTC) - timedelta(days=days)
        self.times.setdefault(name, {})[version] = at.strftime("%Y-%m-%dT%H:%M:%S.000Z")

    def publish_claude(
        self, version: str, *, days: float = OLD, script: str = "", **manifest: object
    ) -> None:
        """As it is made up: a package without a program, and one for each machine that has it."""
        part = f"{CLAUDE}-linux-{CPU}"
        text = script or f"#!/bin/sh\necho {version}\n"
        self.publish(part, version, {"claude": text}, days=days, os=["linux"], cpu=[CPU])
        other = f"{CLAUDE}-darwin-{CPU}"
        self.publish(other, version, {"claude": text}, days=days, os=["darwin"], cpu=[CPU])
        parts = {part: version, other: version, f"{CLAUDE}-not-here": version}
        self.publish(
            CLAUDE, version, {"a.js": ""}, days=days, optionalDependencies=parts, **manifest
        )

    def publish_pi(self, version: str, *, needs: Mapping[str, str], days: float = OLD) -> None:
        script = "#!/usr/bin/env node\nconsole.log(require('helper'))\n"
        self.publish(PI, version, {"dist/cli.js": script}, days=days, dependencies=dict(needs))

    def fetched(self) -> list[str]:
        return [path for path, _ in self.log if path.endswith(".tgz")]

    def document(self, name: str) -> dict[str, object] | None:
        found = self.packages.get(name)
        if not found:
            return None
        latest = max(found, key=lambda version: [int(n) for n in version.split("-")[0].split(".")])
        tags, times = {"latest": latest}, self.times[name]
        return {"_id": name, "name": name, "dist-tags": tags, "versions": found, "time": times}


@contextlib.contextmanager
def registry() -> Iterator[Registry]:
    made = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path)
            made.log.append((path, self.headers.get("Authorization", "")))
            if made.stalls and made.stalls in path:
                made.stalled.set()
                made.over.wait(600)
            body, found = made.balls.get(path), made.document(path[1:])
            if body is None and found is not None:
                body = json.dumps(found).encode()
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"{}")))
            self.end_headers()
            self.wfile.write(body or b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
