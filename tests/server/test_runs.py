"""Runs over a real socket: started, listed, stopped, told, taken away; real sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ags import runs
from ags.events import Writer
from ags.hooks.call import read
from ags.hooks.decide import Bench, Decider
from ags.hooks.model import Ground
from ags.server import keys
from tests.hooks.test_person import nobody
from tests.server.shop import HOLDS, Shop, eventually, opened, problem
from tests.web.past import past

PARTLY = "partly"
# A branch is put in the way of the third just before it starts.
IN_THE_WAY = f"""
import subprocess
from ags.engine import Engine
start = Engine.start
async def meddled(self, wish):
    if wish.name == "{PARTLY}-3":
        subprocess.run(("git", "-C", wish.folder, "branch", "agent--" + wish.name), check=True)
    return await start(self, wish)
Engine.start = meddled
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop"), IN_THE_WAY) as made:
        yield made


def test_a_run_is_started_works_and_is_told_of(shop: Shop) -> None:
    name = shop.done(name="first-run", limits={"memory": "1G", "timeout": "10m"}, network=False)
    run = shop.get(f"/runs/{name}")
    assert (run["name"], run["state"], run["agent"]) == ("first-run", "done", "shell")
    assert run["result"]["files"] == 1 and run["branch"] == "agent--first-run"
    assert run["limits"] == {"memory": 1 << 30, "cpus": None, "pids": 4096, "timeout": 600.0}
    assert run["network"] is False and run["attempts"] == ["first-run"]
    assert run["left"] == ["tell", "restart", "apply", "remove"]
    assert shop.get(f"/runs/{run['id']}") == run


def test_a_name_is_made_of_the_goal(shop: Shop) -> None:
    assert shop.done("true # tidy the docs") == "true-tidy-docs"


def test_attempts_share_a_group(shop: Shop) -> None:
    told = shop.told("POST", "/runs", shop.wish("true", name="try", attempts=3), 201)
    names = [each["name"] for each in told["items"]]
    assert (names, told["total"]) == (["try-1", "try-2", "try-3"], 3)
    for name in names:
        shop.until(name, lambda run: run["ended"] is not None)
    assert shop.get("/runs/try-2")["attempts"] == names
    assert [each["name"] for each in shop.get("/runs?group=try&order=name")["items"]] == names


def test_nothing_starts_if_one_of_the_names_is_taken(shop: Shop) -> None:
    shop.done("true", name="taken-2")
    told = shop.refused(409, "POST", "/runs", shop.wish("true", name="taken", attempts=3))
    assert "taken-2" in told["subject"]
    shop.refused(404, "GET", "/runs/taken-1")


def test_nothing_starts_if_a_branch_is_in_the_way(shop: Shop) -> None:
    shop.project.git("branch", "agent--branched-2")
    told = shop.refused(409, "POST", "/runs", shop.wish("true", name="branched", attempts=2))
    assert "agent--branched-2" in told["detail"]
    shop.refused(404, "GET", "/runs/branched-1")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"agent": "nobody"}, 422),
        ({"base": "no-such-branch"}, 409),
        ({"base": "--upload-pack=x"}, 409),
        ({"limits": {"memory": "much"}}, 422),
        ({"limits": {"disk": "1G"}}, 422),
        ({"allow": ["*"]}, 422),
        ({"allow": ["a b"]}, 422),
        ({"client": "../x"}, 422),
        ({"backend": "none"}, 422),
        ({"model": "--evil"}, 422),
        ({"project": "relative"}, 404),
        ({"project": "project-" + "0" * 20}, 404),
        ({"project": "/no/such/folder"}, 404),
        ({"project": "/"}, 409),
        ({"attempts": 21}, 422),
        ({"attempts": "2"}, 422),
        ({"publish": [0]}, 422),
        ({"name": "-x"}, 422),
        ({"name": "x--"}, 422),
        ({"goal": "x" * 200_000}, 422),
        ({"goal": "nul\0"}, 422),
        ({"unknown": 1}, 422),
    ],
    ids=str,
)
def test_what_cannot_be_meant_starts_nothing(
    shop: Shop, change: dict[str, object], status: int
) -> None:
    before = shop.get("/runs?limit=1")["total"]
    shop.refused(status, "POST", "/runs", {**shop.wish("true"), **change})
    assert shop.get("/runs?limit=1")["total"] == before


@pytest.mark.parametrize("path", ["/proc/1/root", "/proc/self/fd", "/dev/null", "/" + "x" * 4000])
def test_odd_places_are_no_projects(shop: Shop, path: str) -> None:
    answer = shop.server.call("POST", "/runs", json={**shop.wish("true"), "project": path})
    assert answer.status in (404, 409)
    problem(answer, answer.status)


def test_the_state_folder_is_no_project(shop: Shop) -> None:
    name = shop.done("true", name="inner")
    told = shop.refused(
        422, "POST", "/runs", {**shop.wish("true"), "project": str(shop.workspace(name))}
    )
    assert "state folder" in told["detail"]


def test_an_agent_that_is_not_installed_names_the_command(shop: Shop) -> None:
    told = shop.refused(409, "POST", "/runs", {**shop.wish("hello"), "agent": "claude"})
    assert "ags update-agents claude" in told["hint"]


def test_a_list_is_filtered_and_paged(shop: Shop) -> None:
    for name in ("page-a", "page-b"):
        shop.done("true", name=name)
    query = "/runs?words=page-&order=name&state=done&agent=shell&asking=false&client=default"
    found = shop.get(f"{query}&project={shop.project.folder}")
    assert ([each["name"] for each in found["items"]], found["total"]) == (["page-a", "page-b"], 2)
    second = shop.get(f"{query}&limit=1&offset=1")
    assert ([each["name"] for each in second["items"]], second["total"]) == (["page-b"], 2)
    assert shop.get(f"{query}&state=failed")["total"] == 2
    assert shop.get("/runs?words=page-&client=acme") == {"items": [], "total": 0}


def test_a_run_is_stopped_and_not_twice(shop: Shop) -> None:
    with shop.working(name="halt") as name:
        assert shop.get(f"/runs/{name}")["left"] == ["stop"]
        shop.refused(409, "DELETE", f"/runs/{name}")
        ended = shop.told("POST", f"/runs/{name}/stop", {"now": False})
        assert (ended["state"], ended["name"]) == ("stopped", name)
        assert "stopped" in shop.refused(409, "POST", f"/runs/{name}/stop")["detail"]


def test_a_run_is_restarted(shop: Shop) -> None:
    name = shop.done("date +%N > when", name="again")
    first = shop.get(f"/runs/{name}")["result"]["commit"]
    shop.told("POST", f"/runs/{name}/restart", {})
    shop.until(name, lambda run: run["ended"] is not None)
    assert shop.get(f"/runs/{name}")["result"]["commit"] != first


def test_a_run_is_told_what_to_do_next(shop: Shop) -> None:
    name = shop.done(name="goes-on")
    first = shop.get(f"/runs/{name}")["result"]["commit"]
    told = shop.told("POST", f"/runs/{name}/tell", {"text": "echo more >> a.txt"})
    assert (told["turn"], told["said"]) == (1, "echo more >> a.txt")
    shop.until(name, lambda run: run["ended"] is not None)
    run = shop.get(f"/runs/{name}")
    assert (run["state"], run["result"]["insertions"]) == ("done", 2)
    assert run["result"]["commit"] != first


def test_a_run_at_work_is_not_told_anything(shop: Shop) -> None:
    with shop.working(name="hears-not") as name:
        shop.refused(409, "POST", f"/runs/{name}/tell", {"text": "true"})
        shop.refused(409, "POST", f"/runs/{name}/restart")


def test_a_removed_run_is_gone_and_its_branch_stays(shop: Shop) -> None:
    name = shop.done(name="leaves")
    assert shop.server.call("DELETE", f"/runs/{name}").status == 204
    shop.refused(404, "GET", f"/runs/{name}")
    assert shop.project.ask("branch", "--list", "agent--leaves")


def test_work_that_is_nowhere_else_is_removed_only_by_force(shop: Shop) -> None:
    name = shop.done("echo lone > lone", name="lone")
    shop.project.git("branch", "-D", "agent--lone")
    assert "nothing else holds" in shop.refused(409, "DELETE", f"/runs/{name}")["detail"]
    assert shop.server.call("DELETE", f"/runs/{name}?force=true").status == 204


def test_the_log_events_and_pages(shop: Shop) -> None:
    name = shop.done("for n in 1 2 3; do echo line $n; done", name="talks")
    assert "line 1\nline 2\nline 3\n" in shop.log(name)
    whole = shop.get(f"/runs/{name}/events")
    assert [each["seq"] for each in whole["items"]] == list(range(1, whole["last"] + 1))
    seen, after = [], 0
    while items := (page := shop.get(f"/runs/{name}/events?after={after}&limit=2"))["items"]:
        seen += items
        after = page["last"]
    assert seen == whole["items"]
    printed = shop.get(f"/runs/{name}/events?kind=output")["items"]
    assert [each["text"] for each in printed] == ["line 1", "line 2", "line 3"]
    assert shop.get(f"/runs/{name}/events?after=999999") == {"items": [], "last": 999999}


def test_what_hooks_decided_is_among_the_events(shop: Shop) -> None:
    name = past(shop).finished("hooked").name
    log = Writer(runs.find(shop.server.ags_home, name) / "events.jsonl")

    def note(fields: Mapping[str, object]) -> None:
        log.write("hook", **fields)

    async def heard(*commands: str) -> None:
        ground = Ground("/work/space", "/home/me")
        decider = Decider(Bench(name, ground, shop.server.home), note, nobody)
        for command in commands:
            said = {"tool_name": "Bash", "tool_input": {"command": command}, "cwd": "/work/space"}
            await decider.hear(read("claude", "PreToolUse", said), asyncio.Event())

    with contextlib.closing(log):
        asyncio.run(heard("ls", "rm -rf /"))
    fine, refused = shop.get(f"/runs/{name}/events?kind=hook")["items"]
    assert (fine["decision"], fine["command"]) == ("allow", "ls")
    assert (refused["decision"], refused["tool"]) == ("deny", "Bash") and refused["reason"]


def test_a_port_of_a_run_comes_to_the_loopback(shop: Shop) -> None:
    serve = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8123)"
    goal = f'echo at work; exec /usr/bin/python3 -c "{serve}"'
    with shop.working(goal, name="serves") as name:
        assert shop.get(f"/runs/{name}/ports") == {"items": []}
        made = shop.told("POST", f"/runs/{name}/ports", {"port": 8123})
        assert made["url"] == f"http://127.0.0.1:{made['host_port']}"
        eventually(lambda: "a.txt" in _fetched(made["host_port"]))
        assert shop.get(f"/runs/{name}/ports") == {"items": [made]}
        shop.refused(409, "POST", f"/runs/{name}/ports", {"port": 80})
    assert shop.get(f"/runs/{name}/ports") == {"items": []}
    shop.refused(409, "POST", f"/runs/{name}/ports", {"port": 8123})


def _fetched(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException):  # nobody listens there yet
        return ""
    finally:
        connection.close()


def test_what_was_reached_for_is_listed(shop: Shop) -> None:
    goal = "for n in 1 2 3; do curl -s -m 60 http://nowhere.example/$n; done; true"
    name = shop.done(goal, name="reaches")
    whole = shop.get(f"/runs/{name}/egress")
    mine = [each for each in whole["items"] if each.get("host") == "nowhere.example"]
    assert len(mine) == 3 and all(each["allowed"] is False for each in mine)
    assert [each["number"] for each in whole["items"]] == list(range(1, whole["last"] + 1))
    first = shop.get(f"/runs/{name}/egress?denied=true&limit=1")
    assert len(first["items"]) == 1
    rest = shop.get(f"/runs/{name}/egress?denied=true&after={first['last']}")
    assert first["items"] + rest["items"] == shop.get(f"/runs/{name}/egress?denied=true")["items"]


def test_lone_bytes_in_a_goal_are_refused_and_odd_ones_shown(shop: Shop) -> None:
    body = b'{"project": "%s", "agent": "shell", "goal": "echo \\udcff"}'
    filled = body % str(shop.project.folder).encode()
    head = {"Authorization": f"Bearer {shop.server.token}", "Content-Type": "application/json"}
    problem(shop.server.send("POST", "/api/v1/runs", head, filled), 422)
    name = shop.done("printf 'caf\\xe9 \\033[31mred\\n'; true # ü <b>", name="odd")
    assert "caf\\xe9" in shop.log(name) and "\x1b" not in shop.log(name)
    assert shop.get(f"/runs/{name}")["goal"].endswith("ü <b>")


# Idempotency


def test_the_same_request_again_starts_nothing_anew(shop: Shop) -> None:
    wish, key = shop.wish("true", name="once"), {"Idempotency-Key": "key one"}
    first = shop.server.call("POST", "/runs", json=wish, headers=key)
    assert first.status == 201
    again = shop.server.call("POST", "/runs", json=wish, headers=key)
    assert again.status == 200
    ids = [[each["id"] for each in found.json()["items"]] for found in (first, again)]
    assert ids[0] == ids[1]
    other = shop.server.call("POST", "/runs", json={**wish, "goal": "false"}, headers=key)
    assert "another request" in problem(other, 422)["detail"]


def test_without_a_key_it_is_another_run(shop: Shop) -> None:
    wish = shop.wish("true # twice please")
    names = [shop.told("POST", "/runs", wish, 201)["items"][0]["name"] for _ in range(2)]
    assert names == ["true-twice", "true-twice-v2"]


def test_a_run_that_was_removed_is_not_started_again_by_its_key(shop: Shop) -> None:
    wish, key = shop.wish("true", name="short"), {"Idempotency-Key": "short"}
    assert shop.server.call("POST", "/runs", json=wish, headers=key).status == 201
    shop.until("short", lambda run: run["ended"] is not None)
    eventually(lambda: shop.server.call("DELETE", "/runs/short").status == 204)
    again = shop.server.call("POST", "/runs", json=wish, headers=key)
    assert "removed since" in problem(again, 409)["detail"]


def test_what_a_crash_left_undone_is_completed(shop: Shop) -> None:
    wish, key = shop.wish("true", name="half", attempts=3), {"Idempotency-Key": "half"}
    first = shop.server.call("POST", "/runs", json=wish, headers=key).json()["items"]
    for each in first:
        shop.until(each["name"], lambda run: run["ended"] is not None)
    # As if it had been killed between the second start and its note, before the third.
    path = _record_of(shop, "half")
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "begun": kept["begun"][:1]}))
    eventually(lambda: shop.server.call("DELETE", "/runs/half-3").status == 204)
    shop.project.git("branch", "--delete", "--force", "agent--half-3")
    again = shop.server.call("POST", "/runs", json=wish, headers=key)
    assert again.status == 200
    found = again.json()["items"]
    assert [each["name"] for each in found] == ["half-1", "half-2", "half-3"]
    assert [each["id"] for each in found[:2]] == [each["id"] for each in first[:2]]
    assert found[2]["id"] != first[2]["id"]


def test_two_at_once_with_one_key_start_one_run(shop: Shop) -> None:
    wish, key = shop.wish("true", name="race"), {"Idempotency-Key": "race"}
    answers = []

    def send() -> None:
        answers.append(shop.server.call("POST", "/runs", json=wish, headers=key))

    senders = [threading.Thread(target=send) for _ in range(6)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    statuses = [each.status for each in answers]
    assert statuses.count(201) == 1 and set(statuses) <= {200, 201, 409}
    for each in answers:
        if each.status == 409:
            assert (
                each.headers["Retry-After"] == "1" and "under way" in problem(each, 409)["detail"]
            )
    assert shop.get("/runs?words=race")["total"] == 1


@pytest.mark.parametrize("key", ["", "x" * 201, "ü"])
def test_a_key_that_is_none_is_refused(shop: Shop, key: str) -> None:
    wish = shop.wish("true", name="keyless")
    sent = {"Idempotency-Key": key.encode("latin-1").decode("latin-1")}
    problem(shop.server.call("POST", "/runs", json=wish, headers=sent), 422)
    shop.refused(404, "GET", "/runs/keyless")


def test_keys_are_forgotten_after_a_day(tmp_path: Path) -> None:
    with keys.opened(tmp_path, "old", "body") as held:
        assert held is not None
        held.keep((keys.Named("a", "0" * 20),))
    (path,) = (tmp_path / "server/keys").iterdir()
    with keys.opened(tmp_path, "old", "body") as held:
        assert held is not None and held.record is not None
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "at": kept["at"] - keys.KEEP - 1}))
    os.utime(path, (0, 0))
    with keys.opened(tmp_path, "new", "body") as held:
        assert held is not None
        held.keep((keys.Named("b", "1" * 20),))
    assert not path.exists() and len(list(path.parent.iterdir())) == 1
    with keys.opened(tmp_path, "old", "other body") as held:
        assert held is not None and held.record is None


def _record_of(shop: Shop, stem: str) -> Path:
    for path in (shop.server.ags_home / "server/keys").iterdir():
        if f"{stem}-1" in json.loads(path.read_text())["names"]:
            return path
    raise AssertionError(stem)


def test_the_third_that_fails_tells_of_the_first_two(shop: Shop) -> None:
    names = [f"{PARTLY}-{n}" for n in (1, 2, 3)]
    wish = shop.wish("true", name=PARTLY, attempts=3)
    told = problem(shop.server.call("POST", "/runs", json=wish), 409)
    assert told["started"] == names[:2] and told["subject"] == names[2]
    assert f"agent--{names[2]}" in told["detail"] and names[0] in told["detail"]


def test_all_of_it_was_done_in_one_thread(shop: Shop) -> None:
    with shop.working(HOLDS, name="single"):
        shop.get("/runs")
    assert shop.server.threads() == 1
