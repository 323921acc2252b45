"""Every error becomes an answer that says what failed, why, and what to do."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Query
from starlette.types import Receive, Scope, Send

from ags import records
from ags.errors import AgsError, ConfigError, Missing, Unfit
from ags.proc import ProcessError
from ags.server import app as application
from ags.server import gate
from ags.server.log import Log
from ags.server.serve import Server as Uvicorn
from ags.server.serve import Serving, address, bind, ours
from ags.server.state import State
from ags.workspace.apply import Conflict

Ask = Callable[[str, str], Awaitable[tuple[int, dict[str, Any]]]]


def full() -> AgsError:
    error = OSError(errno.ENOSPC, "No space left on device")
    made = records.write_error("write", Path("/x"), error)
    made.__cause__ = error
    return made


ERRORS: dict[str, tuple[int, BaseException]] = {
    "plain": (409, AgsError("stop the run", subject="a", cause="it is over", hint="start it")),
    "missing": (404, Missing("find the run", subject="a", cause="there is none")),
    "unfit": (422, Unfit("use the name", subject="-", cause="it is no name")),
    "conflict": (409, Conflict("refs/heads/main", ("a b", "c\udc80"), "git merge x")),
    "process": (409, ProcessError(("/bin/false",), 1, b"no \xff\n")),
    "config": (409, ConfigError("/x", 3, "key", "it is not known")),
    "full": (507, full()),
    "bare full": (507, OSError(errno.EDQUOT, "Quota exceeded")),
    "surrogates": (409, AgsError("read \udc80", subject="\udcff", cause="\ud800", hint="\udc00")),
    "unforeseen": (500, RuntimeError("a secret of the inside")),
    "system": (500, PermissionError(errno.EACCES, "denied", "/root/inside")),
}


def raised(error: BaseException) -> Callable[[], Awaitable[None]]:
    async def route() -> None:
        raise error

    return route


async def number(n: Annotated[int, Query(le=5)]) -> int:
    return n


async def asked(folder: Path, talk: Callable[[Ask], Awaitable[None]]) -> str:
    """Talks to the real application with routes that fail; returns what was logged."""
    log = folder / "log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
    state = State({}, folder, folder / "ags", Log("json", descriptor))
    api = application.make_api(state)
    for name, (_, error) in ERRORS.items():
        api.add_api_route(f"/{name.replace(' ', '-')}", raised(error))
    api.add_api_route("/number", number)
    sock = bind(address("127.0.0.1"), 0)
    serving = Serving(ports={"web": 0})
    gated = gate.Gate(api, ours(serving, [sock.getsockname()[1]]), state.keys, lambda path: False)
    server = Uvicorn(application.Watched(gated, state), serving, state)
    task = asyncio.create_task(server.serve([sock]))
    port = sock.getsockname()[1]

    async def ask(method: str, path: str) -> tuple[int, dict[str, Any]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        writer.write(f"{head}Authorization: Bearer {state.keys.master()}\r\n\r\n".encode())
        head_, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert b"application/problem+json" in head_
        return int(head_.split()[1]), json.loads(body)

    try:
        await talk(ask)
    finally:
        server.end()
        await task
        os.close(descriptor)
    return log.read_text()


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_told_as_it_is(tmp_path: Path, name: str) -> None:
    wanted, _ = ERRORS[name]

    async def talk(ask: Ask) -> None:
        status, told = await ask("GET", f"/{name.replace(' ', '-')}")
        assert status == told["status"] == wanted, told
        assert told["type"] == "about:blank"
        assert told["title"].startswith("Cannot ")
        assert told["hint"]
        if name == "plain":
            assert told["title"] == "Cannot stop the run"
            assert (told["detail"], told["hint"]) == ("it is over", "start it")
            assert told["subject"] == "a"
        if name == "conflict":
            assert told["files"] == ["a b", "c\\x80"]
        if wanted == 500:
            assert "inside" not in json.dumps(told)
            number = told["id"]
            assert number in told["hint"]

    logged = asyncio.run(asked(tmp_path, talk))
    failures = [json.loads(line) for line in logged.splitlines() if '"failure"' in line]
    assert len(failures) == (wanted == 500)
    if wanted == 500:
        assert "inside" in failures[0]["trace"]
        assert f'"id": "{failures[0]["request"]}"' in logged


def test_values_that_cannot_be_meant_are_named_one_by_one(tmp_path: Path) -> None:
    async def talk(ask: Ask) -> None:
        for query in ("n=9", "n=x", "", "n=" + "9" * 4000):
            status, told = await ask("GET", f"/number?{query}")
            assert status == 422
            [wrong] = told["errors"]
            assert wrong["where"] == "query.n"
            assert wrong["what"] and told["hint"]
            assert len(json.dumps(told)) < 1000

    asyncio.run(asked(tmp_path, talk))


def test_an_address_without_a_route_and_a_method_without_one(tmp_path: Path) -> None:
    async def talk(ask: Ask) -> None:
        for method, path, wanted in (("GET", "/api/v1/nothing", 404), ("PUT", "/number", 405)):
            status, told = await ask(method, path)
            assert status == wanted and "openapi.json" in told["hint"]

    asyncio.run(asked(tmp_path, talk))


def test_it_ends_soon_even_if_streams_and_terminals_do_not(tmp_path: Path) -> None:
    ended: list[str] = []

    async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        try:
            await asyncio.sleep(600)
        finally:
            ended.append(scope["type"])

    async def talk() -> float:
        state = State({}, tmp_path, tmp_path / "ags", Log("json", os.open(os.devnull, os.O_WRONLY)))
        sock = bind(address("127.0.0.1"), 0)
        server = Uvicorn(stubborn, Serving(ports={"web": 0}), state)
        task = asyncio.create_task(server.serve([sock]))
        open_ = [await asyncio.open_connection(*sock.getsockname()) for _ in range(2)]
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        for (reader, writer), more in zip(open_, ("", upgrade + key), strict=True):
            writer.write(f"GET / HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
            assert await reader.readline()
        began = asyncio.get_running_loop().time()
        server.end()
        assert state.stopping.is_set()
        await task
        took = asyncio.get_running_loop().time() - began
        for _, writer in open_:
            writer.close()
        return took

    assert asyncio.run(talk()) < 300  # and not 600
    assert sorted(ended) == ["http", "websocket"]
