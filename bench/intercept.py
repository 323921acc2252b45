"""Requests to a host that is sent a secret: its TLS is ended by the fence, and begun anew.

As a program it measures, in a network namespace of its own, and tells the figures as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ags.errors import AgsError
from bench import traffic
from bench.measure import Missing, Once, Peer, Row, Series, finish, interleaved
from bench.peers import NOT_INSTALLED
from bench.traffic import (
    ANSWER,
    FENCE,
    HEADER,
    LOCAL,
    MITMPROXY,
    SEEN_HOST,
    TLS,
    UNSEEN_HOST,
    part,
    reach,
    started,
)
from bench.tunnel import at_least

REQUESTS, QUICK_REQUESTS = 2000, 50
CONNECTIONS, QUICK_CONNECTIONS = 100, 8
ROUNDS, QUICK_ROUNDS = 7, 1
AT_ONCE = 4
OURS, OPAQUE, DIRECT, PEER = "ags", "opaque tunnel", "direct", "mitmproxy"
KEPT, NEW, LATENCY = "requests on open connections", "new connections", "one request"
UNITS = {KEPT: "per s", NEW: "per s", LATENCY: "ms"}
STAND = "placeholder-" + "p" * 35
SWAP = f"""
def request(flow):
    if flow.request.headers.get({HEADER!r}) == {STAND!r}:
        flow.request.headers[{HEADER!r}] = "secret-" + "s" * 40
"""
"""The same job for mitmproxy. It need not look for the secret in answers, as we do."""
OWED = at_least(5.0, "≥ 5 ×")


def rows(*, quick: bool) -> Iterator[Row]:
    """With a placeholder in every request to ours and to mitmproxy, which both exchange it."""
    words = ["quick"] if quick else []
    found = json.loads(finish(traffic.alone("bench.intercept", *words), env=traffic.environment()))
    for case, unit in UNITS.items():
        ours = Series(tuple(found[f"{case}/{OURS}"]))
        for name in (OPAQUE, DIRECT, PEER):
            values = found.get(f"{case}/{name}")
            figure = Series(tuple(values)) if values else Missing(found.get(PEER, "not measured"))
            mark = OWED if name == PEER and case != LATENCY else None
            yield Row(
                "intercept", case, ours, unit, Peer(name, figure), mark, _note(found, case, name)
            )


def _note(found: dict[str, list[float]], case: str, name: str) -> str:
    if case != LATENCY or name != DIRECT:
        return ""
    ours, direct = (Series(tuple(found[f"{case}/{who}"])).median for who in (OURS, DIRECT))
    return f"adds {ours - direct:.2f} ms"


@dataclass(frozen=True, slots=True)
class Way:
    """How a client gets to the origin, and whom it trusts to be it."""

    proxy: int | None
    host: str
    """In the TLS hello and in every request."""
    dialled: str
    """What a proxy is asked for: only ours knows the made-up names."""
    trusted: ssl.SSLContext
    token: str

    def talk(self) -> ssl.SSLSocket:
        made = reach(self.proxy, self.dialled, TLS)
        return self.trusted.wrap_socket(made, server_hostname=self.host)

    def ask(self, talk: ssl.SSLSocket) -> None:
        head = f"GET / HTTP/1.1\r\nHost: {self.host}:{TLS}\r\n{HEADER}: {self.token}\r\n\r\n"
        talk.sendall(head.encode())
        heard = b""
        while not heard.endswith(b"hello"):
            if not (more := talk.recv(4096)):
                raise AgsError("ask the origin", cause=heard[:60].decode(errors="replace"))
            heard += more
        if not heard.startswith(ANSWER[:12]):
            raise AgsError("ask the origin", cause=heard[:60].decode(errors="replace"))


def trusting(ca: Path) -> ssl.SSLContext:
    """Made once: to read certificates takes longer than what is measured."""
    return ssl.create_default_context(cafile=ca)


def kept(way: Way, count: int) -> float:
    """Requests a second of a few clients, each on one connection."""

    def one() -> None:
        with way.talk() as talk:
            for _ in range(count // AT_ONCE):
                way.ask(talk)

    return count / _together(one)


def anew(way: Way, count: int) -> float:
    """Connections a second, each with one request."""

    def one() -> None:
        for _ in range(count // AT_ONCE):
            with way.talk() as talk:
                way.ask(talk)

    return count / _together(one)


def latency(way: Way, count: int) -> float:
    """Milliseconds from a request to its answer, where nobody else wants anything."""
    with way.talk() as talk:
        way.ask(talk)
        begun = time.monotonic()
        for _ in range(count):
            way.ask(talk)
        return (time.monotonic() - begun) / count * 1000


def _together(work: Callable[[], None]) -> float:
    """Seconds until a few processes have done it."""
    begun = time.monotonic()
    children = [_forked(work) for _ in range(AT_ONCE)]
    failed = [os.waitpid(child, 0)[1] for child in children]
    if any(failed):
        raise AgsError("measure the fence", cause="a client was not served")
    return time.monotonic() - begun


def _forked(work: Callable[[], None]) -> int:
    if child := os.fork():
        return child
    code = 1
    with contextlib.suppress(BaseException):
        work()
        code = 0
    os._exit(code)


def measured(folder: Path, *, quick: bool) -> dict[str, object]:
    requests, connections = (
        (QUICK_REQUESTS, QUICK_CONNECTIONS) if quick else (REQUESTS, CONNECTIONS)
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(started(part("origin", folder), TLS))
        stack.enter_context(started(part("fence", folder), FENCE))
        ways, found = _ways(folder), {}
        try:
            ways[PEER] = stack.enter_context(_mitmproxy(folder))
        except AgsError as error:
            found[PEER] = error.cause
        contenders: dict[str, Once] = {}
        for name, way in ways.items():
            contenders[f"{KEPT}/{name}"] = partial(kept, way, requests)
            contenders[f"{NEW}/{name}"] = partial(anew, way, connections)
            contenders[f"{LATENCY}/{name}"] = partial(latency, way, requests // 4)
        figures = interleaved(contenders, QUICK_ROUNDS if quick else ROUNDS)
    return found | {name: series.values for name, series in figures.items()}


def _ways(folder: Path) -> dict[str, Way]:
    token = _told(folder / "placeholder")
    ca = trusting(folder / "ca.pem")
    return {
        OURS: Way(FENCE, SEEN_HOST, SEEN_HOST, trusting(folder / "run-ca.pem"), token),
        OPAQUE: Way(FENCE, UNSEEN_HOST, UNSEEN_HOST, ca, "plain"),
        DIRECT: Way(None, UNSEEN_HOST, UNSEEN_HOST, ca, "plain"),
    }


def _told(file: Path) -> str:
    """The fence takes connections before it has written down what clients have to know."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text()):
            return text
        time.sleep(0.02)
    raise AgsError("measure the fence", subject=file.name, cause="it was never written")


@contextlib.contextmanager
def _mitmproxy(folder: Path) -> Iterator[Way]:
    program = shutil.which("mitmdump")
    if program is None:
        raise AgsError("measure mitmproxy", cause=NOT_INSTALLED.why)
    settings = (f"confdir={folder}", f"ssl_verify_upstream_trusted_ca={folder / 'ca.pem'}")
    told = [word for each in settings for word in ("--set", each)]
    script = folder / "swap.py"
    script.write_text(SWAP)
    words = (program, "-q", "--listen-host", LOCAL, "-p", str(MITMPROXY), *told, "-s", str(script))
    with started(words, MITMPROXY):
        ca = trusting(folder / "mitmproxy-ca-cert.pem")
        way = Way(MITMPROXY, SEEN_HOST, LOCAL, ca, STAND)
        try:
            latency(way, 1)
        except OSError as error:
            raise AgsError("measure mitmproxy", cause=f"it does not work here: {error}") from error
        yield way


if __name__ == "__main__":
    traffic.bring_up()
    with tempfile.TemporaryDirectory(prefix="ags-bench-") as name:
        print(json.dumps(measured(Path(name), quick="quick" in sys.argv)))
