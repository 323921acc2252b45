"""Much through one allowed tunnel, many new tunnels, and what they take while they are open.

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
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from ags.errors import AgsError
from bench import traffic
from bench.measure import Mark, Missing, Once, Peer, Row, Series, finish, interleaved
from bench.peers import NOT_INSTALLED
from bench.traffic import BULK, BULK_HOST, FENCE, HELLO_HOST, TINYPROXY, part, reach, started

SIZE, QUICK_SIZE = 512 << 20, 16 << 20
ROUNDS, QUICK_ROUNDS = 7, 1
TUNNELS, QUICK_TUNNELS = 800, 40
AT_ONCE = 4
OPEN, QUICK_OPEN = 200, 20
OURS, PEER, DIRECT = "ags", "tinyproxy", "direct loopback"
DOWN, UP, NEW = "down one tunnel", "up one tunnel", "new tunnels"
NEW_TLS = "new TLS tunnels"
ECHO = b"echo 0\n"
MARKS = {
    (DOWN, PEER): (2.5, "≥ 2.5 ×"),
    (UP, PEER): (2.5, "≥ 2.5 ×"),
    (DOWN, DIRECT): (0.75, "≥ 75 %"),
    (UP, DIRECT): (0.75, "≥ 75 %"),
    (NEW, PEER): (1.0, "≥ the peer"),
    (NEW_TLS, PEER): (1.0, "≥ the peer"),
}
CONFIG = """\
Port {port}
Listen 127.0.0.1
Timeout 600
MaxClients 1000
LogLevel Critical
DisableViaHeader Yes
"""


def rows(*, quick: bool) -> Iterator[Row]:
    """All of them speak CONNECT, and all is on one machine's loopback.

    Nobody looks a name up: the fence has the origin's address in its policy, the peer is told it.
    The fence keeps its audit as in every run. The peer keeps no log: it would wait for the disk
    at each line, which is not what is to be compared.
    """
    told = finish(
        traffic.alone("bench.tunnel", *(["quick"] if quick else [])), env=traffic.environment()
    )
    found = json.loads(told)
    for case, unit in ((DOWN, "MB/s"), (UP, "MB/s"), (NEW, "per s"), (NEW_TLS, "per s")):
        for name in (PEER, DIRECT):
            mark = at_least(*MARKS[case, name]) if (case, name) in MARKS else None
            figure = _series(found, f"{case}/{OURS}")
            yield Row(
                "tunnel", case, figure, unit, Peer(name, _series(found, f"{case}/{name}")), mark
            )
    memory, total = found[f"memory/{OURS}"], found[f"total/{OURS}"]
    theirs = found.get(f"memory/{PEER}")
    peer = Peer(PEER, Series((theirs,)) if theirs is not None else NOT_INSTALLED)
    note = f"with {QUICK_OPEN if quick else OPEN} open, the fence's process has {total:.0f} MiB"
    yield Row("tunnel", "memory for an open one", Series((memory,)), "KiB", peer, note=note)


def at_least(ratio: float, text: str) -> Mark:
    return Mark(text, lambda found: found >= ratio)


def _series(found: Mapping[str, list[float]], name: str) -> Series | Missing:
    return Series(tuple(found[name])) if name in found else NOT_INSTALLED


def measured(folder: Path, *, quick: bool) -> dict[str, object]:
    size, tunnels = (QUICK_SIZE, QUICK_TUNNELS) if quick else (SIZE, TUNNELS)
    with contextlib.ExitStack() as stack:
        stack.enter_context(started(part("origin", folder), BULK))
        fence = stack.enter_context(started(part("fence", folder), FENCE))
        ways: dict[str, int | None] = {OURS: FENCE, DIRECT: None}
        pids = {OURS: fence}
        if peer := _tinyproxy(folder):
            pids[PEER] = stack.enter_context(started(peer, TINYPROXY))
            ways[PEER] = TINYPROXY
        contenders: dict[str, Once] = {}
        for name, proxy in ways.items():
            contenders[f"{DOWN}/{name}"] = partial(down, proxy, size)
            contenders[f"{UP}/{name}"] = partial(up, proxy, size)
            contenders[f"{NEW}/{name}"] = partial(anew, proxy, tunnels)
            contenders[f"{NEW_TLS}/{name}"] = partial(anew, proxy, tunnels, hello())
        found: dict[str, object] = {}
        # First, as long as nobody has grown by what was measured before.
        for name, pid in pids.items():
            each, total = _memory(pid, ways[name], QUICK_OPEN if quick else OPEN)
            found |= {f"memory/{name}": each, f"total/{name}": total}
        figures = interleaved(contenders, QUICK_ROUNDS if quick else ROUNDS)
    return found | {name: series.values for name, series in figures.items()}


def _tinyproxy(folder: Path) -> tuple[str, ...]:
    program = shutil.which("tinyproxy")
    if program is None:
        return ()
    config = folder / "tinyproxy.conf"
    config.write_text(CONFIG.format(port=TINYPROXY))
    return (program, "-d", "-c", str(config))


def _host(proxy: int | None, first: bytes = ECHO) -> str:
    """Nobody else knows the made-up names, so they are told the address."""
    if proxy != FENCE:
        return traffic.LOCAL
    return BULK_HOST if first == ECHO else HELLO_HOST


def hello() -> bytes:
    """What a TLS client says first."""
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(heard, said, server_hostname=HELLO_HOST).do_handshake()
    return said.read()


def down(proxy: int | None, size: int) -> float:
    """Megabytes a second from the origin, without the time for the tunnel itself."""
    with reach(proxy, _host(proxy), BULK) as made:
        begun = time.monotonic()
        made.sendall(b"down %d\n" % size)
        traffic.take(made, size)
        return size / (time.monotonic() - begun) / 1e6


def up(proxy: int | None, size: int) -> float:
    with reach(proxy, _host(proxy), BULK) as made:
        begun = time.monotonic()
        made.sendall(b"up %d\n" % size)
        traffic.send(made, size)
        if made.recv(2) != b"ok":
            raise AgsError("measure the fence", cause="the origin did not get everything")
        return size / (time.monotonic() - begun) / 1e6


def anew(proxy: int | None, count: int, first: bytes = ECHO) -> float:
    """Tunnels a second, each with a word both ways, from a few clients at once."""
    begun = time.monotonic()
    children = [_forked(proxy, count // AT_ONCE, first) for _ in range(AT_ONCE)]
    if any(os.waitpid(child, 0)[1] for child in children):
        raise AgsError("measure the fence", cause="a tunnel was not made")
    return count / (time.monotonic() - begun)


def _forked(proxy: int | None, count: int, first: bytes) -> int:
    if child := os.fork():
        return child
    code, host = 1, _host(proxy, first)
    answer = b"ok" if first == ECHO else traffic.SERVER_HELLO
    with contextlib.suppress(BaseException):
        for _ in range(count):
            with reach(proxy, host, BULK) as made:
                made.sendall(first)
                if made.recv(len(answer)) != answer:
                    raise AgsError("measure the fence", cause="not what the origin says")
        code = 0
    os._exit(code)


def _memory(pid: int, proxy: int | None, count: int) -> tuple[float, float]:
    """KiB for each of so many tunnels, and MiB of the whole process with them."""
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            anew(proxy, AT_ONCE)
        before = _resident(pid)
        for _ in range(count):
            made = stack.enter_context(reach(proxy, _host(proxy), BULK))
            made.sendall(ECHO)
            made.recv(2)
        after = _resident(pid)
    return max(0.0, (after - before) / count), after / 1024


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AgsError("read a process's memory", subject=pid, cause="it is not told")


if __name__ == "__main__":
    traffic.bring_up()
    with tempfile.TemporaryDirectory(prefix="ags-bench-") as name:
        print(json.dumps(measured(Path(name), quick="quick" in sys.argv)))
