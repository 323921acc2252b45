"""A terminal over a WebSocket, and the frames it is made of."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import socket
import struct

import pytest

from ags.client import Client, frames
from ags.client.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Frame, Messages
from ags.client.websocket import End, Terminal
from ags.errors import AgsError, Missing
from tests.client.scripted import TOKEN, Answers, Scripted, problem, reply, scripted

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def framed(kind: int, data: bytes, *, final: bool = True) -> bytes:
    """As a server sends it: without a mask."""
    size = len(data)
    length = bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size)
    length = length if size < 1 << 16 else b"\x7f" + struct.pack(">Q", size)
    return bytes([kind | (0x80 if final else 0)]) + length + data


def unmasked(data: bytes) -> list[tuple[int, bytes]]:
    """The frames of a client."""
    found, at = [], 0
    while at < len(data):
        kind, size = data[at] & 0x0F, data[at + 1] & 0x7F
        assert data[at + 1] & 0x80, "a client has to mask"
        at += 2
        if size == 126:
            size, at = int.from_bytes(data[at : at + 2], "big"), at + 2
        elif size == 127:
            size, at = int.from_bytes(data[at : at + 8], "big"), at + 8
        key, body = data[at : at + 4], data[at + 4 : at + 4 + size]
        found.append((kind, bytes(b ^ key[i % 4] for i, b in enumerate(body))))
        at += 4 + size
    return found


class Speaks:
    """Shakes hands, says its piece, and keeps what it hears until the other side is gone."""

    def __init__(self, *said: bytes, protocol: str = "ags.v1", accept: str = "") -> None:
        self.said, self.protocol, self.accept = said, protocol, accept
        self.heard = b""
        self.server: Scripted | None = None

    def __call__(self, connection: socket.socket) -> None:
        assert self.server is not None
        key = self.server.asked[-1].headers["sec-websocket-key"].encode()
        accept = self.accept or base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        connection.sendall(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {self.protocol}\r\n"
            "\r\n".encode()
            + b"".join(self.said)
        )
        while piece := connection.recv(65536):
            self.heard += piece


async def _spend(url: str, ends: int) -> list[bytes | End]:
    found: list[bytes | End] = []
    async with Client(url, TOKEN).attach("fix-login", rows=24, columns=80) as terminal:
        for _ in range(ends):
            found.append(await terminal.read())
    return found


def shown(answer: Answers | bytes, ends: int = 1) -> tuple[list[bytes | End], Scripted]:
    with scripted(answer) as server:
        if isinstance(answer, Speaks):
            answer.server = server
        return asyncio.run(_spend(server.url, ends)), server


ENDED = framed(TEXT, json.dumps({"ended": 3, "reason": "it had enough"}).encode())


def test_output_comes_as_it_is_and_then_the_end() -> None:
    output = bytes(range(256)) * 300
    speaks = Speaks(
        framed(BINARY, b"a"), framed(BINARY, output[:60000]), framed(BINARY, b""), ENDED
    )
    found, server = shown(speaks, 5)
    end = End(3, "it had enough")
    assert found == [b"a", output[:60000], b"", end, end]
    request = server.asked[0]
    assert request.target == "/api/v1/runs/fix-login/terminal?rows=24&columns=80"
    assert request.headers["sec-websocket-protocol"] == f"ags.v1, bearer.{TOKEN}"
    assert request.headers["host"] == server.url.removeprefix("http://")
    assert "origin" not in request.headers and "authorization" not in request.headers


def test_parts_are_put_together_with_pings_between_them() -> None:
    parts = (
        framed(BINARY, b"one ", final=False),
        framed(PING, b"there?"),
        framed(CONTINUATION, b"two ", final=False),
        framed(PONG, b"unasked"),
        framed(CONTINUATION, b"three"),
    )
    speaks = Speaks(*parts)
    assert shown(speaks)[0] == [b"one two three"]
    assert unmasked(speaks.heard) == [(PONG, b"there?"), (CLOSE, struct.pack(">H", 1000))]


def test_what_is_typed_and_the_size_are_sent() -> None:
    speaks = Speaks()

    async def type_(url: str) -> None:
        async with Client(url, TOKEN).attach("a", rows=1, columns=2, shell=True) as terminal:
            await terminal.type(b"ls\n")
            terminal.resize(30, 100)
            await terminal.type(b"x" * 100_000)

    with scripted(speaks) as server:
        speaks.server = server
        asyncio.run(type_(server.url))
    assert server.asked[0].target.endswith("/terminal?rows=1&columns=2&shell=1")
    sent = unmasked(speaks.heard)
    assert sent[:2] == [(BINARY, b"ls\n"), (TEXT, b'{"rows": 30, "columns": 100}')]
    assert b"".join(data for _, data in sent[2:-1]) == b"x" * 100_000
    assert max(len(data) for _, data in sent) <= 65536
    assert sent[-1] == (CLOSE, struct.pack(">H", 1000))


@pytest.mark.parametrize(
    ("said", "end"),
    [
        (b"", End(None, "the connection to the server broke")),
        (framed(BINARY, b"abc")[:3], End(None, "the connection to the server broke")),
        (framed(CLOSE, struct.pack(">H", 1012)), End(None, "the server ended the connection")),
        (framed(CLOSE, struct.pack(">H", 1000) + b"bye"), End(None, "bye")),
        (framed(CLOSE, b""), End(None, "the server ended the connection")),
        (framed(TEXT, b'{"ended": null}'), End(None, "")),
        (framed(TEXT, b'{"ended": "x", "reason": 5}'), End(None, "")),
    ],
)
def test_every_end_is_one(said: bytes, end: End) -> None:
    class Leaves(Speaks):
        def __call__(self, connection: socket.socket) -> None:
            connection.settimeout(0.3)
            super().__call__(connection)

    assert shown(Leaves(said))[0] == [end]


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [(4404, Missing, "no such run"), (4409, AgsError, "it has no terminal")],
)
def test_what_the_server_refuses_after_the_handshake_is_raised(
    code: int, kind: type[AgsError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        shown(Speaks(framed(CLOSE, struct.pack(">H", code) + words.encode())))


@pytest.mark.parametrize(
    "said",
    [
        framed(BINARY | 0x40, b"x"),
        framed(3, b"x"),
        framed(11, b"x"),
        framed(PING, b"x" * 126),
        framed(PING, b"x", final=False),
        framed(CONTINUATION, b"x"),
        framed(BINARY, b"x", final=False) + framed(BINARY, b"y"),
        bytes([0x80 | BINARY, 0x80 | 1]) + b"abcdx",
        bytes([0x80 | BINARY, 127]) + struct.pack(">Q", 1 << 40),
        bytes([0x80 | BINARY, 127]) + b"\xff" * 8,
        framed(TEXT, b"nonsense"),
        framed(TEXT, b"[]"),
        framed(TEXT, b"[" * 60000),
    ],
)
def test_what_no_server_may_send_ends_it(said: bytes) -> None:
    speaks = Speaks(said)
    with pytest.raises(AgsError, match="the server sent"):
        shown(speaks)


def test_a_message_without_end_ends_it() -> None:
    part = b"x" * 60000
    parts = [framed(BINARY, part, final=False)] + [framed(CONTINUATION, part, final=False)] * 20
    with pytest.raises(AgsError, match="a message without end"):
        shown(Speaks(*parts))


@pytest.mark.parametrize("speaks", [Speaks(protocol="other"), Speaks(accept="AAAA")])
def test_a_handshake_that_is_not_ours_is_refused(speaks: Speaks) -> None:
    with pytest.raises(AgsError, match="no WebSocket of ours"):
        shown(speaks)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (problem(401, title="Cannot take the request", detail="it needs a token"), "needs a token"),
        (problem(404, title="Cannot find the run", detail="there is no run"), "there is no run"),
        (reply(b"<html>", 403, "text/html"), "answered 403"),
        (reply(b"", 302, extra="Location: http://127.0.0.1:9/\r\n"), "answered 302"),
        (b"SSH-2.0-x\r\n\r\n", "no WebSocket of ours"),
        (b"HTTP/1.1 101 X\r\n" + b"X: y\r\n" * 20_000, "no WebSocket of ours"),
        (b"", "reach the server"),
    ],
)
def test_a_refusal_comes_in_the_servers_words(answer: bytes, words: str) -> None:
    with pytest.raises(AgsError, match=words) as found:
        shown(answer)
    assert TOKEN not in f"{found.value!r} {found.value.hint}"


def test_pings_without_end_do_not_fill_the_memory() -> None:
    flood = framed(PING, b"x" * 125) * 1000

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key = (await reader.readuntil(b"\r\n\r\n")).partition(b"Key: ")[2].partition(b"\r\n")[0]
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        writer.write(
            b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: ags.v1\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        for _ in range(200):  # 25 MB, and nothing is read
            writer.write(flood)
            await writer.drain()
        writer.write(framed(BINARY, b"done"))

    async def spend() -> int:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with Client(f"http://127.0.0.1:{port}", TOKEN).attach("a", rows=1, columns=1) as seen:
            assert isinstance(seen, Terminal) and await seen.read() == b"done"
            waiting = seen._writer.transport.get_write_buffer_size()
            seen._writer.transport.abort()
        server.close()
        return waiting

    assert asyncio.run(spend()) < 4 << 20


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 100_001])
def test_a_clients_frames_are_masked_and_of_the_right_length(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    assert unmasked(frames.encode(BINARY, data[:size])) == [(BINARY, data[:size])]
    assert frames.encode(TEXT, b"x" * 20) != frames.encode(TEXT, b"x" * 20)


def test_the_example_of_the_standard_is_encoded_so() -> None:
    made = frames.encode(TEXT, b"Hello", mask=bytes.fromhex("37fa213d"))
    assert made == bytes.fromhex("818537fa213d7f9f4d5158")


def test_messages_keep_their_kind() -> None:
    messages = Messages()
    assert messages.take(Frame(TEXT, b"a", False)) is None
    assert messages.take(Frame(CONTINUATION, b"b")) == Frame(TEXT, b"ab")
    assert messages.take(Frame(BINARY, b"c")) == Frame(BINARY, b"c")
