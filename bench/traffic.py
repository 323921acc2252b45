"""Whoever takes part in a bench of the fence: an origin, the fence, and clients of a proxy.

As a program it is the origin or the fence, and says so in one line when it listens:
`origin FOLDER` or `fence FOLDER`. All of them live in a network namespace that has only `lo`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ags.egress import inject, policy, tls
from ags.egress.fence import Fence, Terms
from ags.egress.inject import Injection
from ags.egress.policy import Layer, Rule, Upstream
from ags.egress.server import Server
from ags.errors import AgsError
from ags.kernel.netns import Opened

LOCAL = "127.0.0.1"
BULK, TLS, FENCE, TINYPROXY, MITMPROXY = 9000, 9443, 3128, 8888, 8889
BULK_HOST, SEEN_HOST, UNSEEN_HOST = "bulk.example", "seen.example", "unseen.example"
SECRET, HEADER = "BENCH_TOKEN", "x-token"
PIECE = 1 << 20
ROOT = Path(__file__).resolve().parent.parent
ALONE = ("unshare", "--user", "--map-root-user", "--net", "--kill-child")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def alone(module: str, *words: str) -> tuple[str, ...]:
    """The command that runs a module of this package where there is no other network."""
    return (*ALONE, "--", sys.executable, "-m", module, *words)


def environment() -> dict[str, str]:
    return dict(os.environ) | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def bring_up() -> None:
    subprocess.run(("ip", "link", "set", "lo", "up"), check=True)


@contextlib.contextmanager
def started(words: Sequence[str | Path], port: int) -> Iterator[int]:
    """A process that listens there by now; gives its id."""
    process = subprocess.Popen([str(word) for word in words], env=environment())
    try:
        _wait_for(port, process)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def part(name: str, folder: Path) -> tuple[str, ...]:
    return (sys.executable, "-m", "bench.traffic", name, str(folder))


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((LOCAL, port)):
            return
        time.sleep(0.02)
    raise AgsError("measure the fence", cause=f"nobody listens on port {port}")


def reach(proxy: int | None, host: str, port: int) -> socket.socket:
    """Through a proxy by CONNECT, or straight."""
    made = socket.create_connection((LOCAL, proxy or port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxy:
        where = f"{host}:{port}"
        made.sendall(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            more = made.recv(4096)
            if not more:
                break
            answer += more
        if not answer.startswith(b"HTTP/1.") or answer[9:12] != b"200":
            raise AgsError("reach the origin", cause=answer[:60].decode(errors="replace"))
    return made


async def origin(folder: Path) -> None:
    """Bytes as they are wanted at one port, HTTP over TLS at the other."""
    authority = tls.Authority("bench")
    (folder / "ca.pem").write_bytes(authority.certificate)
    contexts = {host: authority.leaf(host) for host in (SEEN_HOST, UNSEEN_HOST)}

    def by_name(spoken: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        spoken.context = contexts[name or SEEN_HOST]

    contexts[SEEN_HOST].sni_callback = by_name
    bulk = await asyncio.start_server(_bulk, LOCAL, BULK, backlog=1024, limit=PIECE)
    secure = await asyncio.start_server(_http, LOCAL, TLS, backlog=1024, ssl=contexts[SEEN_HOST])
    async with bulk, secure:
        await asyncio.Event().wait()


async def _bulk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A line says what is wanted. Many bytes are moved by a thread with the bare socket."""
    with contextlib.suppress(OSError, ValueError):
        wish, size = (await reader.readline()).split()
        if wish == b"echo":
            writer.write(b"ok")
            await writer.drain()
            await reader.read()
        else:
            made = writer.get_extra_info("socket")
            with socket.socket(fileno=os.dup(made.fileno())) as bare:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                early = len(reader._buffer)  # type: ignore[attr-defined]
                await asyncio.to_thread(_move, bare, wish, int(size), early)
    writer.close()


def _move(bare: socket.socket, wish: bytes, size: int, early: int) -> None:
    bare.setblocking(True)
    if wish == b"down":
        send(bare, size)
    else:
        take(bare, size - early)
        bare.sendall(b"ok")


def send(made: socket.socket, size: int) -> None:
    data = memoryview(bytes(PIECE))
    while size:
        piece = min(size, PIECE)
        made.sendall(data[:piece])
        size -= piece


def take(made: socket.socket, size: int) -> None:
    buffer = bytearray(PIECE)
    while size:
        got = made.recv_into(buffer, min(size, PIECE))
        if not got:
            raise AgsError("measure the fence", cause="the connection ended early")
        size -= got


async def _http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(ANSWER)
            await writer.drain()
    writer.close()


async def fence(folder: Path) -> None:
    """The fence as every run has it, with listeners of its own in place of a sandbox's."""
    listener = socket.create_server((LOCAL, FENCE), backlog=1024)
    authority = tls.Authority("bench")
    (folder / "run-ca.pem").write_bytes(authority.certificate)
    value = "secret-" + "s" * 40
    stand = inject.placeholder(SECRET, value, client="", key=b"k" * 32)
    (folder / "placeholder").write_text(stand.text)
    injection = Injection(SECRET, SEEN_HOST, TLS, "tls", HEADER, "{}")
    served = Fence(
        Terms(_policy(), (injection,), (stand,)),
        authority=authority,
        upstream=tls.upstream(tls.certificates((folder / "ca.pem").read_bytes())),
        record=lambda line: None,
        secret={SECRET: value}.get,
    )
    server = Server(served, Opened((), None, None, listener, (), (), False))
    server.start()
    await asyncio.Event().wait()


def _policy() -> policy.Policy:
    hosts = (BULK_HOST, SEEN_HOST, UNSEEN_HOST)
    rules = (
        Rule(BULK_HOST, (BULK,), "raw"),
        *(Rule(host, (TLS,), "tls") for host in (SEEN_HOST, UNSEEN_HOST)),
    )
    upstreams = tuple(Upstream(host, LOCAL) for host in hosts)
    return policy.merge([Layer("user", rules, upstreams=upstreams)], [(SEEN_HOST, TLS)])


if __name__ == "__main__":
    parts = {"origin": origin, "fence": fence}
    asyncio.run(parts[sys.argv[1]](Path(sys.argv[2])))
