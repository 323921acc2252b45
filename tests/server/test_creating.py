"""Whose run it is: of requests at the same moment, of one that a killed server left half done."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ags import runs
from ags.errors import AgsError
from ags.server import creating, keys
from ags.server.keys import Named
from ags.server.schema import NewRun
from tests.server.conftest import Answer, serving
from tests.server.shop import Shop, eventually, opened, problem
from tests.workspace.repositories import Checkout, checkout

# The first three who look for names have all found theirs before one of them takes them.
MEET = """
import asyncio
from ags import wishes
look, meeting, there = wishes.names, asyncio.Barrier(3), []
async def names(*given):
    made = await look(*given)
    there.append(made)
    if len(there) <= 3:
        await meeting.wait()
    return made
wishes.names = names
"""
# The first run that is made gets no supervisor.
ALONE = """
from ags.engine import Engine
from ags.errors import AgsError
supervise, tried = Engine._supervise, []
def once(*given):
    tried.append(given)
    if len(tried) == 1:
        raise AgsError("start its supervisor", cause="not this time")
    supervise(*given)
Engine._supervise = once
"""
KILLED = {
    "when it has said what it will do": "from ags.server.keys import Key as C; at = 'keep'; n = 1",
    "when the first run is made": "from ags.engine import Engine as C; at = '_supervise'; n = 0",
    "when the first run is at work": "from ags.server.keys import Key as C; at = 'note'; n = 0",
}
# In its first call, before or after it is done.
KILL = """
import os
done = getattr(C, at)
def last(*given):
    if n:
        done(*given)
    os._exit(9)
setattr(C, at, last)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as made:
        yield made


def project(folder: Path) -> Checkout:
    made = checkout(folder)
    made.write("a.txt", "hello\n")
    made.commit("first")
    return made


def wishes_of_three(shop: Shop, **more: object) -> list[dict[str, object]]:
    folders = [project(shop.server.home / f"p{n}").folder for n in range(3)]
    return [{**shop.wish("true # same goal", **more), "project": str(each)} for each in folders]


def post(shop: Shop, wish: dict[str, object], key: str) -> Answer:
    return shop.server.call("POST", "/runs", json=wish, headers={"Idempotency-Key": key})


def at_once(shop: Shop, wishes: list[dict[str, object]]) -> list[Answer]:
    """Each with a key of its own: its number."""
    answers: dict[int, Answer] = {}

    def send(number: int) -> None:
        answers[number] = post(shop, wishes[number], str(number))

    senders = [threading.Thread(target=send, args=(number,)) for number in range(len(wishes))]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    return [answers[number] for number in range(len(wishes))]


def items(answer: Answer, field: str) -> list[str]:
    return [each[field] for each in answer.json()["items"]]


@pytest.mark.parametrize("attempts", [1, 2])
def test_runs_that_nobody_named_all_begin_at_the_same_moment(tmp_path: Path, attempts: int) -> None:
    with opened(tmp_path, first=MEET) as shop:
        wishes = wishes_of_three(shop, attempts=attempts)
        answers = at_once(shop, wishes)
        assert [each.status for each in answers] == [201, 201, 201], [each.text for each in answers]
        assert len({name for each in answers for name in items(each, "name")}) == 3 * attempts
        for number, answer in enumerate(answers):
            again = post(shop, wishes[number], str(number))
            assert (again.status, items(again, "id")) == (200, items(answer, "id"))
            assert items(answer, "project") == [wishes[number]["project"]] * attempts


def test_of_those_who_want_one_name_the_others_never_get_the_run_of_the_first(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, first=MEET) as shop:
        wishes = wishes_of_three(shop, name="mine")
        answers = at_once(shop, wishes)
        assert sorted(each.status for each in answers) == [201, 409, 409]
        lost = [number for number, each in enumerate(answers) if each.status == 409]
        for number in lost:
            told = problem(post(shop, wishes[number], str(number)), 409)
            assert "has it" in told["detail"] and "choose another name" in told["hint"]
        eventually(lambda: shop.server.call("DELETE", "/runs/mine").status == 204)
        made = post(shop, wishes[lost[0]], str(lost[0]))
        assert (made.status, items(made, "project")) == (201, [wishes[lost[0]]["project"]])


def left_behind(shop: Shop, wish: dict[str, Any], key: str, *names: str) -> None:
    """As by a server that was killed before it started any of them."""
    hashed = creating._hashed(NewRun(**wish))
    with keys.opened(shop.server.ags_home, key, hashed) as held:
        assert held is not None
        held.keep(tuple(Named(name, runs.new_id(runs.now())) for name in names))


def test_a_key_does_not_take_a_run_of_another_project(shop: Shop) -> None:
    other = str(project(shop.server.home / "other").folder)
    named = shop.wish("true # take this", name="taken")
    left_behind(shop, {**named, "project": other}, "named", "taken")
    unnamed = shop.wish("true # take that")
    left_behind(shop, {**unnamed, "project": other}, "unnamed", "true-take-that")
    for wish in (named, unnamed):
        shop.told("POST", "/runs", wish, 201)
    told = problem(post(shop, {**named, "project": other}, "named"), 409)
    assert "has it" in told["detail"]
    made = post(shop, {**unnamed, "project": other}, "unnamed")
    assert (made.status, items(made, "project")) == (201, [other])
    assert items(made, "name") == ["true-take-that-v2"]


def record_of(shop: Shop, name: str) -> Path:
    for path in (shop.server.ags_home / "server/keys").iterdir():
        if name in json.loads(path.read_text())["names"]:
            return path
    raise AssertionError(name)


def test_a_key_is_forgotten_after_its_time_and_not_by_a_clock_that_was_set_back(
    tmp_path: Path,
) -> None:
    def known(since: float) -> bool:
        for path in (tmp_path / "server/keys").iterdir():
            path.write_text(json.dumps({**json.loads(path.read_text()), "at": time.time() - since}))
        with keys.opened(tmp_path, "key", "body") as held:
            assert held is not None
            return held.record is not None

    with keys.opened(tmp_path, "key", "body") as held:
        assert held is not None
        held.keep((Named("one", "id"),))
    assert known(since=-3600.0) and known(since=keys.KEEP - 3600)
    assert not known(since=keys.KEEP + 1)


def test_what_an_older_version_knew_of_a_key_is_read(shop: Shop) -> None:
    wish = shop.wish("true", name="older", attempts=2)
    first = post(shop, wish, "older")
    path = record_of(shop, "older-1")
    older = {key: each for key, each in json.loads(path.read_text()).items() if key != "chosen"}
    path.write_text(json.dumps(older))
    again = post(shop, wish, "older")
    assert (again.status, items(again, "id")) == (200, items(first, "id"))
    # It started the second, and did not come to note it: that may be anybody's run.
    path.write_text(json.dumps({**older, "begun": older["begun"][:1]}))
    assert "has it" in problem(post(shop, wish, "older"), 409)["detail"]
    path.write_text(json.dumps({**older, "begun": []}))
    assert "has it" in problem(post(shop, wish, "older"), 409)["detail"]


def test_nothing_is_kept_of_a_key_whose_request_began_nothing(shop: Shop) -> None:
    shop.done("true", name="in-the-way")
    kept = sorted((shop.server.ags_home / "server/keys").iterdir())
    wish = {**shop.wish("true", name="in-the-way"), "goal": "false"}
    left_behind(shop, wish, "refused", "in-the-way")
    problem(post(shop, wish, "refused"), 409)
    assert sorted((shop.server.ags_home / "server/keys").iterdir()) == kept


def test_a_run_whose_start_went_wrong_is_started_by_the_same_request(tmp_path: Path) -> None:
    with opened(tmp_path, first=ALONE) as shop:
        wish = shop.wish("true # alone")
        assert "not this time" in problem(post(shop, wish, "alone"), 409)["detail"]
        assert post(shop, wish, "alone").status == 200
        listed = shop.get("/runs")
        assert [each["name"] for each in listed["items"]] == ["true-alone"]
        shop.until("true-alone", lambda run: run["state"] == "done")


@pytest.mark.parametrize("when", KILLED)
def test_each_run_is_made_once_if_the_server_is_killed(tmp_path: Path, when: str) -> None:
    place = project(tmp_path / "project")
    wish: dict[str, object] = {"project": str(place.folder), "goal": "true", "agent": "shell"}
    wish["attempts"] = 2
    headers = {"Idempotency-Key": "once"}
    with serving(tmp_path, first=KILLED[when] + KILL) as server:
        with contextlib.suppress(OSError, http.client.HTTPException):
            server.call("POST", "/runs", json=wish, headers=headers)
        assert server.process.wait(60) == 9
    with serving(tmp_path) as server:
        made, again = (server.call("POST", "/runs", json=wish, headers=headers) for _ in range(2))
        assert (made.status in (200, 201), again.status) == (True, 200)
        assert items(made, "name") == items(again, "name") == ["true-1", "true-2"]
        assert items(made, "id") == items(again, "id") == sorted(items(made, "id"))
        shop = Shop(server, place)
        assert shop.get("/runs")["total"] == 2
        for name in items(made, "name"):
            shop.until(name, lambda run: run["state"] == "done")


def test_attempts_are_listed_in_their_order(shop: Shop) -> None:
    shop.told("POST", "/runs", shop.wish("true", name="row", attempts=3), 201)
    found = shop.get("/runs?group=row&order=oldest")["items"]
    assert [each["name"] for each in found] == ["row-1", "row-2", "row-3"]


# In our own words


@pytest.mark.parametrize("name", ["BAD NAME", "-x", "x--", "", "x" * 49])
def test_a_bad_name_is_answered_as_the_command_line_does(shop: Shop, name: str) -> None:
    told = shop.refused(422, "POST", "/runs", shop.wish("true", name=name))
    with pytest.raises(AgsError) as here:
        runs.checked_name(name)
    assert (told["detail"], told["hint"]) == (here.value.cause, here.value.hint)
    assert told["title"] == "Cannot use this name" and "fix-login" in told["hint"]


def test_the_document_tells_programs_what_a_name_is(shop: Shop) -> None:
    schemas = shop.get("/openapi.json")["components"]["schemas"]
    (name, _) = schemas["NewRun"]["properties"]["name"]["anyOf"]
    assert name == {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,47}$"}
    assert schemas["NewProject"]["properties"]["url"]["minLength"] == 1


@pytest.mark.parametrize("url", ["", " "])
@pytest.mark.parametrize("link", [False, True])
def test_a_project_without_an_address_is_told_what_one_is(shop: Shop, url: str, link: bool) -> None:
    told = shop.refused(422, "POST", "/projects", {"url": url, "link": link})
    assert told["detail"] == "there is no address" and "https://HOST/PATH" in told["hint"]
