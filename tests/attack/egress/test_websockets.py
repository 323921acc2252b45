"""E11, S3: a WebSocket is not a way around the rules, nor for a secret to come back."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Iterator

import pytest

from tests.attack.egress.hostile import OTHER, OWN, READ_ONLY, SECRET, STANDS, Said, Stage, stage
from tests.internet.websocket import frame

KEY, HALF = STANDS.text.encode(), len(STANDS.text) // 2
TEXT, MORE, LAST, PING = 0x01, 0x00, 0x80, 0x89
MASK = b"\x11\x22\x33\x44"
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: x\r\n"
)


@pytest.fixture
def scene() -> Iterator[Stage]:
    with stage() as made:
        made.origin.says["/ws"] = switching(made)
        yield made


def switching(scene: Stage, extra: bytes = b"", says: bytes = b"") -> Said:
    def switch(talk: ssl.SSLSocket, head: bytes) -> None:
        talk.sendall(SWITCH + extra + b"\r\n" + says)
        while scene.origin.body(talk, 1 << 16):
            pass

    return switch


def asked(scene: Stage, host: str, *lines: bytes) -> tuple[ssl.SSLSocket, bytes]:
    """The connection, and the head of the answer."""
    talk = scene.raw(host)
    lines = (b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Key: eA==", *lines)
    talk.sendall(b"\r\n".join((b"GET /ws HTTP/1.1", b"Host: " + host.encode(), *lines, b"", b"")))
    heard = b""
    while b"\r\n\r\n" not in heard and (more := talk.recv(1)):
        heard += more
    return talk, heard


def arrived(scene: Stage, wanted: int) -> bytes:
    """What the origin has of the client's frames once they are many bytes, or no more come."""
    deadline = time.monotonic() + (60 if wanted > 1 else 2)
    while time.monotonic() < deadline:
        raw = scene.origin.heard[-1].partition(b"\r\n\r\n")[2]
        if len(raw) >= wanted:
            break
        time.sleep(0.02)
    return raw


HIDDEN = {
    "in-one": [frame(TEXT | LAST, b"key " + KEY, MASK)],
    "without-a-mask-to-speak-of": [frame(TEXT | LAST, KEY, bytes(4))],
    "in-two-frames": [frame(TEXT, KEY[:HALF], MASK), frame(MORE | LAST, KEY[HALF:], b"abcd")],
    "in-two-messages": [frame(TEXT | LAST, KEY[:HALF], MASK), frame(TEXT | LAST, KEY[HALF:], MASK)],
    "around-a-ping": [
        frame(TEXT, KEY[:HALF], MASK), frame(PING, b"hi", MASK), frame(LAST, KEY[HALF:], MASK),
    ],
    "in-a-ping": [frame(PING, KEY, MASK)],
    "after-much": [frame(TEXT | LAST, b"x" * 60_000 + KEY, MASK)],
    "behind-small-ones": [frame(TEXT | LAST, b"x", MASK) * 500 + frame(TEXT | LAST, KEY, MASK)],
}  # fmt: skip


@pytest.mark.parametrize("cut", [1 << 20, 7])
@pytest.mark.parametrize("name", HIDDEN)
def test_a_placeholder_in_a_frame_passes_unchanged_and_is_noted_once(
    scene: Stage, name: str, cut: int
) -> None:
    data = b"".join(HIDDEN[name])
    pieces = [data] if len(data) > 10_000 else [data[i : i + cut] for i in range(0, len(data), cut)]
    talk, head = asked(scene, OTHER)
    assert head.startswith(b"HTTP/1.1 101")
    for piece in pieces:
        talk.sendall(piece)
    assert arrived(scene, len(data)) == data
    talk.close()
    assert scene.reasons(1) == ["placeholder-passed"]
    talk, _ = asked(scene, OTHER)
    talk.sendall(data)
    assert arrived(scene, len(data)) == data
    talk.close()
    assert scene.reasons(2) == ["placeholder-passed"]


def test_what_is_no_placeholder_passes(scene: Stage) -> None:
    """In every size of frame and every cut, unchanged."""
    frames = [frame(TEXT | LAST, b"y" * size, MASK) for size in (0, 1, 125, 126, 70_000)]
    data = b"".join(frames) + frame(PING, b"hi", MASK)
    for cut in (1 << 20, 1000):
        talk, _ = asked(scene, OTHER)
        for at in range(0, len(data), cut):
            talk.sendall(data[at : at + cut])
        assert arrived(scene, len(data)) == data
        talk.close()


def test_its_own_host_gets_the_placeholder_as_it_is_and_never_the_secret(scene: Stage) -> None:
    talk, head = asked(scene, OWN, b"x-api-key: " + KEY)
    assert head.startswith(b"HTTP/1.1 101") and SECRET.encode() in scene.origin.heard[-1]
    data = frame(TEXT | LAST, b"env " + KEY, MASK)
    talk.sendall(data)
    assert arrived(scene, len(data)) == data
    talk.close()
    assert scene.reasons(1) == ["placeholder-passed"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x03abc",  # without a mask
        b"\x83\x83" + MASK + b"abc",  # of no known kind
        b"\x89\xfe\x00\xff" + MASK,  # a ping as long as a message
        b"GET /x HTTP/1.1\r\nHost: other.example\r\n\r\n",
    ],
)
def test_what_is_no_frame_does_not_pass(scene: Stage, data: bytes) -> None:
    talk, _ = asked(scene, OTHER)
    talk.settimeout(5)
    with contextlib.suppress(OSError):
        talk.sendall(data)
        talk.recv(1)
    assert scene.reasons(1) == ["protocol"]
    assert arrived(scene, 1) == b""


def test_no_compression_is_agreed_upon_where_an_echo_must_be_seen(scene: Stage) -> None:
    offer = b"Sec-WebSocket-Extensions: permessage-deflate"
    key = b"x-api-key: " + KEY
    _, head = asked(scene, OWN, key, offer)
    assert head.startswith(b"HTTP/1.1 101")
    assert b"permessage-deflate" not in scene.origin.heard[-1]
    scene.origin.says["/ws"] = switching(scene, offer + b"\r\n")
    _, head = asked(scene, OWN, key, offer)
    assert head.startswith(b"HTTP/1.1 502")


def test_a_host_that_no_secret_goes_to_may_compress(scene: Stage) -> None:
    offer = b"Sec-WebSocket-Extensions: permessage-deflate"
    scene.origin.says["/ws"] = switching(scene, offer + b"\r\n")
    talk, head = asked(scene, OTHER, offer)
    assert head.startswith(b"HTTP/1.1 101") and b"permessage-deflate" in head
    assert offer in scene.origin.heard[-1]
    compressed = b"\xc1\x83" + MASK + b"abc"
    talk.sendall(compressed)
    assert arrived(scene, len(compressed)) == compressed
    talk.close()


def test_an_echo_in_a_frame_is_covered(scene: Stage) -> None:
    echo = frame(TEXT | LAST, b"you sent " + SECRET.encode())
    scene.origin.says["/ws"] = switching(scene, says=echo)
    talk, _ = asked(scene, OWN, b"x-api-key: " + KEY)
    heard = b""
    while len(heard) < len(echo):
        heard += talk.recv(1 << 16)
    assert heard == frame(TEXT | LAST, b"you sent " + b"*" * len(SECRET))


def test_where_nothing_may_be_sent_a_websocket_is_told_to_use_plain_http(scene: Stage) -> None:
    """A rule for GET alone would be none, if a WebSocket could send what it likes."""
    _, head = asked(scene, READ_ONLY)
    assert head.startswith(b"HTTP/1.1 426")
    assert scene.origin.heard == []
    assert scene.reasons(1) == ["method"]
    _, head = asked(scene, OTHER)
    assert head.startswith(b"HTTP/1.1 101")
