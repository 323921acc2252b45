"""A server, a repository beside it, and what tests do with both: runs of the shell, really run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ags.server import problems
from tests.server.conftest import Answer, Server, serving
from tests.workspace.repositories import Checkout, checkout

PATIENCE = 90.0
HOLDS = "echo at work; while ! [ -e go ]; do sleep 0.05; done"
WORKS = "echo world >> a.txt"


@dataclass
class Shop:
    server: Server
    project: Checkout

    def get(self, path: str) -> Any:
        return self.told("GET", path)

    def told(self, method: str, path: str, json: object = None, status: int = 200) -> Any:
        """What a request that succeeds is told."""
        answer = self.server.call(method, path, json=json)
        assert answer.status == status, answer.text
        return answer.json()

    def refused(self, status: int, method: str, path: str, json: object = None) -> Any:
        return problem(self.server.call(method, path, json=json), status)

    def wish(self, goal: str = WORKS, **more: object) -> dict[str, object]:
        return {"project": str(self.project.folder), "goal": goal, "agent": "shell", **more}

    def start(self, goal: str = WORKS, **more: object) -> str:
        """The name of a run that was just begun."""
        items = self.told("POST", "/runs", self.wish(goal, **more), 201)["items"]
        name: str = items[0]["name"]
        return name

    def done(self, goal: str = WORKS, **more: object) -> str:
        name = self.start(goal, **more)
        return self.until(name, lambda run: run["ended"] is not None)

    def at_work(self, goal: str = HOLDS, **more: object) -> str:
        """One that printed something already."""
        name = self.start(goal, **more)
        eventually(lambda: "at work" in self.log(name))
        return name

    def until(self, name: str, found: Callable[[Any], bool]) -> str:
        eventually(lambda: found(self.get(f"/runs/{name}")))
        # Its supervisor holds the lock for a moment longer.
        return name

    def log(self, name: str) -> str:
        return self.server.call("GET", f"/runs/{name}/log").text

    def workspace(self, name: str) -> Path:
        return Path(self.get(f"/runs/{name}")["workspace"])

    @contextlib.contextmanager
    def working(self, goal: str = HOLDS, **more: object) -> Iterator[str]:
        """It does not outlive the test."""
        name = self.at_work(goal, **more)
        try:
            yield name
        finally:
            self.server.call("POST", f"/runs/{name}/stop", json={"now": True})


def problem(answer: Answer, status: int) -> Any:
    """What a refused request is told: what, why, and what to do, as problem+json."""
    assert answer.status == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status and told["title"].startswith("Cannot ")
    assert told["detail"] and told["hint"]
    assert told.keys() <= problems.Problem.model_fields.keys()
    return told


def eventually(found: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < until
        time.sleep(0.05)


@contextlib.contextmanager
def opened(folder: Path, first: str = "") -> Iterator[Shop]:
    with serving(folder, first=first) as server:
        (server.home / ".gitconfig").write_text("[user]\nname = Ann\nemail = ann@example.org\n")
        project = checkout(server.home / "project")
        project.write("a.txt", "hello\n")
        project.write("src/deep/b.txt", "deep\n")
        project.commit("first")
        shop = Shop(server, project)
        try:
            yield shop
        finally:
            for run in shop.get("/runs?limit=500")["items"]:
                if run["ended"] is None:
                    server.call("POST", f"/runs/{run['id']}/stop", json={"now": True})
