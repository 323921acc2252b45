"""The scripted models, asked as an agent would ask them."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.internet.certificates import Authority
from tests.models import Call, Fail, ModelServer, Say, Script, Think
from tests.models.anthropic import Anthropic
from tests.models.gemini import Gemini
from tests.models.openai import OpenAI
from tests.models.script import Model

TURN = (Think("hm"), Say("hello there"), Call("run", {"command": "ls"}))
ROUTES = {
    Anthropic: ("/v1/messages", {"tools": [1], "stream": True}),
    OpenAI: ("/v1/responses", {"tools": [1]}),
    Gemini: ("/v1beta/models/m:streamGenerateContent?alt=sse", {"tools": [1]}),
}


def ask(
    server: ModelServer, path: str, body: object = None, context: ssl.SSLContext | None = None
) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"x-key": "abc"})
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def events(text: str) -> list[object]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("maker", ROUTES)
def test_a_turn_is_played_in_the_makers_format(maker: type[Model]) -> None:
    path, body = ROUTES[maker]
    with ModelServer(maker(Script(TURN))) as server:  # type: ignore[call-arg]
        status, text = ask(server, path, body)
    assert status == 200 and events(text)
    assert "hello there" in text and "hm" in text and "run" in text


def test_chat_completions_are_answered_too() -> None:
    with ModelServer(OpenAI(Script(TURN))) as server:
        _, text = ask(server, "/v1/chat/completions", {"tools": [1]})
    deltas = [choice["delta"] for e in events(text) for choice in e["choices"]]  # type: ignore[index]
    assert {"content": "hello there"} in deltas and text.rstrip().endswith("[DONE]")


def test_turns_follow_each_other_and_asides_do_not_count() -> None:
    script = Script(Say("one"), Say("two"))
    with ModelServer(Anthropic(script)) as server:
        path, body = ROUTES[Anthropic]
        assert "one" in ask(server, path, body)[1]
        assert "A title" in ask(server, path, {"stream": True})[1]
        assert "two" in ask(server, path, body)[1]
        assert "nothing more" in ask(server, path, body)[1]
        script.extend([Say("three")])
        assert "three" in ask(server, path, body)[1]


@pytest.mark.parametrize("maker", ROUTES)
def test_a_failure_is_the_servers_refusal(maker: type[Model]) -> None:
    path, body = ROUTES[maker]
    with ModelServer(maker(Script(Fail(429, "too much")))) as server:  # type: ignore[call-arg]
        status, text = ask(server, path, body)
    assert status == 429 and "too much" in text


def test_a_websocket_is_sent_back_to_http() -> None:
    with ModelServer(OpenAI(Script())) as server:
        assert ask(server, "/v1/responses")[0] == 426


def test_every_request_is_kept_with_its_headers(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ModelServer(Anthropic(Script()), log=log) as server:
        ask(server, "/v1/messages?beta=true", {"tools": [1]})
        assert ask(server, "/elsewhere")[0] == 404
    first, second = server.requests
    assert (first.header("X-Key"), first.asked, second.asked) == ("abc", {"tools": [1]}, {})
    assert server.seen("/v1/messages") == [first]
    assert [json.loads(line)["path"] for line in log.read_text().splitlines()] == [
        "/v1/messages?beta=true",
        "/elsewhere",
    ]


def test_it_speaks_tls_to_those_who_trust_its_authority(tmp_path: Path) -> None:
    authority = Authority()
    mine = tmp_path / "mine.pem"
    mine.write_bytes(authority.issue("127.0.0.1"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(mine)
    trusting = ssl.create_default_context(cadata=authority.certificate.decode())
    with ModelServer(Anthropic(Script(Say("over TLS"))), tls=tls) as server:
        path, body = ROUTES[Anthropic]
        assert "over TLS" in ask(server, path, body, trusting)[1]
        with pytest.raises(urllib.error.URLError):
            ask(server, path, body, ssl.create_default_context())
