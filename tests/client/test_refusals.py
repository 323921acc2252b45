"""What a server refuses, and what keeps it from answering, each in words that help."""

from __future__ import annotations

import socket

import pytest

from ags.client import Broken, Client, Refused
from ags.errors import AgsError, Missing, Unfit
from tests.client.answers import HEALTH
from tests.client.scripted import TOKEN, problem, reply, scripted

SAID = {
    "title": "Cannot apply",
    "detail": "the branch has other changes",
    "hint": "merge by hand",
    "subject": "fix-login",
}


def refused(answer: bytes) -> AgsError:
    with scripted(answer) as server, pytest.raises(AgsError) as found:
        Client(server.url, TOKEN).health()
    return found.value


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((each, Refused) for each in (400, 401, 403, 405, 408, 409, 413, 415, 421, 431)),
        *((each, Refused) for each in (500, 503, 507)),
        (404, Missing),
        (422, Unfit),
    ],
)
def test_a_problem_comes_in_the_servers_own_words(status: int, kind: type[AgsError]) -> None:
    error = refused(problem(status, **SAID))
    assert type(error) is kind
    assert (error.what, error.cause, error.hint, error.subject) == (
        "apply",
        "the branch has other changes",
        "merge by hand",
        "fix-login",
    )
    assert error.exit_code == 1


def test_a_conflict_names_its_files() -> None:
    error = refused(problem(409, **SAID, files=["a.txt", "b.txt"]))
    assert isinstance(error, Refused)
    assert (error.status, error.files) == (409, ("a.txt", "b.txt"))


def test_each_value_that_cannot_be_meant_is_named() -> None:
    faults = [{"where": "body.goal", "what": "it is empty"}, {"where": "x", "what": "y"}, 5]
    error = refused(problem(422, title="Cannot take the request", errors=faults))
    assert error.cause == "body.goal: it is empty; x: y"


@pytest.mark.parametrize(
    "answer",
    [
        problem(500),
        problem(409, title=5),
        reply(b"<html>", 502, "text/html"),
        reply(b"{", 409, "application/problem+json"),
        reply(b"[]", 404, "application/problem+json"),
        reply(b"[" * 100_000, 409, "application/problem+json"),
        reply({"title": "x"}, 404, "application/json"),
    ],
)
def test_who_refuses_otherwise_is_no_server_of_ours(answer: bytes) -> None:
    error = refused(answer)
    assert isinstance(error, Refused) and "not as a server of AGS does" in error.cause


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-", reply(HEALTH)[:-1]])
def test_an_answer_that_breaks_off_is_broken(answer: bytes) -> None:
    with scripted(answer) as server, pytest.raises(Broken, match="reach the server"):
        Client(server.url, TOKEN).health()


def test_nobody_there_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(Broken, match="refused") as found:
        Client(f"http://127.0.0.1:{port}", TOKEN).health()
    assert "ags up" in found.value.hint


def test_one_that_does_not_answer_is_not_waited_for_without_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", TOKEN, timeout=0.2)
        with pytest.raises(Broken, match="does not answer"):
            client.health()


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "a\r\nX: y", "ä", "\0", "x" * 5000])
def test_what_is_no_token_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(Unfit, match="use the token") as found:
        Client("http://127.0.0.1:8080", token)
    assert token == "" or token not in f"{found.value!r} {found.value.hint}"
