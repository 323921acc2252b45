"""Whoever takes part in a bench of the fence: an origin, the fence, and clients of a proxy.

As a program it is the origin or the fence: `origin FOLDER` or `fence FOLDER`. All of them, and the
peers, live in one network namespace that has only `lo`. A sandbox has its own, but what is sent
within one machine takes the same way through the kernel either way.
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
from ags.egress.audit import Chain, Line
from ags.egress.fence import Fence, Terms
from ags.egress.inject import Injection
from ags.egress.policy import Layer, Rule, Upstream
from ags.egress.server import Server
from ags.errors import AgsError
from ags.kernel.netns import Opened

LOCAL = "127.0.0.1"
BULK, TLS, FENCE, TINYPROXY, MITMPROXY = 9000, 9443, 3128, 8888, 8889
BULK_HOST, SEEN_HOST, UNSEEN_HOST = "bulk.example", "seen.example", "unseen.example"
HELLO_HOST = "hello.example"
"""Its connections begin with a TLS hello, which is as far as they go."""
SECRET, HEADER = "BENCH_TOKEN", "x-token"
PIECE = 1 << 20
ROOT = Path(__file__).resolve().parent.parent
ALONE = ("unshare", "--user", "--map-root-user", "--net", "--kill-child")
SERVER_HELLO = b"\x16\3\3\0\x2a\2\0\0\x26\3\3" + bytes(32) + b"\0\x13\1\0"
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
    loop = asyncio.get_running_loop()
    bulk = await loop.create_server(_Bulk, LOCAL, BULK, backlog=1024)
    secure = await asyncio.start_server(_http, LOCAL, TLS, backlog=1024, ssl=contexts[SEEN_HOST])
    async with bulk, secure:
        await asyncio.Event().wait()


class _Bulk(asyncio.Protocol):
    """A line says what is wanted. Many bytes are moved by a thread with the bare socket.

    Not with asyncio's streams: they cost more than a peer, and would hide what is compared.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._held = b""

    def data_received(self, data: bytes) -> None:
        self._held += data
        if self._held.startswith(b"\x16"):
            if len(self._held) >= 5 + int.from_bytes(self._held[3:5]):
                self._transport.write(SERVER_HELLO)
        elif b"\n" in self._held:
            line, _, early = self._held.partition(b"\n")
            wish, size = line.split()
            self._do(wish, int(size), len(early))

    def _do(self, wish: bytes, size: int, early: int) -> None:
        if wish == b"echo":
            self._transport.write(b"ok")
            return
        self._transport.pause_reading()
        bare = socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno()))
        moving = asyncio.get_running_loop().run_in_executor(None, _move, bare, wish, size, early)
        moving.add_done_callback(lambda _: self._transport.close())


def _move(bare: socket.socket, wish: bytes, size: int, early: int) -> None:
    with bare:
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
    log, chain = os.open(folder / "egress.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND), Chain()

    def record(line: Line) -> None:
        os.write(log, chain.append(line))

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
        record=record,
        secret={SECRET: value}.get,
    )
    server = Server(served, Opened((), None, None, listener, (), (), False))
    server.start()
    await asyncio.Event().wait()


def _policy() -> policy.Policy:
    hosts = (BULK_HOST, HELLO_HOST, SEEN_HOST, UNSEEN_HOST)
    rules = (
        Rule(BULK_HOST, (BULK,), "raw"),
        Rule(HELLO_HOST, (BULK,), "tls"),
        *(Rule(host, (TLS,), "tls") for host in (SEEN_HOST, UNSEEN_HOST)),
    )
    upstreams = tuple(Upstream(host, LOCAL) for host in hosts)
    return policy.merge([Layer("user", rules, upstreams=upstreams)], [(SEEN_HOST, TLS)])


if __name__ == "__main__":
    parts = {"origin": origin, "fence": fence}
    asyncio.run(parts[sys.argv[1]](Path(sys.argv[2])))
