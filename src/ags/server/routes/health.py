"""How the server and its machine are."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from ags import __version__
from ags.server import problems
from ags.server.fetching import Fetching, fetching_of
from ags.server.metrics import Facts
from ags.server.state import State, state_of
from ags.store import Filter
from ags.text import utf8

router = APIRouter(tags=["health"])
root = APIRouter(tags=["health"])
"""At the root, where Prometheus looks."""
ALL = Filter()


class Degraded(BaseModel):
    what: str
    cause: str
    hint: str


class Health(BaseModel):
    status: Literal["ok", "degraded"]
    version: str
    problems: list[Degraded]
    runs: dict[str, int]
    """How many are in each state that has any."""


@router.get(
    "/health",
    operation_id="health",
    summary="Tell what is degraded",
    response_model=Health,
    responses=problems.documented(409),
)
async def health(state: Annotated[State, Depends(state_of)]) -> Health:
    found = [
        Degraded(what=utf8(each.what), cause=utf8(each.cause), hint=utf8(each.hint))
        for each in await state.checkup.troubles()
    ]
    return Health(
        status="degraded" if found else "ok",
        version=__version__,
        problems=found,
        runs=counts(state),
    )


@root.get(
    "/metrics",
    operation_id="metrics",
    summary="Numbers for Prometheus",
    response_class=PlainTextResponse,
    responses=problems.documented(409),
)
async def metrics(
    state: Annotated[State, Depends(state_of)], work: Annotated[Fetching, Depends(fetching_of)]
) -> PlainTextResponse:
    asking = sum(counts(state, Filter(asking=True)).values())
    text = state.metrics.text(Facts(counts(state), asking, work.under_way))
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def counts(state: State, where: Filter = ALL) -> dict[str, int]:
    if not (state.ags_home / "runs").is_dir():
        return {}
    return {str(name): n for name, n in state.store.counts(where).items()}
