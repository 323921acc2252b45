"""All of the server as one ASGI application: log and gate around the page and the API."""

from __future__ import annotations

import importlib
import secrets
import time
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ags import __version__
from ags.server import problems
from ags.server.board import Board
from ags.server.gate import Gate, Ours
from ags.server.page import Page
from ags.server.state import State

PREFIX = "/api/v1"
ROUTES = ("session", "health", "projects", "runs", "review", "files", "asks", "streams", "settings")


def build(state: State, ours: Ours, page: Page | None) -> ASGIApp:
    """What a socket is given; `page` is None where there is only the API."""
    api = make_api(state)
    inner: ASGIApp = api if page is None else WithPage(api, page)
    return Watched(Gate(inner, ours, state.keys, page.has if page else _nothing), state)


def make_api(state: State) -> FastAPI:
    app = FastAPI(
        title="AGS",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        redirect_slashes=False,
    )
    app.state.ags = state
    state.board = Board(state)
    problems.install(app)
    for name in ROUTES:
        module = importlib.import_module(f"ags.server.routes.{name}")
        app.include_router(module.router, prefix=PREFIX)
        if isinstance(root := getattr(module, "root", None), APIRouter):
            app.include_router(root)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """The schema as FastAPI makes it, with our way of telling errors instead of its own."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, routes=app.routes)
        parts = made.setdefault("components", {})
        schemas = parts.setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        told = problems.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= told.pop("$defs", {})
        schemas["Problem"] = told
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
        for path in made["paths"].values():
            for operation in path.values():
                _tell_problems(operation["responses"])
        app.openapi_schema = made
    return app.openapi_schema


def _tell_problems(responses: dict[str, Any]) -> None:
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": problems.SCHEMA}}}
    if "422" in responses:
        responses["422"] = {"description": "A value cannot be meant", "content": content}
    # Whatever the gate refuses, it refuses anywhere.
    responses["default"] = {"description": "Refused, or failed", "content": content}


def _nothing(path: str) -> bool:
    return False


class WithPage:
    """The page where it has a file of that address, the API elsewhere."""

    def __init__(self, app: ASGIApp, page: Page) -> None:
        self._app = app
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if wanted and self._page.has(scope["path"]):
            await self._page.answer(scope)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class Watched:
    """Gives each request a number, and notes how it went."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        number = scope["ags.id"] = secrets.token_hex(6)
        seen: dict[str, Any] = {"status": 0, "stream": scope["type"] == "websocket"}

        async def noting(message: Message) -> None:
            kind = message["type"]
            if kind in ("http.response.start", "websocket.http.response.start"):
                seen["status"] = message["status"]
                seen["stream"] |= _is_stream(message)
                headers = [*message.get("headers", ()), (b"x-request-id", number.encode())]
                message = {**message, "headers": headers}
            elif kind == "websocket.accept":
                seen["status"] = 101
            elif kind == "websocket.close":
                seen["code"] = message.get("code", 1000)
            await send(message)

        began = time.monotonic()
        try:
            await self._app(scope, receive, noting)
        except Exception as error:
            # Of requests, Starlette raises on what it has answered and noted already.
            if scope["type"] == "websocket" or not seen["status"]:
                self._state.log.failure(error, number)
                raise
        finally:
            self._note(scope, seen, number, time.monotonic() - began)

    def _note(self, scope: Scope, seen: dict[str, Any], number: str, seconds: float) -> None:
        method = scope.get("method", "WEBSOCKET")
        route = _template(scope)
        timed = None if seen["stream"] else seconds
        self._state.metrics.request(route, _known(method), seen["status"], timed)
        self._state.log.event(
            "request",
            "error" if seen["status"] >= 500 else "info",
            id=number,
            method=method,
            path=scope["path"],
            status=seen["status"],
            code=seen.get("code"),
            ms=round(seconds * 1000, 1),
            run=scope.get("path_params", {}).get("run"),
        )


def _template(scope: Scope) -> str:
    """The route's own path: an address could be anything. FastAPI leaves the prefix out."""
    path = str(getattr(scope.get("route"), "path", "")) or "other"
    has_prefix = path.startswith(PREFIX) or not scope["path"].startswith(PREFIX)
    return path if has_prefix or path == "other" else PREFIX + path


def _known(method: str) -> str:
    """Anybody can make up methods; each would be a row of its own."""
    common = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "WEBSOCKET")
    return method if method in common else "other"


def _is_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )
