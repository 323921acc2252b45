"""Origins that answer with malice: a client inside gets a clean answer or a clean error."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import ssl
import threading
import time
from collections.abc import Iterator

import pytest

from tests.attack.egress.hostile import OTHER, PATIENCE, SECRET, STANDS, Stage, saying, stage

KEY = SECRET.encode()
STARS = b"*" * len(KEY)
OK = b"HTTP/1.1 200 OK\r\n"
SMUGGLED = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"


@pytest.fixture
def scene() -> Iterator[Stage]:
    with stage() as made:
        yield made


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
TWO_READINGS = {
    "length-and-chunks": OK + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two-lengths": OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nEVIL",
    "the-same-length-twice": OK + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nEVIL",
    "a-list-of-lengths": OK + b"Content-Length: 4, 4\r\n\r\nEVIL",
    "length-with-a-sign": OK + b"Content-Length: +4\r\n\r\nEVIL",
    "length-below-zero": OK + b"Content-Length: -1\r\n\r\nEVIL",
    "length-in-hex": OK + b"Content-Length: 0x4\r\n\r\nEVIL",
    "other-coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "coding-twice": OK
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "hidden-coding": OK + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "old-with-chunks": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded": OK + b"X-A: b\r\n c: EVIL\r\nContent-Length: 4\r\n\r\nEVIL",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 4\n\nEVIL",
    "one-bare-lf": OK + b"X-A: b\nX-Evil: EVIL\r\nContent-Length: 4\r\n\r\nEVIL",
    "bare-cr": OK + b"X-A: b\rX-Evil: EVIL\r\nContent-Length: 4\r\n\r\nEVIL",
    "nul": OK + b"X-A: b\0\r\nContent-Length: 4\r\n\r\nEVIL",
    "space-before-colon": OK + b"Content-Length : 4\r\n\r\nEVIL",
    "no-name": OK + b": b\r\nContent-Length: 4\r\n\r\nEVIL",
    "no-colon": OK + b"EVIL\r\nContent-Length: 4\r\n\r\nEVIL",
    "http-0.9": b"<html>EVIL</html>",
    "http-2": b"HTTP/2.0 200 OK\r\nContent-Length: 4\r\n\r\nEVIL",
    "other-protocol": b"SSH-2.0-EVIL\r\n\r\n",
    "line-before": b"\r\n" + SMUGGLED,
    "short-status": b"HTTP/1.1 20 OK\r\n\r\n",
    "long-status": b"HTTP/1.1 2000 OK\r\n\r\n",
    "switched-unasked": b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\n\r\nEVIL",
    "long-header": OK + b"X-A: " + b"E" * 70_000 + b"\r\n\r\n",
    "many-headers": OK + b"X-A: EVIL\r\n" * 300 + b"\r\n",
    "announced-for-ever": b"HTTP/1.1 100 Wait\r\n\r\n" * 2000 + SMUGGLED,
    "compressed": OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(KEY),
    "hung-up": b"",
    "half-a-head": b"HTTP/1.1 200 O",
}


@pytest.mark.parametrize("name", TWO_READINGS)
def test_an_answer_with_two_readings_becomes_a_clean_error(scene: Stage, name: str) -> None:
    # What makes a head too long comes in one record with its end, not before it.
    whole, most = TWO_READINGS[name], 60_000
    scene.origin.says["/bad"] = saying(whole[:most], whole[most:], close=True)
    status, headers, body = scene.ask("/bad")
    assert status == 502 and b"ags allowed the request, but" in body, (status, body)
    assert b"EVIL" not in body and "X-Evil" not in headers
    assert scene.works()
    assert len(scene.reasons(2)) == 1


@pytest.mark.parametrize("name", ["folded", "bare-lf", "http-0.9", "one-bare-lf"])
def test_nobody_waits_for_the_rest_of_what_is_no_answer(scene: Stage, name: str) -> None:
    scene.origin.says["/bad"] = saying(TWO_READINGS[name])  # which then waits longer than we do
    assert scene.ask("/bad")[0] == 502


BROKEN = {
    "too-short": OK + b"Content-Length: 10\r\n\r\nshort",
    "no-last-chunk": CHUNKED + chunk(b"short"),
    "size-of-letters": CHUNKED + chunk(b"short") + b"xyz\r\nEVIL\r\n0\r\n\r\n",
    "size-with-a-sign": CHUNKED + b"+4\r\nEVIL\r\n0\r\n\r\n",
    "size-in-c": CHUNKED + b"0x4\r\nEVIL\r\n0\r\n\r\n",
    "size-without-end": CHUNKED + b"f" * 40 + b"\r\nEVIL\r\n0\r\n\r\n",
    "size-with-bare-lf": CHUNKED + b"4\nEVIL\r\n0\r\n\r\n",
    "longer-than-it-says": CHUNKED + b"5\r\nshortxx4\r\nEVIL\r\n0\r\n\r\n",
    "extension-without-end": CHUNKED + b"4;" + b"x" * 100_000,
    "a-length-after-it": CHUNKED + chunk(b"short") + b"0\r\nContent-Length: 4\r\n\r\n",
    "a-cookie-after-it": CHUNKED + chunk(b"short") + b"0\r\nSet-Cookie: EVIL\r\n\r\n",
    "folded-after-it": CHUNKED + chunk(b"short") + b"0\r\nX-A: b\r\n EVIL: c\r\n\r\n",
    "trailers-without-end": CHUNKED + b"0\r\n" + b"X-A: EVIL\r\n" * 10_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_breaks_off_is_never_taken_for_whole(scene: Stage, name: str) -> None:
    scene.origin.says["/bad"] = saying(BROKEN[name], close=True)
    with pytest.raises((http.client.IncompleteRead, OSError)):
        scene.ask("/bad")
    talk = scene.raw()
    talk.suppress_ragged_eofs = False  # type: ignore[attr-defined]
    talk.sendall(b"GET /bad HTTP/1.0\r\nHost: api.example\r\n\r\n")
    heard = b""
    with pytest.raises(OSError):  # where only its end could tell, the connection has no clean one
        while data := talk.recv(1 << 16):
            heard += data
    assert b"EVIL" not in heard
    assert scene.works()


def test_an_answer_beyond_its_length_is_nobodys(scene: Stage) -> None:
    """Not even that of the next request on the same connection, however late it comes."""
    body = OK + b"Content-Length: 4\r\n\r\nfine"
    scene.origin.says["/at-once"] = saying(body + SMUGGLED)
    said = threading.Event()

    def late(talk: ssl.SSLSocket, head: bytes) -> None:
        saying(body, SMUGGLED)(talk, head)
        said.set()

    scene.origin.says["/late"] = late
    scene.origin.says["/chunks"] = saying(CHUNKED + chunk(b"fine") + b"0\r\n\r\n" + SMUGGLED)
    scene.origin.says["/none"] = saying(b"HTTP/1.1 204 No\r\nContent-Length: 77\r\n\r\n" + SMUGGLED)

    def grudging(talk: ssl.SSLSocket, head: bytes) -> None:
        first = scene.origin.heard[-1].count(b"GET ") == 1
        talk.sendall(body if first else SMUGGLED)

    scene.origin.says["/next"] = grudging
    for path in ("/at-once", "/late", "/chunks", "/none"):
        connection = scene.connection()
        assert scene.ask(path, connection)[2] in (b"fine", b"")
        assert path != "/late" or said.wait(PATIENCE)
        time.sleep(0.1)
        assert scene.ask("/next", connection)[2] == b"fine", path


def test_an_origin_that_hung_up_between_requests_is_dialled_again(scene: Stage) -> None:
    """Clients keep connections longer than many origins do."""
    answer = OK + b"Content-Length: 4\r\n\r\nfine"
    gone = threading.Event()

    def last(talk: ssl.SSLSocket, head: bytes) -> None:
        talk.sendall(answer)
        talk.setblocking(False)  # to take leave without waiting for an answer to that
        with contextlib.suppress(ssl.SSLWantReadError):
            talk.unwrap()
        gone.set()
        raise EOFError

    scene.origin.says["/last"] = last
    connection = scene.connection()
    for path in ("/first", "/last", "/after", "/after"):
        assert scene.ask(path, connection)[2] == b"fine"
        assert path != "/last" or gone.wait(PATIENCE)
        time.sleep(0.5)  # so that the end of the other side is known
    assert len(scene.origin.heard) == 2
    assert scene.reasons(4) == []


ECHOES = {
    "value": OK + b"X-Echo: you sent " + KEY + b"\r\nContent-Length: 0\r\n\r\n",
    "name": OK + KEY + b": x\r\nContent-Length: 0\r\n\r\n",
    "phrase": b"HTTP/1.1 401 not " + KEY + b"\r\nContent-Length: 0\r\n\r\n",
    "hint": b"HTTP/1.1 103 Hints\r\nX-Echo: "
    + KEY
    + b"\r\n\r\n"
    + OK
    + b"Content-Length: 0\r\n\r\n",
    "body": OK + b"Content-Length: %d\r\n\r\n" % len(KEY) + KEY,
    "to-the-end": OK + b"Connection: close\r\n\r\n" + KEY,
    "chunks": CHUNKED
    + b"".join(chunk(KEY[i : i + 7]) for i in range(0, 80, 7) if KEY[i:])
    + b"0\r\n\r\n",
    "extension": CHUNKED + chunk(b"fine", b";x=" + KEY) + b"0\r\n\r\n",
    "trailer": CHUNKED + chunk(b"fine") + b"0\r\nX-Echo: " + KEY + b"\r\n\r\n",
    "coded": OK + b"Connection: close\r\n\r\n" + base64.b64encode(b"xy" + KEY + b"z"),
}


@pytest.mark.parametrize("size", [1, 30, 100_000])
@pytest.mark.parametrize("name", ECHOES)
def test_an_echo_is_covered_wherever_it_is_put(scene: Stage, name: str, size: int) -> None:
    data = ECHOES[name]
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    scene.origin.says["/echo"] = saying(*pieces, close=b"close" in data)
    talk = scene.raw()
    talk.sendall(
        b"GET /echo HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\nx-api-key: %s\r\n\r\n"
        % STANDS.text.encode()
    )
    heard = b""
    with contextlib.suppress(ssl.SSLError):
        while more := talk.recv(1 << 16):
            heard += more
    plain = heard.replace(b"\r\n", b"")
    assert KEY in scene.origin.heard[0], "it was sent, or it could not have been echoed"
    assert KEY not in heard and KEY[20:] not in plain and base64.b64encode(KEY)[:40] not in heard
    assert name in ("extension", "coded") or b"*" * 7 in heard
    assert scene.works()


def test_an_endless_head_is_cut_off(scene: Stage) -> None:
    sent = 0

    def endless(talk: ssl.SSLSocket, head: bytes) -> None:
        nonlocal sent
        talk.sendall(OK)
        while sent < 256 << 20:
            talk.sendall(b"X-A: b\r\n" * 1000)
            sent += 8000

    scene.origin.says["/endless"] = endless
    assert scene.ask("/endless")[0] == 502
    assert scene.works()
    assert sent < 32 << 20, "what the kernel's buffers hold, and no more"


def test_an_origin_cannot_fill_the_fence_while_the_client_does_not_read(scene: Stage) -> None:
    sent = 0

    def endless(talk: ssl.SSLSocket, head: bytes) -> None:
        nonlocal sent
        talk.sendall(CHUNKED)
        while sent < 256 << 20:
            talk.sendall(chunk(b"x" * 60_000) + chunk(b"y", b";" + b"z" * 500) * 20)
            sent += 60_000

    scene.origin.says["/endless"] = endless
    talk = scene.raw()
    talk.sendall(b"GET /endless HTTP/1.1\r\nHost: api.example\r\n\r\n")
    deadline, before = time.monotonic() + 60, -1
    while sent != before or (not sent and time.monotonic() < deadline):
        before = sent
        time.sleep(0.5)
        assert sent < 64 << 20
    assert sent > 0 and scene.works()


def test_one_more_answer_before_the_answer_is_no_matter(scene: Stage) -> None:
    """The twin: what is right passes, also in its rarer forms."""
    scene.origin.says["/hints"] = saying(
        b"HTTP/1.1 100 Wait\r\n\r\n" * 3 + OK + b"Content-Length: 4\r\n\r\nfine"
    )
    scene.origin.says["/chunks"] = saying(
        CHUNKED + chunk(b"fi", b";a=b") + chunk(b"ne") + b"0\r\nX-Sum: 1\r\n\r\n"
    )
    scene.origin.says["/end"] = saying(b"HTTP/1.0 200\r\n\r\nfine", close=True)
    for path in ("/hints", "/chunks", "/end"):
        assert scene.ask(path)[0::2] == (200, b"fine")
    assert scene.reasons(3) == []
    assert scene.ask("/x", scene.connection(OTHER))[0] == 403, "and the secret is not for all"
