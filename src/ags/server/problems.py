"""Errors as `application/problem+json`: the one place that turns one into an answer."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketState

from ags.errors import AgsError, Missing, Unfit
from ags.server.auth import Unsure
from ags.server.state import State
from ags.text import utf8
from ags.workspace.apply import Conflict

MEDIA_TYPE = "application/problem+json"
SCHEMA = "#/components/schemas/Problem"
DESCRIBED = "GET /api/v1/openapi.json describes what can be asked"
HINTS = {
    400: DESCRIBED,
    403: "open the page by the address that `ags up` printed, and ask from there",
    404: "look at the list of what there is",
    405: DESCRIBED,
    408: "send it again, without a pause",
    409: "look at how it is now, then try again",
    413: "send less at once",
    415: "send JSON, with `Content-Type: application/json`",
    422: "correct what is named, then send it again",
    431: "send fewer headers",
    503: "try again in a moment",
    507: "make room on that disk, then try again",
}
"""What to do where nobody knew better."""
MOST_ERRORS = 20
MOST_TEXT = 300
"""Characters of a validator's word or place: it may quote what was sent."""


class Wrong(BaseModel):
    """One value of a request that cannot be meant."""

    where: str
    what: str


class Problem(BaseModel):
    """What failed, why, and what to do about it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""
    hint: str = ""
    subject: str | None = None
    files: list[str] | None = None
    """The paths of a conflict."""
    errors: list[Wrong] | None = None
    """What is wrong with the request, value by value."""
    started: list[str] | None = None
    """The runs that were started before another could not be."""
    id: str | None = None
    """Of a failure nobody foresaw: the log has it too."""


def answer(
    status: int,
    title: str,
    *,
    detail: str = "",
    hint: str = "",
    subject: str | None = None,
    headers: Mapping[str, str] | None = None,
    **extras: object,
) -> Response:
    content = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "hint": hint or HINTS.get(status, ""),
        "subject": subject,
        **extras,
    }
    body = json.dumps(_clean(content)).encode()
    return Response(body, status, dict(headers or {}), media_type=MEDIA_TYPE)


def of(error: AgsError, *, headers: Mapping[str, str] | None = None, **extras: object) -> Response:
    if isinstance(error, Conflict):
        extras["files"] = list(error.files)
    if isinstance(error, Unsure):
        headers = {"Retry-After": "1", **(headers or {})}
    return answer(
        status_of(error),
        f"Cannot {error.what}",
        detail=error.cause,
        hint=error.hint,
        subject=error.subject,
        headers=headers,
        **extras,
    )


def status_of(error: AgsError) -> int:
    if isinstance(error, Missing):
        return 404
    if isinstance(error, Unfit):
        return 422
    if isinstance(error, Unsure):
        return 503
    return 507 if _is_full(error) else 409


def _is_full(error: BaseException | None) -> bool:
    """Whether a full disk is behind it."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__
    return False


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: the problems it can answer with."""
    content = {MEDIA_TYPE: {"schema": {"$ref": SCHEMA}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in statuses
    }


def install(app: FastAPI) -> None:
    app.add_exception_handler(AgsError, _expected)
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(WebSocketRequestValidationError, _unfit)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(OSError, _system)
    app.add_exception_handler(Exception, _unforeseen)


# Coroutines all: Starlette would call a plain function in a thread.


async def _expected(connection: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, AgsError)
    return await _closed(connection, of(error), error.cause or error.what)


async def _unfit(connection: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError | WebSocketRequestValidationError)
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return unreadable()
    wrong = [_wrong(each) for each in found[:MOST_ERRORS]]
    first = f"{wrong[0]['where']}: {wrong[0]['what']}" if wrong else ""
    made = answer(422, "Cannot take the request", detail=first, errors=wrong)
    return await _closed(connection, made, first)


def unreadable() -> Response:
    cause, hint = "its body is not JSON", "send one JSON value, in UTF-8"
    return answer(400, "Cannot read the request", detail=cause, hint=hint)


async def _http(connection: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {404: "there is nothing at this address", 405: "it cannot be asked in this way"}
    detail = details.get(error.status_code, str(error.detail))
    made = answer(
        error.status_code,
        "Cannot answer the request",
        detail=detail,
        hint=DESCRIBED,
        headers=error.headers,
    )
    return await _closed(connection, made, detail)


async def _system(connection: HTTPConnection, error: Exception) -> Response:
    if not _is_full(error):
        return await _unforeseen(connection, error)
    made = answer(507, "Cannot write", detail="no space left on device")
    return await _closed(connection, made, "no space left on device")


async def _unforeseen(connection: HTTPConnection, error: Exception) -> Response:
    """The log has the trace; whoever asked gets the number to find it by."""
    state = connection.app.state.ags
    assert isinstance(state, State)
    number = str(connection.scope.get("ags.id", ""))
    state.log.failure(error, number)
    made = answer(
        500,
        "Cannot answer the request",
        detail="something went wrong in the server",
        hint=f"the server's log tells more: look for {number}",
        id=number,
    )
    return await _closed(connection, made, "something went wrong in the server")


async def _closed(connection: HTTPConnection, made: Response, reason: str) -> Response:
    """A WebSocket is told as any other request while it is none yet, and then by its code.

    Its reason has room for 123 bytes.
    """
    if not isinstance(connection, WebSocket):
        return made
    asked = connection.application_state is WebSocketState.CONNECTING
    if asked and "websocket.http.response" in connection.scope.get("extensions", {}):
        await connection.send_denial_response(made)
    else:
        short = utf8(reason).encode()[:120].decode(errors="ignore")
        await connection.close(4000 + made.status_code, short)
    return made


def _wrong(error: Mapping[str, Any]) -> dict[str, str]:
    where = ".".join(str(part) for part in error["loc"])
    return {"where": where[:MOST_TEXT], "what": str(error["msg"])[:MOST_TEXT]}


def _clean(value: object) -> object:
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, Mapping):
        return {utf8(str(name)): _clean(each) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [_clean(each) for each in value]
    return value
