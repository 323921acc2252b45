"""A seeded fuzz loop over everything that reads bytes from inside.

Short in the suite (`test_wire.py`), long with `AGS_FUZZ=100000`, or by itself:
`python -m tests.property.fuzz_egress 100000 [seed]`. A failure names target, seed and round.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import ssl
import sys
from collections.abc import Callable, Sequence

import h11

from ags.egress.exchange import Exchange
from ags.egress.hosts import address_of, canonical_host
from ags.egress.http import HeadReader, RequestHead, forwarded
from ags.egress.inject import Redactor
from ags.egress.socks import Connect, Forward, ProxyReader, Say, Step
from ags.egress.wire import Handshake, Hello, HelloReader, NeedMore
from tests.egress import hellos

ROUNDS = int(os.environ.get("AGS_FUZZ", "400"))
SEED = 20

Cut = Callable[[bytes], list[bytes]]


def mutate(rng: random.Random, data: bytes, words: Sequence[bytes]) -> bytes:
    """A few small changes: flipped, dropped, doubled or foreign bytes."""
    out = bytearray(data)
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(out):
            out[at] = rng.randrange(256)
        elif kind == 1:
            del out[at : at + rng.randint(1, 4)]
        elif kind == 2:
            out[at:at] = rng.choice(words)
        elif kind == 3:
            out[at:at] = out[at : at + rng.randint(1, 40)]
        elif kind == 4 and at < len(out):
            out[at] = (out[at] + rng.choice((-1, 1))) % 256
        elif kind == 5:
            out[at : at + 1] = rng.choice(words)
    return bytes(out)


def cutter(rng: random.Random) -> Cut:
    def cut(data: bytes) -> list[bytes]:
        edges = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(0, 6)))
        edges = [0, *edges, len(data)]
        return [data[a:b] for a, b in itertools.pairwise(edges) if a < b]

    return cut


def seen_by_openssl(raw: bytes) -> str | None:
    """The name that a real server would serve."""
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    incoming = ssl.MemoryBIO()
    incoming.write(raw)
    server = context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
    with contextlib.suppress(ssl.SSLError):
        server.do_handshake()
    return names[0] if names else None


def fuzz_hello(data: bytes, cut: Cut) -> bool:
    whole, parts = HelloReader(), HelloReader()
    found = whole.feed(data)
    pieces = [parts.feed(piece) for piece in cut(data)] or [NeedMore()]
    assert pieces[-1] == found and parts.rest == whole.rest
    if not isinstance(found, Hello):
        return False
    assert found.raw + whole.rest == data and not found.ech
    assert canonical_host(found.name) == found.name and address_of(found.name) is None
    theirs = seen_by_openssl(found.raw)
    assert theirs is None or theirs.lower() == found.name
    return True


def fuzz_handshake(data: bytes, cut: Cut) -> bool:
    first = HelloReader().feed(hellos.hello(hellos.sni(b"a.example")))
    assert isinstance(first, Hello)
    whole, parts = Handshake(first), Handshake(first)
    for watch in (whole, parts):
        watch.from_server(hellos.server_hello(hellos.RETRY_RANDOM))
    refused = whole.from_client(data)
    pieces = [parts.from_client(piece) for piece in cut(data)]
    assert refused == next((piece for piece in pieces if piece), None)
    if refused is None and whole.done:
        at = data.find(b"\x16\x03")
        theirs = seen_by_openssl(data[at:])
        assert theirs is None or theirs.lower() == "a.example"
    return whole.done


def fuzz_head(data: bytes, cut: Cut) -> bool:
    whole, parts = HeadReader(), HeadReader()
    found = whole.feed(data)
    pieces = [parts.feed(piece) for piece in cut(data)] or [NeedMore()]
    assert pieces[-1] == found and parts.rest == whole.rest
    if not isinstance(found, RequestHead):
        return False
    assert found.raw + whole.rest == data
    assert canonical_host(found.host) == found.host
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 17)
    server.receive_data(found.raw)
    event = server.next_event()
    assert isinstance(event, h11.Request)
    assert (event.method.decode(), event.target.decode()) == (found.method, found.target)
    assert len(event.headers.raw_items()) == len(found.headers)
    return True


def fuzz_body(data: bytes, cut: Cut) -> bool:
    """However mad the body, an origin sees at most one request, and the same for every cut."""
    reader = HeadReader()
    head = reader.feed(data)
    if not isinstance(head, RequestHead) or head.form == "authority":
        return False
    results = []
    for pieces in ([reader.rest], cut(reader.rest)):
        exchange = Exchange(head, forwarded(head, websocket=True))
        moved = [exchange.open(), *(exchange.from_client(piece) for piece in pieces if piece)]
        up = b"".join(move.up for move in moved)
        results.append((_only_request(up), moved[-1].refused))
    assert results[0] == results[1]
    return results[0][1] is None


def _only_request(up: bytes) -> tuple[bytes, bool]:
    """The body as an origin reads it, and whether it ends there."""
    origin = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 17)
    origin.receive_data(up)
    event = origin.next_event()
    assert isinstance(event, h11.Request) or not up
    body = b""
    while isinstance(event := origin.next_event(), h11.Data):
        body += bytes(event.data)
    ended = isinstance(event, h11.EndOfMessage)
    assert ended or event is h11.NEED_DATA
    assert not ended or origin.trailing_data[0] == b""
    return body, ended


def fuzz_answer(data: bytes, cut: Cut) -> bool:
    """Whatever an origin answers, a client reads one answer or a broken one."""
    head = HeadReader().feed(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
    assert isinstance(head, RequestHead)
    results = []
    for pieces in ([data], cut(data)):
        exchange = Exchange(head, head.headers, redactor=Redactor([b"s3cr3t"]))
        exchange.open()
        moved = [exchange.from_origin(piece) for piece in pieces if piece]
        if exchange.status is None or not exchange.done:
            moved.append(exchange.from_origin(b""))
        down = b"".join(move.down for move in moved)
        assert b"s3cr3t" not in down
        results.append((exchange.status, exchange.done, exchange.sent))
    assert results[0] == results[1]
    return results[0][1]


def fuzz_proxy(data: bytes, cut: Cut) -> bool:
    whole, parts = ProxyReader(), ProxyReader()
    steps = _steps(whole, [data])
    assert steps == _steps(parts, cut(data)) and whole.rest == parts.rest
    last = steps[-1] if steps else NeedMore()
    if not isinstance(last, Connect | Forward):
        return False
    host = last.host if isinstance(last, Connect) else last.head.host
    assert canonical_host(host) == host and 0 < last.port < 65536
    return True


def _steps(reader: ProxyReader, pieces: list[bytes]) -> list[Step]:
    steps: list[Step] = []
    for piece in pieces:
        step = reader.feed(piece)
        while isinstance(step, Say):
            steps.append(step)
            step = reader.feed(b"")
        if step != NeedMore() and step not in steps:
            steps.append(step)
    return steps


HEADS = (
    b"GET /a?b=c HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a.example:80\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
    b"GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\nProxy-Connection: close\r\n\r\n",
    b"GET /w HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: eA==\r\n\r\nframes",
    b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n\x16\x03\x01",
    b"OPTIONS * HTTP/1.0\r\nHost: [::1]:8080\r\n\r\n",
)
HEAD_WORDS = (
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\x0b", b",", b"0", b"\r\n\r\n", b"//"),
    *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: b.example\r\n"),
    *(b"HTTP/1.0", b"HTTP/1.1", b"chunked", b"@", b"[", b"]", b".", b"%00", b"GET / HTTP/1.1\r\n"),
)
HELLOS = (
    hellos.hello(hellos.sni(b"a.example"), hellos.alpn(b"h2"), hellos.versions(0x0304)),
    hellos.hello(
        hellos.extension(0x1A1A, b""),
        hellos.extension(10, b"\0\x04\0\x1d\0\x17"),
        hellos.extension(13, b"\0\x04\x04\x03\x08\x04"),
        hellos.versions(0x0A0A, 0x0304, 0x0303),
        hellos.extension(51, b"\0\x24\0\x1d\0\x20" + b"k" * 32),
        hellos.alpn(b"h2", b"http/1.1"),
        hellos.sni(b"A.example"),
    ),
    hellos.hello(hellos.sni(b"a.example")) + b"\x17\x03\x03\x00\x02hi",
)
HELLO_WORDS = (
    *(b"\0", b"\1", b"\xff", b"\0\0", b"\x16\x03\x01", b"b.example", b".", b"\xfe\x0d\0\0"),
    *(b"\0\0\0\x0e\0\x0c\0\0\x09b.example", b"\x1a\x1a\0\0"),
)
SECONDS = tuple(bytes.fromhex("140303000101") + hello for hello in HELLOS)
SOCKS = (
    b"\x05\x01\0\x05\x01\0\x03\x09a.example\x01\xbb\x16\x03",
    b"\x05\x02\0\x02\x05\x01\0\x01\xc6\x12\0\x07\x01\xbb",
    b"\x05\x01\0\x05\x01\0\x04" + b"\x20\x01\x0d\xb8" + b"\0" * 11 + b"\1\0\x50",
    *HEADS[3:6],
)
SOCKS_WORDS = (*HELLO_WORDS[:4], b"\x05", b"\x03", b"\x04", *HEAD_WORDS)
ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nis s3cr3t !",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ns3cr3\r\n1\r\nt\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\nX: s3cr3t\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\ns3cr3t until the end s3cr",
    b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n",
)

TARGETS: dict[str, tuple[Callable[[bytes, Cut], bool], Sequence[bytes], Sequence[bytes]]] = {
    "hello": (fuzz_hello, HELLOS, HELLO_WORDS),
    "handshake": (fuzz_handshake, SECONDS, HELLO_WORDS),
    "head": (fuzz_head, HEADS, HEAD_WORDS),
    "body": (fuzz_body, HEADS, HEAD_WORDS),
    "answer": (fuzz_answer, ANSWERS, HEAD_WORDS),
    "proxy": (fuzz_proxy, SOCKS, SOCKS_WORDS),
}


def fuzz(name: str, rounds: int = ROUNDS, seed: int = SEED) -> int:
    """How many inputs were taken; AssertionError with all it takes to see a failure again."""
    check, corpus, words = TARGETS[name]
    taken = 0
    for count in range(rounds):
        rng = random.Random(f"{name} {seed} {count}")
        data = mutate(rng, rng.choice(corpus), words)
        try:
            taken += check(data, cutter(rng))
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}, round {count}: {data!r}") from error
    return taken


if __name__ == "__main__":
    chosen = (int(text) for text in sys.argv[1:])
    rounds, seed = next(chosen, ROUNDS), next(chosen, SEED)
    for target in TARGETS:
        print(target, fuzz(target, rounds, seed), "taken of", rounds)
