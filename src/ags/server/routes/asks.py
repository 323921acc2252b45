"""What runs wait to be allowed or were refused, and the person's answers."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends

from ags import asking
from ags.asking import Asked
from ags.egress import trail
from ags.egress.edit import spelled
from ags.egress.policy import Rule
from ags.engine import Engine
from ags.errors import AgsError, Missing
from ags.runs import Run
from ags.server import allowing, problems, schema, settings
from ags.server import schema_settings as shapes
from ags.server.state import State, state_of
from ags.text import one_line

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
        await asking.write_down(ags.environ, ags.home, one)
    await asking.answered(one, asked.verdict, asked.seconds or 0.0, asked.uses)
    return _told(one)


@router.post(
    "/runs/{run}/egress/{number}/allow",
    operation_id="allow_refused",
    summary="Allow what a run was refused: for good by a rule in the policy, or there for a time",
    response_model=shapes.AddedRule,
    responses=problems.documented(404, 409, 422, 507),
)
async def allow_refused(
    ags: Server, run: schema.RunName, number: shapes.LineNumber, asked: shapes.AllowRefused
) -> dict[str, Any]:
    found = ags.engine().find(run)
    log = ags.engine().run_dir(found.id) / trail.LOG
    line = await allowing.line_of(ags, log, number)
    rule, client = allowing.rule_for(ags, found, line), found.order.client
    is_for_good = asked.seconds is None
    if is_for_good and rule and not client and found.order.policy is not None:
        cause = "the run goes by a policy of its own, and not by yours"
        hint = f"allow it for a time, or write it into {one_line(str(found.order.policy))}"
        raise AgsError("allow this for good", subject=found.name, cause=cause, hint=hint)
    rules = (rule,) if rule and is_for_good else ()
    shown, added = await allowing.added(ags, client, rules, asked.revision)
    until = await _granted(ags, found, rule, asked.seconds) if rule and asked.seconds else None
    # Even if nothing was added: what the policy allows by now, this run may not know yet.
    moved = await settings.brought(ags, client, changed=until is None)
    told = {"rule": spelled(rule) if rule else "", "added": added, "until": until}
    made: dict[str, Any] = schema.clean({**shown, **moved, **told})
    return made


async def _granted(ags: State, run: Run, rule: Rule, seconds: float) -> float:
    """When it ends. An answer by the run itself: before that, nothing is allowed."""
    if run.state != "running":
        cause, hint = "the run is not at work", "allow it always, for its next turn too"
        raise AgsError("allow this for a time", subject=run.name, cause=cause, hint=hint)
    await asking.granted(ags.engine().run_dir(run.id), spelled(rule), seconds)
    return time.time() + seconds


def _at_work(engine: Engine, run: str) -> str | None:
    """Its name, if it is in a state to ask for anything."""
    found = engine.find(run)
    return found.name if found.state == "running" else None


def _told(one: Asked) -> dict[str, Any]:
    made: dict[str, Any] = schema.clean({**one.fields, "id": one.id, "run": one.run})
    return made
