"""E8: a hello is for the name that was dialled, all of it, or not a byte goes up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.attack.egress.scene import BOTH, Scene, paths
from tests.egress import hellos
from tests.internet.world import Internet

CONTROL = """
fetch(dial("api.example", 443), "api.example", get("/control", "api.example", LAST))
"""

BAD = """
def bad(real):
    other, name = hello("other.example"), b"api.example"
    body = real[9:]
    twice = struct.pack(">H", len(name) + 3) + b"\\0" + struct.pack(">H", len(name)) + name
    yield "other", other
    yield "absent", hello(None)
    yield "ech", extended(real, 0xfe0d, b"\\0" * 40)
    yield "ech-draft", extended(real, 0xffce, b"\\0" * 40)
    yield "second-name", extended(real, 0, twice)
    yield "dot", hello("api.example.")
    yield "port", hello("api.example:443")
    yield "address", real.replace(name, b"127.0.0.001")
    yield "nul", real.replace(name, b"api.exampl\\0")
    yield "high", real.replace(name, b"api.exampl\\xe9")
    for at in (1, 4, 40, len(real) - 6):
        message = real[5:]
        halves = [b"\\x16\\3\\1" + struct.pack(">H", len(half)) + half
                  for half in (message[:at], message[at:])]
        yield f"records-{at}", b"".join(halves)
    yield "empty-record", b"\\x16\\3\\1\\0\\0" + real
    yield "alert-first", b"\\x15\\3\\1\\0\\2\\1\\0" + real
    yield "sslv2", b"\\x80\\x2e\\1\\3\\1\\0\\x15\\0\\0\\0\\x10" + b"\\x2f" * 40
    yield "trailing", b"\\x16\\3\\1" + struct.pack(">H", len(real) - 4) + real[5:] + b"\\0"
    yield "longer", real[:6] + (len(body) + 1).to_bytes(3, "big") + body
    yield "huge", b"\\x16\\3\\1\\xff\\xff\\1\\0\\xff\\xfb" + b"a" * 70000
    yield "plain", get("/plain", "api.example", LAST)
    yield "proxy", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\\r\\n" + real
    yield "ssh", b"SSH-2.0-x\\r\\n"
    yield "nothing", b"\\0" * 100
"""


@BOTH
def test_a_bad_hello_goes_nowhere(scene: Scene) -> None:
    """Neither at once nor in pieces, directly or through a tunnel: the origin has no visitor."""
    script = """
PATIENCE, arrived = 5, b"\\x16\\3\\3"  # a hello comes back, or an end
for kind, first in bad(hello("api.example")):
    every([lambda: say(dial("api.example", 443), first, until=arrived),
           lambda: say(connected("api.example", 443), first, until=arrived),
           lambda: say(dial("api.example", 443), first[:3], first[3:60], first[60:],
                       until=arrived)])
"""
    ended = scene.attack(BAD + script)
    assert scene.sites.api.visits == []
    assert scene.reached == set() and scene.asked == set()
    refused = {line["reason"] for line in ended.audit}
    wanted = {"sni", "sni-absent", "ech", "split-records", "not-tls", "sni-several", "sni-address"}
    assert refused >= wanted and "allowed" not in refused


def test_a_hello_in_many_segments_is_one_hello(scene: Scene) -> None:
    """The twin: what is split below TLS is put together, judged, and goes up."""
    scene.attack("""
out, back = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = trusting().wrap_bio(back, out, server_hostname="api.example")
talk = dial("api.example", 443)
talk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    try:
        tls.do_handshake()
        break
    except ssl.SSLWantReadError:
        for byte in out.read():
            talk.sendall(bytes((byte,)))
        back.write(talk.recv(1 << 16))
tls.write(get("/control", "api.example", LAST))
talk.sendall(out.read())
heard = b""
while b"hello from" not in heard and (piece := talk.recv(1 << 16)):
    back.write(piece)
    with contextlib.suppress(ssl.SSLWantReadError):
        while said := tls.read(): heard += said
""")
    assert paths(scene.sites.api) == ["/control"]
    assert scene.only(scene.sites.api)


def test_a_name_in_the_hello_must_be_the_one_that_was_dialled(scene: Scene) -> None:
    """Both are allowed; yet one is not reached by way of the other, and no third by either."""
    scene.world.answers("third.example", [scene.sites.other.address])
    scene.attack(
        """
def fronted(dialled, said): fetch(dial(dialled, 443), said, get("/fronted", said, LAST))
for dialled, said in (("api.example", "third.example"), ("third.example", "api.example"),
                      ("api.example", "other.example"), ("api.example", "x.api.example")):
    with quietly(): fronted(dialled, said)
    with quietly(): fetch(connected(dialled, 443), said, get("/fronted", said, LAST))
"""
        + CONTROL,
        "domains: [api.example, third.example]",
    )
    assert scene.only(scene.sites.api)
    assert paths(scene.sites.api) == ["/control"]
    assert scene.sites.api.hellos == ["api.example"]


SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], 443))
print("ready", flush=True)
for _ in range(int(sys.argv[3])):
    talk, _ = server.accept()
    talk.settimeout(60)
    with talk, open(sys.argv[2], "ab") as seen:
        try:
            seen.write(talk.recv(1 << 16))
            seen.flush()
            talk.sendall(bytes.fromhex(sys.argv[4]))
            while piece := talk.recv(1 << 16):
                seen.write(piece)
                seen.flush()
        except OSError:
            pass
"""


TWO = """
def two(first, *pieces):
    with quietly(), dial("retry.example", 443) as talk:
        if first:  # to be asked for another
            talk.sendall(first)
            talk.recv(1 << 16)
        for piece in pieces:
            talk.sendall(piece)
            time.sleep(0.02)
        talk.shutdown(socket.SHUT_WR)
        hear(talk)
"""


@contextmanager
def retrying(world: Internet, file: Path, answer: bytes, visits: int) -> Iterator[None]:
    """A server that answers every first hello with `answer`, and writes down all it gets. It ends
    after so many visits, and is waited for."""
    address = "11.9.9.9"
    world.answers("retry.example", [address])
    command = ("nsenter", "-t", str(world.inside), "--net", sys.executable, "-I", "-c", SERVER)
    server = subprocess.Popen(
        (*command, address, str(file), str(visits), answer.hex()), stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        server.stdout.readline()
        yield
        server.wait(60)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_second_hello_cannot_name_another_host(scene: Scene, tmp_path: Path) -> None:
    """Neither unasked, with the first, nor when the server has asked for one. The same name may."""
    seen = tmp_path / "seen"
    seen.touch()
    retry = hellos.server_hello(hellos.RETRY_RANDOM)
    policy = "domains: [retry.example]"
    with retrying(scene.world, seen, retry, 3):
        scene.attack(
            TWO
            + """
first, second = hello("retry.example"), hello("other.example")
change = b"\\x14\\3\\3\\0\\1\\1"
two(b"", first + second)
two(first, second)
two(first, change + second)
two(first, second[:30], second[30:])
""",
            policy,
        )
    assert b"retry.example" in seen.read_bytes()
    assert b"other.example" not in seen.read_bytes()
    seen.write_bytes(b"")
    with retrying(scene.world, seen, retry, 1):
        scene.attack(TWO + 'two(*[hello("retry.example")] * 2)', policy)
    assert seen.read_bytes().count(b"retry.example") == 2
