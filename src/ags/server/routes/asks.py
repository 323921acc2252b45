"""What runs wait to be allowed, and the person's answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from ags import asking
from ags.asking import Asked
from ags.engine import Engine
from ags.errors import Missing
from ags.server import problems, schema
from ags.server.state import State, state_of

router = APIRouter(tags=["asks"])
Server = Annotated[State, Depends(state_of)]


@router.get(
    "/asks",
    operation_id="list_asks",
    summary="List what runs at work wait to be allowed",
    response_model=schema.Asks,
    responses=problems.documented(409),
)
async def list_asks(ags: Server) -> dict[str, Any]:
    return {"items": [_told(each) for each in await asking.asked(ags.engine())]}


@router.get(
    "/runs/{run}/asks",
    operation_id="asks_of_run",
    summary="List what a run waits to be allowed",
    response_model=schema.Asks,
    responses=problems.documented(404, 409, 422),
)
async def asks_of_run(ags: Server, run: schema.RunName) -> dict[str, Any]:
    engine = ags.engine()
    name = _at_work(engine, run)
    found = () if name is None else await asking.asked(engine, name)
    return {"items": [_told(each) for each in found]}


@router.post(
    "/runs/{run}/asks/{ask}",
    operation_id="answer_ask",
    summary="Answer what a run asks for",
    response_model=schema.Ask,
    responses=problems.documented(404, 409, 422, 507),
)
async def answer_ask(
    ags: Server, run: schema.RunName, ask: schema.AskId, asked: schema.Answer
) -> dict[str, Any]:
    engine = ags.engine()
    if (name := _at_work(engine, run)) is None:
        cause = "this run is not at work, and asks nothing"
        raise Missing("answer this", subject=ascii(ask)[:60], cause=cause)
    one = await asking.the_one(engine, ask, name)
    if asked.verdict == "always":
        asking.write_down(ags.environ, ags.home, one)
    await asking.answered(one, asked.verdict, asked.seconds or 0.0, asked.uses)
    return _told(one)


def _at_work(engine: Engine, run: str) -> str | None:
    """Its name, if it is in a state to ask for anything."""
    found = engine.find(run)
    return found.name if found.state == "running" else None


def _told(one: Asked) -> dict[str, Any]:
    made: dict[str, Any] = schema.clean({**one.fields, "id": one.id, "run": one.run})
    return made
