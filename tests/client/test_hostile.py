"""A server that is none of ours, or means ill."""

from __future__ import annotations

import contextlib
import socket
import traceback

import pytest

from ags.client import Client, link
from ags.errors import AgsError
from tests.client.answers import HEALTH
from tests.client.scripted import TOKEN, Answers, problem, reply, scripted

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def endlessly(first: bytes, piece: bytes) -> Answers:
    def answer(connection: socket.socket) -> None:
        connection.sendall(first)
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(piece)

    return answer


def failing(answer: Answers | bytes) -> AgsError:
    """And whatever it is, the token is nowhere in what a person or a log would see of it."""
    with scripted(answer) as server, pytest.raises(AgsError) as found:
        Client(server.url, TOKEN, timeout=60).health()
    told = "".join(traceback.format_exception(found.value))
    assert TOKEN not in f"{told} {found.value!r} {vars(found.value)}"
    return found.value


def test_the_twin_of_them_all_is_answered() -> None:
    with scripted(reply(HEALTH)) as server:
        assert Client(server.url, TOKEN).health()["status"] == "ok"


@pytest.mark.parametrize(
    "answer",
    [
        endlessly(HEAD, b"X-Header: " + b"x" * 1000 + b"\r\n"),
        endlessly(HEAD + b"X: ", b"x" * 65536),
        endlessly(b"", b"x" * 65536),
        endlessly(b"HTTP/1.1 ", b"9" * 65536),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 99 X\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
    ],
    ids=range(9),
)
def test_what_is_not_http_ends_soon(answer: Answers | bytes) -> None:
    assert failing(answer).what in ("use the server", "reach the server")


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "MOST", 4 << 20)
    for first in (b"Content-Length: 99999999999\r\n\r\n", b"\r\n"):
        assert "longer than 4 MiB" in failing(endlessly(HEAD + first, b" " * 65536)).cause
    chunks = endlessly(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b" " * 4096 + b"\r\n"
    )
    assert "longer than 4 MiB" in failing(chunks).cause


def test_a_refusal_without_end_is_cut() -> None:
    head = b"HTTP/1.1 409 X\r\nContent-Type: application/problem+json\r\n\r\n"
    assert "longer than 1 MiB" in failing(endlessly(head, b" " * 65536)).cause


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_is_led_elsewhere(status: int) -> None:
    with scripted(reply(HEALTH), last=True) as victim:
        answer = reply(b"", status, extra=f"Location: {victim.url}/api/v1/health\r\n")
        assert "leads elsewhere" in failing(answer).cause
    assert victim.asked == []


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (reply(HEALTH, media="text/html"), "text/html, not JSON"),
        (reply(b"<html>"), "not as expected"),
        (reply(b"\xff\xfe"), "not as expected"),
        (reply(b"[" * 200_000), "nested too deeply"),
        (reply([]), "it is not an object"),
        (reply(HEALTH | {"status": "fine"}), "status is not one of"),
        (reply(HEALTH | {"runs": {"done": "1"}}), "runs.done is not a int"),
    ],
)
def test_an_answer_of_another_kind_or_shape_is_refused(answer: bytes, cause: str) -> None:
    assert cause in failing(answer).cause


def test_a_token_that_is_sent_back_is_not_told() -> None:
    """It would be in the error, which is shown and logged."""
    error = failing(problem(409, title=f"Cannot {TOKEN}", detail=TOKEN, hint=TOKEN, subject=TOKEN))
    assert "…" in error.cause


def test_a_client_shows_only_the_address() -> None:
    client = Client("http://localhost:8080", TOKEN)
    assert repr(client) == "Client('http://127.0.0.1:8080')"
