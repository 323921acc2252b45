"""Several clients ask one server for what does not go together, at the same moment."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

from ags import runs
from ags.projects.record import id_of
from ags.workspace.remote import checked_url
from tests.server.conftest import Answer, Server
from tests.server.shop import Shop, eventually, opened, problem

Request: TypeAlias = tuple[str, str, object]
# Between finding the repository and asking it anything, a start waits as long as this is there.
HELD = """
import asyncio, os
from pathlib import Path
from ags.engine import Engine
based = Engine._based
async def held(self, *given):
    meeting = Path(os.environ["AGS_HOME"]) / "meeting"
    if meeting.exists():
        (meeting / "here").touch()
    while meeting.exists():
        await asyncio.sleep(0.01)
    return await based(self, *given)
Engine._based = held
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop"), first=HELD) as made:
        yield made


@contextlib.contextmanager
def halted(server: Server) -> Iterator[None]:
    """What it is sent meanwhile, it finds all at once."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        assert os.WIFSTOPPED(os.waitpid(server.process.pid, os.WUNTRACED)[1])
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def at_once(server: Server, *requests: Request) -> list[Answer]:
    """Each over a connection of its own, in this order."""
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    with contextlib.ExitStack() as stack:
        used = [stack.enter_context(server.connection()) for _ in requests]
        for connection in used:  # so that nothing is left to do but to read
            connection.request("GET", "/api/v1/projects", headers=headers)
            connection.getresponse().read()
        with halted(server):
            for connection, (method, path, body) in zip(used, requests, strict=True):
                sent = None if body is None else json.dumps(body)
                connection.request(method, f"/api/v1{path}", sent, headers)
        found = [connection.getresponse() for connection in used]
        return [Answer(each.status, each.headers, each.read()) for each in found]


def added(shop: Shop) -> str:
    """The address of a project that is ready."""
    told = shop.told("POST", "/projects", {"url": str(shop.project.folder)}, 201)
    path = f"/projects/{told['id']}"
    eventually(lambda: shop.get(path)["state"] != "cloning")
    assert shop.get(path)["state"] == "ready"
    return path


def check_nothing_left(shop: Shop) -> None:
    """Of a project: it can be added again, and taken away."""
    assert os.listdir(shop.server.ags_home / "projects") == []
    assert shop.server.call("DELETE", added(shop)).status == 204


def test_a_project_is_added_and_taken_away(shop: Shop) -> None:
    wish = {"url": str(shop.project.folder)}
    path = f"/projects/{id_of('', checked_url(wish['url']).key)}"
    forced = ("DELETE", f"{path}?force=true", None)
    made, gone = at_once(shop.server, ("POST", "/projects", wish), forced)
    assert (made.status, gone.status) == (201, 204), gone.text
    shop.refused(404, "GET", path)
    check_nothing_left(shop)


def test_a_project_is_pulled_by_two_and_taken_away(shop: Shop) -> None:
    path = added(shop)
    pull: Request = ("POST", f"{path}/pull", {})
    *pulled, gone = at_once(shop.server, pull, pull, ("DELETE", f"{path}?force=true", None))
    assert gone.status == 204, gone.text
    assert {each.status for each in pulled} <= {202, 404, 409}
    shop.refused(404, "GET", path)
    check_nothing_left(shop)


def test_a_run_is_started_on_a_project_that_is_taken_away(shop: Shop) -> None:
    path = added(shop)
    wish = shop.wish("true", name="too-late", project=path.rpartition("/")[2])
    with ThreadPoolExecutor() as aside:
        with meeting(shop) as place:
            starting = aside.submit(shop.server.call, "POST", "/runs", json=wish)
            eventually((place / "here").exists)
            assert shop.server.call("DELETE", path).status == 204
        assert problem(starting.result(), 404)["detail"] == "the repository is gone"
    shop.refused(404, "GET", "/runs/too-late")
    check_nothing_left(shop)


def test_a_run_is_started_on_a_project_that_stays(shop: Shop) -> None:
    path = added(shop)
    wish = shop.wish("true", name="in-time", project=path.rpartition("/")[2])
    with ThreadPoolExecutor() as aside:
        with meeting(shop) as place:
            starting = aside.submit(shop.server.call, "POST", "/runs", json=wish)
            eventually((place / "here").exists)
        assert starting.result().status == 201
    shop.until("in-time", lambda run: run["ended"] is not None)
    assert shop.server.call("DELETE", f"{path}?force=true").status == 204
    check_nothing_left(shop)


@contextlib.contextmanager
def meeting(shop: Shop) -> Iterator[Path]:
    """Starts wait as long as this lasts."""
    place = shop.server.ags_home / "meeting"
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("other", ["remove", "restart"])
def test_a_run_is_taken_away_and_taken_away_or_restarted(shop: Shop, other: str) -> None:
    name = shop.done("true", name=f"twice-{other}")
    run_dir = shop.server.ags_home / "runs" / shop.get(f"/runs/{name}")["id"]
    eventually(lambda: not runs.is_alive(run_dir))  # its supervisor would hold up both
    forced: Request = ("DELETE", f"/runs/{name}?force=true", None)
    again: Request = ("POST", f"/runs/{name}/restart", {})
    second = forced if other == "remove" else again
    gone, late = at_once(shop.server, forced, second)
    assert gone.status == 204, gone.text
    assert problem(late, 404)["detail"] == "there is no run of this name"
    shop.refused(404, "GET", f"/runs/{name}")
