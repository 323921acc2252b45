"""A site of files somewhere in the world, with TLS; and one stream that waits for its reader.

As a program, which is how `opened` starts it there: `shop.py ADDRESS CHAIN FOLDER`.
"""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.internet import Internet
from tests.internet.world import ENVIRONMENT, ROOT

EVENTS, PATIENCE = 5, 60.0


class Handler(SimpleHTTPRequestHandler):
    """`/events` sends an event only when `/heard` has told that the one before has arrived."""

    protocol_version = "HTTP/1.1"
    heard = threading.Semaphore(0)

    def do_GET(self) -> None:
        if self.path == "/events":
            self._events()
        elif self.path == "/heard":
            self.heard.release()
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def _events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for number in range(EVENTS):
            self.wfile.write(b"data: %d\n\n" % number)
            if not self.heard.acquire(timeout=PATIENCE):
                return

    def log_message(self, format: str, *words: object) -> None:
        print(self.command, self.path, flush=True)


@contextlib.contextmanager
def opened(world: Internet, name: str, folder: Path) -> Iterator[Path]:
    """At port 443, until the end of this. Gives where it writes down every request."""
    address = world._address(name)
    chain = world._chain(name, True, timedelta(days=1))
    world.answers(name, [address])
    log = folder.with_name("log")
    there = ("nsenter", f"--net=/proc/{world.inside}/ns/net", "setpriv", "--pdeathsig", "KILL")
    words = (sys.executable, "-m", "tests.egress.clients.shop", address, chain, folder)
    with open(log, "wb") as out:
        process = subprocess.Popen(
            (*there, *map(str, words)),
            cwd=ROOT,
            env={**ENVIRONMENT, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            stdout=out,
            stderr=subprocess.PIPE,
        )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == b"open\n"
        yield log
    finally:
        process.kill()
        process.communicate()


def main(address: str, chain: str, folder: str) -> None:
    server = ThreadingHTTPServer((address, 443), partial(Handler, directory=folder))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    print("open", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
