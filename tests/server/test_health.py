"""What the server tells of itself: health, numbers, and its log."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from ags.server.fetching import Fetching
from ags.server.log import Log
from ags.server.routes.health import metrics
from ags.server.state import State

from .conftest import Server, serving


def settings(folder: Path, name: str, text: str) -> None:
    file = folder / "home" / ".config" / "ags" / name
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_text(text)
    file.chmod(0o600)


def test_a_sound_machine_is_ok(shared: Server) -> None:
    answer = shared.call("GET", "/health")
    assert answer.status == 200
    told = answer.json()
    assert told["status"] == "ok", told
    assert told["problems"] == []
    assert told["runs"] == {}
    assert told["version"]


@pytest.mark.parametrize(
    ("file", "text", "what", "cause", "hint"),
    [
        ("config.toml", "nonsense = 1\n", "Cannot read the settings", "nonsense", "known here"),
        ("policy.yaml", "domains: {", "Cannot read the policy", "policy.yaml", "correct it"),
        (
            "config.toml",
            '[limits]\ndisk_free = "900TiB"\n',
            "Cannot start runs",
            "floor",
            "disk_free",
        ),
    ],
)
def test_what_is_degraded_is_told_with_its_repair(
    tmp_path: Path, file: str, text: str, what: str, cause: str, hint: str
) -> None:
    settings(tmp_path, file, text)
    with serving(tmp_path) as server:
        told = server.call("GET", "/health").json()
        assert told["status"] == "degraded"
        [problem] = told["problems"]
        assert problem["what"] == what
        assert cause in problem["cause"]
        assert hint in problem["hint"]


def test_a_damaged_run_is_told(server: Server) -> None:
    damaged = server.ags_home / "runs" / ("0" * 20)
    found = server.call("GET", "/health").json()
    assert found["status"] == "ok"
    server.end()
    damaged.mkdir(parents=True)
    (damaged / "run.json").write_text("{")
    with serving(server.ags_home.parent) as again:
        told = again.call("GET", "/health").json()
        assert told["status"] == "degraded"
        [problem] = told["problems"]
        assert "0" * 20 in problem["what"] + problem["hint"]


def test_metrics_are_what_prometheus_reads(server: Server) -> None:
    server.call("GET", "/health")
    server.call("GET", "/health", token=None)
    server.call("GET", "/made-up-by-somebody")
    server.call("MADEUP", "/health")
    answer = server.call("GET", "//metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    line = re.compile(r'[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+-]+|# (HELP|TYPE) [a-z_]+ .+')
    for each in answer.text.splitlines():
        assert line.fullmatch(each), each
    route = '{route="/api/v1/health",method="GET",status="2xx"}'
    assert f"ags_requests_total{route} 1" in answer.text
    assert 'ags_requests_total{route="other",method="GET",status="4xx"} 2' in answer.text
    assert "made-up" not in answer.text
    assert "MADEUP" not in answer.text
    assert 'ags_request_seconds_bucket{le="+Inf"} 4' in answer.text
    assert int(re.findall(r"process_resident_memory_bytes (\d+)", answer.text)[0]) > 1 << 20


def test_an_agent_that_is_installed_is_no_clone(tmp_path: Path) -> None:
    async def scene() -> None:
        log = Log("json", os.open(os.devnull, os.O_WRONLY))
        state = State({}, tmp_path, tmp_path / "ags", log)
        work = Fetching(state)
        install = asyncio.create_task(asyncio.sleep(3600))
        state.tasks.add(install)
        assert b"\nags_clones_open 0\n" in (await metrics(state, work)).body
        work._begin("project-x", asyncio.sleep(3600), "clone")
        assert b"\nags_clones_open 1\n" in (await metrics(state, work)).body
        await asyncio.sleep(0)  # it has begun
        for each in state.tasks:
            each.cancel()

    asyncio.run(scene())


def test_each_request_is_one_line_of_the_log_without_its_query(server: Server) -> None:
    answer = server.call("GET", "/health?secret=abc123")
    server.call("GET", "/run%0As")
    server.call("GET", "/runs/no-such-run")
    server.end()
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert [each["status"] for each in requests] == [200, 404, 404]
    assert requests[2]["run"] == "no-such-run"
    first = requests[0]
    assert first["id"] == answer.headers["X-Request-Id"]
    assert (first["method"], first["path"]) == ("GET", "/api/v1/health")
    assert first["ms"] >= 0
    assert "abc123" not in server.log.read_text()
    assert [line["event"] for line in lines if line["event"] in ("serving", "ending")] == [
        "serving",
        "ending",
    ]


def test_a_log_of_text_shows_what_a_terminal_would_obey(tmp_path: Path) -> None:
    with serving(tmp_path, options=("--log", "text")) as server:
        server.call("GET", "/%1b%5b31mred")
        server.end()
        written = server.log.read_text()
    assert "\x1b" not in written
    assert "\\x1b[31mred" in written


def test_the_page_is_looked_up_and_never_a_path(shared: Server) -> None:
    page = shared.send("GET", "/login", {})
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    again = shared.send("GET", "/login", {"If-None-Match": page.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    assert shared.send("GET", "/login.js", {}).headers["Content-Type"].startswith("text/javascript")
    head = shared.send("HEAD", "/", {})
    assert (head.status, head.body) == (200, b"")
    for path in (
        "/../server/app.py",
        "/..%2fserver/app.py",
        "/server/app.py",
        "/login.html/",
        "/.",
    ):
        assert shared.send("GET", path, {}).status in (400, 401)


def test_the_api_tells_about_itself(shared: Server) -> None:
    told = shared.call("GET", "/openapi.json").json()
    assert told["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert told["paths"]["/api/v1/session"]["post"]["security"] == []
    assert "HTTPValidationError" not in json.dumps(told)
    for path, operations in told["paths"].items():
        for operation in operations.values():
            default = operation["responses"]["default"]["content"]
            assert list(default) == ["application/problem+json"], path
