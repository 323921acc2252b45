"""Each method asks what the API answers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from ags.client import Broken, Client, again
from ags.client.errors import PROBLEM, Refused
from ags.errors import Missing
from tests.client.answers import (
    ASK,
    BRANCH,
    DIFF,
    DONE,
    HEALTH,
    PORT,
    PROJECT,
    ROW,
    RUN,
    listed,
)
from tests.client.scripted import TOKEN, Asked, reply, scripted

ID = str(PROJECT["id"])
FOLDER = {"path": "", "kind": "folder", "truncated": False, "entries": []}
EVENT = {"seq": 3, "ts": 1.5, "kind": "message", "text": "hi"}
Does = Callable[[Client], Any]


def asked(does: Does, answer: bytes) -> tuple[Asked, Any]:
    with scripted(answer) as server:
        found = does(Client(server.url, TOKEN))
    return server.asked[0], found


CASES: list[tuple[Does, object, str, str, object, object]] = [
    (
        lambda c: c.runs(),
        listed(ROW),
        "GET",
        "/runs?order=newest&limit=100&offset=0",
        None,
        listed(ROW),
    ),
    (
        lambda c: c.runs(
            state=("done", "failed"),
            agent="pi",
            project="/a b",
            client="",
            asking=True,
            group="g",
            words="x&y",
            order="name",
            limit=5,
            offset=10,
        ),
        listed(),
        "GET",
        "/runs?state=done&state=failed&agent=pi&project=%2Fa+b&client=&asking=true&group=g"
        "&words=x%26y&order=name&limit=5&offset=10",
        None,
        listed(),
    ),
    (lambda c: c.run("fix-login"), RUN, "GET", "/runs/fix-login", None, RUN),
    (lambda c: c.stop("a"), RUN, "POST", "/runs/a/stop", {"now": False}, RUN),
    (lambda c: c.stop("a", now=True), RUN, "POST", "/runs/a/stop", {"now": True}, RUN),
    (lambda c: c.restart("a"), RUN, "POST", "/runs/a/restart", {}, RUN),
    (lambda c: c.tell("a", "go on"), RUN, "POST", "/runs/a/tell", {"text": "go on"}, RUN),
    (lambda c: c.diff("a"), DIFF, "GET", "/runs/a/diff", None, DIFF),
    (lambda c: c.apply("a"), DONE, "POST", "/runs/a/apply", {"how": "merge"}, DONE),
    (
        lambda c: c.apply("a", how="push", into="x", expected="b" * 40, remote="origin"),
        DONE,
        "POST",
        "/runs/a/apply",
        {"how": "push", "into": "x", "expected": "b" * 40, "remote": "origin"},
        DONE,
    ),
    (lambda c: c.undo("a"), DONE, "POST", "/runs/a/undo", {}, DONE),
    (
        lambda c: c.files("a", "x/é", at="base"),
        FOLDER,
        "GET",
        "/runs/a/files?path=x%2F%C3%A9&at=base",
        None,
        FOLDER,
    ),
    (
        lambda c: c.page("a", 2, kind="message"),
        {"items": [EVENT], "last": 3},
        "GET",
        "/runs/a/events?after=2&limit=500&kind=message",
        None,
        {"items": [EVENT], "last": 3},
    ),
    (
        lambda c: c.egress("a", denied=True),
        {"items": [{"number": 1}]},
        "GET",
        "/runs/a/egress?after=0&limit=500&denied=true",
        None,
        [{"number": 1}],
    ),
    (lambda c: c.asks(), {"items": [ASK]}, "GET", "/asks", None, [ASK]),
    (lambda c: c.asks("a"), {"items": [ASK]}, "GET", "/runs/a/asks", None, [ASK]),
    (
        lambda c: c.answer("a", "kfw1", "once"),
        ASK,
        "POST",
        "/runs/a/asks/kfw1",
        {"verdict": "once"},
        ASK,
    ),
    (
        lambda c: c.answer("a", "kfw1", "for", seconds=60, uses=3),
        ASK,
        "POST",
        "/runs/a/asks/kfw1",
        {"verdict": "for", "seconds": 60, "uses": 3},
        ASK,
    ),
    (lambda c: c.ports("a"), {"items": [PORT]}, "GET", "/runs/a/ports", None, [PORT]),
    (
        lambda c: c.publish("a", 5173),
        PORT,
        "POST",
        "/runs/a/ports",
        {"port": 5173, "host_port": 0},
        PORT,
    ),
    (
        lambda c: c.projects(client="acme"),
        listed(PROJECT),
        "GET",
        "/projects?client=acme&limit=500&offset=0",
        None,
        [PROJECT],
    ),
    (lambda c: c.project(ID), PROJECT, "GET", f"/projects/{ID}", None, PROJECT),
    (
        lambda c: c.add_project("/srv/shop", client="acme", link=True),
        PROJECT,
        "POST",
        "/projects",
        {"url": "/srv/shop", "client": "acme", "link": True},
        PROJECT,
    ),
    (lambda c: c.add_project("git@x:y"), PROJECT, "POST", "/projects", {"url": "git@x:y"}, PROJECT),
    (
        lambda c: c.add_project("/x", client="acme"),
        PROJECT,
        "POST",
        "/projects",
        {"url": "/x", "client": "acme"},
        PROJECT,
    ),
    (lambda c: c.pull(ID), PROJECT, "POST", f"/projects/{ID}/pull", {}, PROJECT),
    (
        lambda c: c.branches(ID),
        {"items": [BRANCH]},
        "GET",
        f"/projects/{ID}/branches",
        None,
        [BRANCH],
    ),
    (lambda c: c.health(), HEALTH, "GET", "/health", None, HEALTH),
]


@pytest.mark.parametrize(
    ("does", "answer", "method", "target", "body", "found"), CASES, ids=range(len(CASES))
)
def test_each_method_asks_for_what_it_names(
    does: Does, answer: object, method: str, target: str, body: object, found: object
) -> None:
    request, given = asked(does, reply(answer))
    assert (request.method, request.target) == (method, f"/api/v1{target}")
    assert given == found
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    if body is None:
        assert request.body == b"" and "content-type" not in request.headers
    else:
        assert request.json() == body
        assert request.headers["content-type"] == "application/json"


def test_removing_answers_nothing() -> None:
    request, found = asked(lambda c: c.remove("a", force=True), reply(b"", 204))
    assert (request.method, request.target, found) == ("DELETE", "/api/v1/runs/a?force=true", None)
    request, _ = asked(lambda c: c.remove_project(ID), reply(b"", 204))
    assert request.target == f"/api/v1/projects/{ID}?force=false"


def test_files_patches_and_logs_come_as_they_are() -> None:
    raw = bytes(range(256))
    octets = reply(raw, media="application/octet-stream")
    request, found = asked(lambda c: c.raw("a", "x y"), octets)
    assert found == raw and request.target.endswith("/files/raw?path=x+y&at=workspace")
    assert asked(lambda c: c.patch("a"), reply(raw, media="text/x-diff"))[1] == raw
    assert asked(
        lambda c: c.log("a"), reply("ä\udcff".encode("utf-8", "replace"), media="text/plain")
    )[1]


def test_all_projects_are_told_though_they_come_in_pages() -> None:
    first, second = ({"items": [PROJECT] * count, "total": 503} for count in (500, 3))
    with scripted(reply(first), reply(second)) as server:
        assert len(Client(server.url, TOKEN).projects()) == 503
    assert [each.target.partition("?")[2] for each in server.asked] == [
        "limit=500&offset=0",
        "limit=500&offset=500",
    ]
    gone = {"items": [], "total": 1}
    with scripted(reply(gone)) as server:
        assert Client(server.url, TOKEN).projects() == []


def test_a_start_says_only_what_was_asked_for() -> None:
    request, found = asked(
        lambda c: c.start(project="/srv/shop", goal="x", limits={"memory": "2G"}, attempts=2),
        reply(listed(ROW, ROW), 201),
    )
    assert found == [ROW, ROW]
    assert request.json() == {
        "project": "/srv/shop",
        "goal": "x",
        "agent": "claude",
        "base": "HEAD",
        "limits": {"memory": "2G"},
        "network": True,
        "allow": [],
        "publish": [],
        "attempts": 2,
    }
    assert len(request.headers["idempotency-key"]) >= 20


def test_a_start_whose_answer_got_lost_is_asked_for_again_under_the_same_key() -> None:
    whole = reply(listed(ROW))
    for lost in (b"", b"HTTP/1.1 201 Cre", whole[:-20]):
        with scripted(lost, whole) as server:
            made = Client(server.url, TOKEN).start(project="p", goal="g")
        first, second = server.asked
        assert made == [ROW] and first.body == second.body
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


BUSY = {"title": "Cannot start the runs", "detail": "it is under way", "status": 409}
LATER = reply(BUSY, 409, PROBLEM, "Retry-After: 1\r\n")


def test_a_start_is_asked_for_until_the_server_is_back_and_done_with_it() -> None:
    with scripted(b"", LATER, b"", LATER, reply(listed(ROW))) as server:
        assert Client(server.url, TOKEN).start(project="p", goal="g") == [ROW]
    assert len(server.asked) == 5
    assert len({each.headers["idempotency-key"] for each in server.asked}) == 1


def test_a_start_is_not_asked_for_again_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "PATIENCE", 0.0)
    for answer, sort in ((b"", Broken), (LATER, Refused)):
        with scripted(answer, last=True) as server, pytest.raises(sort):
            Client(server.url, TOKEN).start(project="p", goal="g")
        assert len(server.asked) == 1


def test_a_start_is_asked_for_once_where_nobody_listens_or_says_no(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def paused(seconds: float) -> None:
        raise AssertionError(f"waits {seconds} s for nothing")

    monkeypatch.setattr("ags.client.again.time.sleep", paused)
    says_no = reply(BUSY, 409, PROBLEM)
    with scripted(says_no) as server, pytest.raises(Refused, match="under way"):
        Client(server.url, TOKEN).start(project="p", goal="g")
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        with pytest.raises(Broken, match="refused"):
            Client(f"http://127.0.0.1:{deaf.getsockname()[1]}", TOKEN).start(project="p", goal="g")


def test_two_starts_have_two_keys() -> None:
    with scripted(reply(listed(ROW)), reply(listed(ROW))) as server:
        client = Client(server.url, TOKEN)
        client.start(project="p", goal="g")
        client.start(project="p", goal="g")
    assert len({each.headers["idempotency-key"] for each in server.asked}) == 2


def test_nothing_else_is_done_twice() -> None:
    with scripted(b"", reply(RUN), last=True) as server:
        client = Client(server.url, TOKEN)
        with pytest.raises(Exception, match="without an answer"):
            client.tell("a", "go on")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a b", "a%2e", "a\n", "a?x", "ä", "-a", "\0"]
)
def test_what_is_no_name_is_not_asked_for(name: str) -> None:
    client = Client("http://127.0.0.1:9", TOKEN)
    for does in (client.run, client.diff, client.undo, client.project):
        with pytest.raises(Missing, match="there is no"):
            does(name)


def test_below_a_path_of_a_proxy_everything_is_below_it() -> None:
    with scripted(reply(HEALTH)) as server:
        Client(f"{server.url}/team/ags", TOKEN).health()
    assert server.asked[0].target == "/team/ags/api/v1/health"


def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert asked(lambda c: c.health(), reply(HEALTH))[1] == HEALTH
