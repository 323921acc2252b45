"""What a run was refused is allowed for good, and taken back; judged at the origin's log."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ags import runs
from ags.control import client
from ags.egress.audit import Chain, Line
from tests.server.shop import Shop, eventually
from tests.server.test_asks import Origin, leading_to, policy_of
from tests.web.past import past

TRIES = (
    "echo at work; for each in first second third; do curl -s -m 60 http://new.example/$each-{};"
    " while ! [ -e $each ]; do sleep 0.05; done; done"
)
DENIES = "deny:\n  - bad.example\n"
LOOKS = "domains:\n  - {host: narrow.example, methods: [GET]}\n"
PORT_80 = "{host: new.example, ports: [80]}"
ALWAYS = {"verdict": "always"}


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with contextlib.closing(Origin()) as made:
        yield made


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, origin: Origin) -> Iterator[Shop]:
    with leading_to(origin, tmp_path_factory.mktemp("shop"), f"# mine\n{LOOKS}{DENIES}") as made:
        yield made


def refused(
    host: str, reason: str = "not-listed", *, method: str | None = None, path: str = "/v1/items"
) -> Line:
    known = None if method is None else path
    return Line(1.0, host, 443, "tls", method, known, False, reason, "", "")


ALLOWED = Line(1.0, "new.example", 80, "http", "GET", "/", True, "allowed", "new.example", "user")
LINES = (
    refused("good.example"),
    ALLOWED,
    refused("bad.example", "denied"),
    refused("bad.example"),
    refused("192.0.2.1"),
    refused("narrow.example", "method", method="POST"),
    refused("late.example", "ask-timeout", method="GET"),
    refused("good.example", "narrowed"),
    refused("evil.example\n  - everything"),
    refused("*.example"),
    refused("narrow.example", "method", method="POST", path="/v1/..."),
    refused("narrow.example", "method", method="POST", path="/users/*"),
    # A rule that only the run itself knows, such as that of an agent at a shell's hand.
    replace(refused("inner.example", "path", method="GET"), rule="inner.example", layer="built-in"),
)


@pytest.fixture(scope="module")
def over(shop: Shop) -> str:
    """A run that is over, and all of this is in its log."""
    run = past(shop).finished("over")
    chain = Chain()
    log = runs.directory(shop.server.ags_home, run.id) / "egress.jsonl"
    log.write_bytes(b"".join(chain.append(line) for line in LINES))
    return run.name


def allowed(shop: Shop, run: str, number: int, **more: object) -> Any:
    return shop.told("POST", f"/runs/{run}/egress/{number}/allow", {**ALWAYS, **more})


def taken_back(shop: Shop, told: Any, query: str = "") -> Any:
    body = {"rule": told["rule"], "revision": told["revision"]}
    return shop.told("POST", f"/settings/policy/withdraw{query}", body)


def denials(shop: Shop, name: str) -> list[Any]:
    items: list[Any] = shop.get(f"/runs/{name}/egress?denied=true")["items"]
    return items


def test_a_run_at_work_goes_where_it_was_refused_until_that_is_taken_back(
    shop: Shop, origin: Origin
) -> None:
    before = policy_of(shop).read_text()
    with shop.working(TRIES.format("own"), name="own"):
        eventually(lambda: denials(shop, "own"))
        told = allowed(shop, "own", denials(shop, "own")[0]["number"])
        assert (told["added"], told["rule"], told["reloaded"]) == (True, PORT_80, ["own"])
        assert f"- {PORT_80}\n" in policy_of(shop).read_text() == told["text"]
        (shop.workspace("own") / "first").touch()
        eventually(lambda: "/second-own" in origin.seen)
        assert "/first-own" not in origin.seen

        assert taken_back(shop, told)["reloaded"] == ["own"]
        assert policy_of(shop).read_text() == before
        (shop.workspace("own") / "second").touch()
        eventually(lambda: len(denials(shop, "own")) == 2)
        assert "/third-own" not in origin.seen


def granted(shop: Shop, run: str, seconds: float) -> Any:
    body = {"verdict": "for", "seconds": seconds}
    return shop.told("POST", f"/runs/{run}/egress/{denials(shop, run)[0]['number']}/allow", body)


def test_for_a_time_it_goes_there_and_then_no_more(shop: Shop, origin: Origin) -> None:
    before = policy_of(shop).read_text()
    with shop.working(TRIES.format("timed"), name="timed"):
        eventually(lambda: denials(shop, "timed"))
        told = granted(shop, "timed", 3600)
        assert (told["rule"], told["added"], told["reloaded"]) == (PORT_80, False, [])
        assert told["until"] > time.time() + 3000
        # A policy that is read anew takes away nothing that was granted.
        run_dir = runs.directory(shop.server.ags_home, shop.get("/runs/timed")["id"])
        asyncio.run(client.ask(run_dir, "reload"))
        (shop.workspace("timed") / "first").touch()
        eventually(lambda: "/second-timed" in origin.seen)

        granted(shop, "timed", 0.1)
        eventually(lambda: f"no longer allowed: {PORT_80}" in shop.log("timed"))
        (shop.workspace("timed") / "second").touch()
        eventually(lambda: len(denials(shop, "timed")) == 2)
    assert "/third-timed" not in origin.seen and "/first-timed" not in origin.seen
    assert policy_of(shop).read_text() == before


def test_a_run_that_is_over_is_granted_nothing(shop: Shop, over: str) -> None:
    body = {"verdict": "for", "seconds": 60}
    told = shop.refused(409, "POST", f"/runs/{over}/egress/1/allow", body)
    assert "not at work" in told["detail"]


def test_the_rule_for_a_client_is_in_the_policy_of_that_client(shop: Shop) -> None:
    before = policy_of(shop).read_text()
    name = shop.done("curl -s -m 60 http://new.example/", name="of-acme", client="acme")
    told = allowed(shop, name, 1)
    file = Path(told["file"])
    assert (told["client"], file) != ("", policy_of(shop)) and PORT_80 in file.read_text()
    assert policy_of(shop).read_text() == before
    taken_back(shop, told, "?client=acme")
    assert PORT_80 not in file.read_text()


def test_what_is_allowed_by_now_needs_no_rule(shop: Shop, over: str) -> None:
    first, again = allowed(shop, over, 1), allowed(shop, over, 1)
    assert first["rule"] == "{host: good.example, ports: [443]}"
    assert (again["added"], again["rule"], again["text"]) == (False, "", first["text"])
    taken_back(shop, first)


def test_where_a_rule_looks_inside_only_what_was_refused_is_added(shop: Shop, over: str) -> None:
    before = policy_of(shop).read_text()
    told = allowed(shop, over, 6)
    assert told["rule"] == (
        '{host: narrow.example, ports: [443], methods: [POST], paths: ["/v1/items"]}'
    )
    taken_back(shop, told)
    assert policy_of(shop).read_text() == before


def test_where_a_rule_of_the_run_looked_inside_it_is_no_wider(shop: Shop, over: str) -> None:
    told = allowed(shop, over, 13)
    assert told["rule"] == (
        '{host: inner.example, ports: [443], methods: [GET], paths: ["/v1/items"]}'
    )
    taken_back(shop, told)


def test_what_nobody_answered_in_time_is_allowed_as_it_was_asked(shop: Shop, over: str) -> None:
    told = allowed(shop, over, 7)
    assert told["rule"] == "{host: late.example, ports: [443]}"
    taken_back(shop, told)


@pytest.mark.parametrize(
    ("number", "status"),
    [*((number, 409) for number in (2, 3, 4, 5, 8, 9, 10, 11, 12)), (14, 404), (0, 422)],
)
def test_what_no_rule_can_allow_changes_nothing(
    shop: Shop, over: str, number: int, status: int
) -> None:
    before = policy_of(shop).read_bytes()
    shop.refused(status, "POST", f"/runs/{over}/egress/{number}/allow", ALWAYS)
    assert policy_of(shop).read_bytes() == before


BAD: tuple[dict[str, object], ...] = (
    {},
    {"verdict": "once"},
    {"verdict": "for"},
    {"verdict": "for", "seconds": 0},
    {"verdict": "for", "seconds": 10**9},
    {"verdict": "always", "seconds": 60},
    {"verdict": "always", "host": "evil.example"},
    {"verdict": "always", "revision": "0"},
)


@pytest.mark.parametrize("body", BAD, ids=str)
def test_what_cannot_be_meant_changes_nothing(shop: Shop, over: str, body: object) -> None:
    before = policy_of(shop).read_bytes()
    shop.refused(422, "POST", f"/runs/{over}/egress/1/allow", body)
    shop.refused(404, "POST", "/runs/nobody/egress/1/allow", ALWAYS)
    assert policy_of(shop).read_bytes() == before


def test_a_policy_that_changed_meanwhile_stays(shop: Shop, over: str) -> None:
    before = policy_of(shop).read_text()
    stale = {**ALWAYS, "revision": "0" * 64}
    shop.refused(409, "POST", f"/runs/{over}/egress/1/allow", stale)
    assert policy_of(shop).read_text() == before
    seen = shop.get("/settings/policy")["revision"]
    told = allowed(shop, over, 1, revision=seen)
    policy_of(shop).write_text(f"{told['text']}# by hand\n")
    body = {"rule": told["rule"], "revision": told["revision"]}
    shop.refused(409, "POST", "/settings/policy/withdraw", body)
    assert "good.example" in policy_of(shop).read_text()
    policy_of(shop).write_text(before)


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ("narrow.example", 409),
        ("{host: narrow.example, ports: [443]}", 409),
        ("{host: absent.example, ports: [443]}", 409),
        ("good.example\n- narrow.example", 422),
        ("{host: narrow.example, sorts: []}", 422),
        ("[", 422),
        ("'*'", 422),
    ],
)
def test_only_the_very_rule_is_taken_back(shop: Shop, rule: str, status: int) -> None:
    before = policy_of(shop).read_bytes()
    body = {"rule": rule, "revision": shop.get("/settings/policy")["revision"]}
    shop.refused(status, "POST", "/settings/policy/withdraw", body)
    assert policy_of(shop).read_bytes() == before


def test_a_run_with_a_policy_of_its_own_is_not_helped_by_the_persons(
    shop: Shop, over: str, tmp_path: Path
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("domains:\n  - elsewhere.example\n")
    name = past(shop).finished("judged-by-its-own").name
    run_dir, template = (
        runs.directory(shop.server.ags_home, shop.get(f"/runs/{each}")["id"])
        for each in (name, over)
    )
    (run_dir / "egress.jsonl").write_bytes((template / "egress.jsonl").read_bytes())
    with runs.hold(run_dir) as held:
        held.save(replace(held.run, order=replace(held.run.order, policy=own)))
    before = policy_of(shop).read_bytes()
    told = shop.refused(409, "POST", f"/runs/{name}/egress/1/allow", ALWAYS)
    assert "a policy of its own" in told["detail"] and str(own) in told["hint"]
    assert policy_of(shop).read_bytes() == before
