"""Logging in with a code, and out."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ags.errors import AgsError
from ags.server import problems
from ags.server.state import State, state_of

router = APIRouter(tags=["session"])

DELAY = 0.2
"""Seconds before a wrong code is answered."""


class LogIn(BaseModel):
    """The one-time code of a link that `ags up` printed."""

    model_config = ConfigDict(extra="forbid")
    code: Annotated[str, Field(min_length=1, max_length=200)]


class LoggedIn(BaseModel):
    token: str


@router.post(
    "/session",
    operation_id="log_in",
    summary="Exchange a one-time code for a session's token",
    response_model=LoggedIn,
    responses=problems.documented(403, 422, 503, 507),
    openapi_extra={"security": []},
)
async def log_in(given: LogIn, state: Annotated[State, Depends(state_of)]) -> LoggedIn | Response:
    token = state.keys.session_for(given.code)
    if token is None:
        await asyncio.sleep(DELAY)
        state.log.event("wrong code", "warning")
        return problems.answer(
            403,
            "Cannot log in",
            detail="the link is not good any more, or was used already",
            hint="`ags up --link` makes a new one",
        )
    state.log.event("logged in")
    return LoggedIn(token=token)


@router.delete(
    "/session",
    operation_id="log_out",
    summary="End the session whose token this request carries",
    status_code=204,
    response_class=Response,
    responses=problems.documented(409),
)
async def log_out(request: Request, state: Annotated[State, Depends(state_of)]) -> Response:
    token = request.scope["ags.token"]
    if state.keys.who(token) == "person":
        cause, hint = "it is your own token and no session's", "to renew it, remove its file"
        raise AgsError("log out", subject=state.keys.folder / "token", cause=cause, hint=hint)
    state.keys.end_session(token)
    state.log.event("logged out")
    return Response(status_code=204)
