"""Every route, as OpenAPI lists them, with what cannot be meant: 4xx, a clear text, no effect (W5).

A route that is new comes in by itself; if it takes a body, `GOOD` needs one for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.conftest import Answer
from tests.server.shop import Shop, eventually, opened, problem
from tests.server.test_gate import HEARS_OUT

RUN = "there"
GOOD: dict[str, Any] = {
    "log_in": {"code": "abc"},
    "add_project": {"url": "/no/such/folder", "client": "acme", "link": False},
    "pull_project": {},
    "create_runs": {
        "project": "/no/such/folder",
        "goal": "true",
        "agent": "shell",
        "name": "never",
        "base": "HEAD",
        "client": "acme",
        "model": "m",
        "backend": "bubblewrap",
        "limits": {"memory": "1G"},
        "network": True,
        "allow": ["a.example"],
        "ask": False,
        "publish": [8000],
        "attempts": 1,
    },
    "stop_run": {"now": False},
    "restart_run": {},
    "tell_run": {"text": "more"},
    "publish_port": {"port": 8000, "host_port": 0},
    "apply_run": {"how": "merge", "into": "main", "expected": "0" * 40},
    "undo_run": {},
    "answer_ask": {"verdict": "for", "seconds": 60, "uses": 1},
    "save_policy": {"text": "ask: true\n", "revision": "0" * 64},
    "check_policy": {"text": "ask: true\n"},
    "allow_refused": {"verdict": "for", "seconds": 60, "revision": "0" * 64},
    "withdraw_rule": {"rule": "a.example", "revision": "0" * 64},
    "install_agent": {"version": "1.0.0"},
}
IDS = (
    *("..", ".", "...", "%2e%2e", "%2E%2e", "..%2f..%2fetc%2fpasswd", "%2fetc", "..%5c..", "\\"),
    *("%00", "there%00", "there%0a", "there%20", "%ff", "%C3%BC", "%ed%b2%80", "%F0%9F%92%A9"),
    *("x" * 49, "x" * 300, "x" * 4000, "-x", "--force", "there--", "THERE", "no-such", "*", "?"),
    *("0" * 20, "f" * 20, "project-" + "0" * 20, "project-..", "there/", "there/..", "/", "null"),
)
WRONG: dict[str, tuple[object, ...]] = {
    "string": (5, 1.5, True, [], {}, ["x"], "nul\0", "\ud800", "x" * 200_000),
    "integer": ("x", "5", "", 1.5, True, -(10**9), 10**30, [], {}, "NaN"),
    "number": ("x", "5", "", -1, 1e300, [], {}),
    "boolean": ("true", "", 1, 0, [], {}, "NaN"),
    "array": ("x", 5, {}, True, [None], [[]], [{}]),
    "object": ("x", 5, [], True, {"unknown": 1}),
}
QUERIES = {
    "integer": ("x", "-1", "1.5", "1e9", "9" * 30, "%00", "0x10"),
    "number": ("x", "nan", "inf"),
    "boolean": ("perhaps", "2", "%00"),
    "string": ("x" * 5000, "a%00b"),
}
RAW = {
    "nothing of JSON": b"{",
    "two of it": b"{}{}",
    "NaN": b'{"now": NaN, "attempts": NaN, "port": NaN, "seconds": NaN}',
    "Infinity": b'{"seconds": Infinity}',
    "no UTF-8": b'{"goal": "\xff"}',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "a list": b"[]",
    "a text": b'"text"',
    "a number": b"5",
    "true": b"true",
    "unknown": b'{"unknown": 1}',
    "a name twice removed": b'{"__proto__": {}, "model_config": {}}',
    "huge": b'{"goal": "' + b"x" * (1 << 20) + b'"}',
    "a huge number": b'{"attempts": ' + b"9" * 5000 + b"}",
}
KINDS = (
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
    *("application/xml", "", "application/json; charset=utf-16", "application/jsonx"),
)


@dataclass(frozen=True)
class Operation:
    id: str
    method: str
    path: str
    parameters: tuple[dict[str, Any], ...]
    body: dict[str, Any] | None
    """Its schema."""
    needs_body: bool = True
    real: dict[str, str] = field(default_factory=dict)

    def address(self, **ids: str) -> str:
        found = {**self.real, **ids}
        return self.path.format(**{name: found.get(name, "x") for name in self.names("path")})

    def names(self, place: str) -> list[str]:
        return [each["name"] for each in self.parameters if each["in"] == place]


class Book:
    """The OpenAPI document."""

    def __init__(self, document: dict[str, Any], real: dict[str, str]) -> None:
        self._schemas = document["components"]["schemas"]
        self.operations = [
            self._operation(path, method, told, real)
            for path, methods in document["paths"].items()
            for method, told in methods.items()
        ]

    def _operation(
        self, path: str, method: str, told: dict[str, Any], real: dict[str, str]
    ) -> Operation:
        given = told.get("requestBody")
        schema = given and self.meant(given["content"]["application/json"]["schema"])
        parameters = tuple(told.get("parameters", ()))
        needed = bool(given and given.get("required"))
        short = path.removeprefix("/api/v1") if path.startswith("/api/v1") else f"/{path}"
        return Operation(
            told["operationId"], method.upper(), short, parameters, schema, needed, real
        )

    def meant(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Without references, and of what may be null, what it is else."""
        if "$ref" in schema:
            found: dict[str, Any] = self._schemas[schema["$ref"].rpartition("/")[2]]
            return self.meant(found)
        if "anyOf" in schema:
            other = next(each for each in schema["anyOf"] if each.get("type") != "null")
            return {**self.meant(other), "nullable": True}
        return schema


@dataclass(frozen=True)
class Scene:
    shop: Shop
    book: Book

    def snapshot(self) -> dict[str, str]:
        """All that the person has, by content."""
        return {
            str(path): _digest(path)
            for top in (self.shop.server.ags_home, self.shop.server.home)
            for path in sorted(top.rglob("*"))
        }

    def send(
        self, operation: Operation, path: str, body: bytes | None = None, **head: str
    ) -> Answer:
        given = {"Authorization": f"Bearer {self.shop.server.token}", **head}
        target = path[1:] if path.startswith("//") else f"/api/v1{path}"
        return self.shop.server.send(operation.method, target, given, body)

    def refused(self, operation: Operation, path: str, body: bytes | None, why: str) -> None:
        head = {} if body is None else {"Content-Type": "application/json"}
        told = self.send(operation, path, body, **head)
        assert 400 <= told.status < 500, (operation.id, path[:80], why, told.status, told.text)
        problem(told, told.status)
        assert len(told.body) < 20_000, (operation.id, why)


def _digest(path: Path) -> str:
    if path.is_symlink():
        return os.readlink(path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(tmp_path_factory.mktemp("shop"), first=HEARS_OUT) as shop:
        shop.done(name=RUN)
        wish = {"url": str(shop.project.folder)}
        project = shop.told("POST", "/projects", wish, 201)["id"]
        eventually(lambda: shop.get(f"/projects/{project}")["state"] == "ready")
        document = shop.told("GET", "/openapi.json")
        yield Scene(
            shop, Book(document, {"run": RUN, "project": project, "ask": "a1", "number": "1"})
        )


@pytest.fixture(autouse=True)
def _unchanged(scene: Scene) -> Iterator[None]:
    before = scene.snapshot()
    yield
    assert scene.snapshot() == before
    assert scene.shop.server.threads() == 1


def with_body(scene: Scene) -> list[Operation]:
    return [each for each in scene.book.operations if each.body is not None]


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


def test_every_route_with_a_body_has_a_good_one(scene: Scene) -> None:
    assert {each.id for each in with_body(scene)} == GOOD.keys()
    assert len(scene.book.operations) > 30
    for each in with_body(scene):
        assert each.body is not None
        assert each.body.get("additionalProperties") is False, each.id
        optional = {"remote"}  # which goes with another choice than the good one
        assert GOOD[each.id].keys() == each.body.get("properties", {}).keys() - optional


def test_ids_of_nobody_s_are_refused(scene: Scene) -> None:
    asked = 0
    for operation in scene.book.operations:
        body = dumped(GOOD[operation.id]) if operation.body is not None else None
        for name in operation.names("path"):
            own = {operation.real.get("run"), operation.real.get("project")}
            for id_ in (each for each in IDS if each not in own):
                if id_ == "?":
                    id_ = "%3f"
                scene.refused(
                    operation, operation.address(**{name: id_}), body, f"{name}={id_[:40]}"
                )
                asked += 1
    assert asked > 500


def test_values_of_the_wrong_kind_are_refused(scene: Scene) -> None:
    for operation in with_body(scene):
        assert operation.body is not None
        for name, schema in operation.body.get("properties", {}).items():
            kind = scene.book.meant(schema)
            wrong = [*WRONG[kind["type"]]]
            if not kind.get("nullable"):
                wrong.append(None)
            for value in wrong:
                body = dumped({**GOOD[operation.id], name: value})
                why = f"{name}={str(value)[:40]!r}"
                scene.refused(operation, operation.address(), body, why)


def test_what_is_missing_is_missed(scene: Scene) -> None:
    for operation in with_body(scene):
        assert operation.body is not None
        for name in operation.body.get("required", ()):
            less = {key: each for key, each in GOOD[operation.id].items() if key != name}
            scene.refused(operation, operation.address(), dumped(less), f"no {name}")
        more = {**GOOD[operation.id], "unknown": 1}
        scene.refused(operation, operation.address(), dumped(more), "unknown")


@pytest.mark.parametrize("name", RAW)
def test_bodies_that_are_none_are_refused(scene: Scene, name: str) -> None:
    for operation in with_body(scene):
        scene.refused(operation, operation.address(), RAW[name], name)


def test_without_a_body_nothing_is_guessed(scene: Scene) -> None:
    for operation in (each for each in with_body(scene) if each.needs_body):
        for body in (None, b"", b"null", b"{}"):
            if body == b"{}" and not (operation.body or {}).get("required"):
                continue
            scene.refused(operation, operation.address(), body, f"body {body!r}")


@pytest.mark.parametrize("kind", KINDS)
def test_only_json_is_taken(scene: Scene, kind: str) -> None:
    for operation in with_body(scene):
        body = dumped(GOOD[operation.id])
        head = {"Content-Type": kind} if kind else {}
        told = scene.send(operation, operation.address(), body, **head)
        problem(told, 415)


def test_questions_of_the_wrong_kind_are_refused(scene: Scene) -> None:
    asked = 0
    for operation in scene.book.operations:
        for parameter in (each for each in operation.parameters if each["in"] == "query"):
            schema = scene.book.meant(parameter["schema"])
            items = scene.book.meant(schema["items"]) if schema["type"] == "array" else schema
            wrong = ("nothing", "%00") if "enum" in items else QUERIES[items["type"]]
            for value in wrong:
                body = dumped(GOOD[operation.id]) if operation.body is not None else None
                path = f"{operation.address()}?{parameter['name']}={value}"
                scene.refused(operation, path, body, f"{parameter['name']}={value[:40]}")
                asked += 1
    assert asked > 50


def test_paths_that_lead_elsewhere_are_refused(scene: Scene) -> None:
    (operation,) = (each for each in scene.book.operations if each.id == "read_file")
    for path in ("..", "../x", "a/../../b", "/etc/passwd", "nul\0", "x" * 5000, ".git/config"):
        for at in ("workspace", "base", "result"):
            asked = f"{operation.address()}?path={quote(path)}&at={at}"
            scene.refused(operation, asked, None, path[:40])


def test_other_methods_and_addresses_are_refused(scene: Scene) -> None:
    for operation in scene.book.operations:
        path = operation.address()
        others = {each.method for each in scene.book.operations if each.address() == path}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - others:
            told = scene.shop.server.call(method, path)
            problem(told, 405)
    for path in ("/", "/nothing", "/runs/there/nothing", "/../api/v1/runs", "/runs%2fthere"):
        told = scene.shop.server.call("GET", path)
        problem(told, told.status)
        assert told.status in (400, 404)


def test_the_same_routes_answer_when_they_are_asked_well(scene: Scene) -> None:
    """Or all of the above would hold of a server that refuses everything."""
    streams = ("run_stream", "board_stream")
    for operation in scene.book.operations:
        if operation.method == "GET" and operation.id not in streams:
            query = "?path=a.txt" if operation.id == "raw_file" else ""
            told = scene.send(operation, operation.address() + query)
            assert told.status == 200, (operation.id, told.text)
