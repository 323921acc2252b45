"""Runs: listed, started, told, stopped, taken away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Response

from ags import clients, projects
from ags.errors import Unfit
from ags.server import creating, problems, schema, showing
from ags.server.keys import Busy
from ags.server.state import State, state_of
from ags.store import Filter, Listing

router = APIRouter(tags=["runs"])
Server = Annotated[State, Depends(state_of)]

OF_A_RUN = (404, 409, 422)
NOBODY = Listing((), 0, ())


@router.get(
    "/runs",
    operation_id="list_runs",
    summary="List runs",
    response_model=schema.Rows,
    responses=problems.documented(404, 409, 422),
)
async def list_runs(
    ags: Server,
    state: Annotated[list[schema.State], Query()] = [],  # noqa: B006
    agent: Annotated[schema.Word | None, Query()] = None,
    project: Annotated[schema.Address | None, Query(description="An id or a path")] = None,
    client: Annotated[schema.Word | None, Query(description="`default`: only your own")] = None,
    asking: Annotated[bool | None, Query()] = None,
    group: Annotated[schema.Word | None, Query()] = None,
    words: Annotated[schema.Word | None, Query(description="Of the name or the goal")] = None,
    order: Annotated[schema.Order, Query()] = "newest",
    limit: schema.PageSize = schema.USUAL_ITEMS,
    offset: schema.Offset = 0,
) -> dict[str, Any]:
    whose = None if client is None else clients.checked_name(client)
    folder, owner = (None, None) if project is None else _meant(ags, project)
    where = Filter(
        states=tuple(state),
        agent=agent,
        project=folder,
        asking=asking,
        words=words,
        client=owner if whose is None else whose,
        group=group,
    )
    apart = None not in (whose, owner) and whose != owner
    found = NOBODY if apart else ags.engine().listing(where, limit, offset, order)
    return showing.rows(ags, found)


def _meant(ags: State, project: str) -> tuple[Path, str | None]:
    """The folder; and of a project of ours, whose it is."""
    if project.startswith("/"):
        return Path(project), None
    if not project.startswith("project-"):
        hint = "a project's id, or an absolute path"
        raise Unfit("find the project", subject=project[:80], cause="it is neither", hint=hint)
    found = projects.get(ags.ags_home, project)
    return found.folder, found.client


@router.post(
    "/runs",
    operation_id="create_runs",
    summary="Start a run, or several attempts at one goal",
    status_code=201,
    response_model=schema.Rows,
    responses={
        200: {"model": schema.Rows, "description": "Started before by the same request"},
        **problems.documented(404, 409, 422, 507),
    },
)
async def create_runs(
    ags: Server,
    asked: schema.NewRun,
    response: Response,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=200, description="Printable ASCII")
    ] = None,
) -> Response | dict[str, Any]:
    try:
        found, new = await creating.create(ags.engine(), asked, idempotency_key)
    except creating.Partly as error:
        return problems.of(error, started=list(error.started))
    except Busy as error:
        return problems.of(error, headers={"Retry-After": "1"})
    response.status_code = 201 if new else 200
    return showing.run_rows(ags, found)


@router.get(
    "/runs/{run}",
    operation_id="show_run",
    summary="Tell everything about a run",
    response_model=schema.Run,
    responses=problems.documented(*OF_A_RUN),
)
async def show_run(ags: Server, run: schema.RunName) -> dict[str, Any]:
    return showing.shown(ags, ags.engine().find(run))


@router.delete(
    "/runs/{run}",
    operation_id="remove_run",
    summary="Remove a run; its branch stays",
    status_code=204,
    response_class=Response,
    responses=problems.documented(*OF_A_RUN, 507),
)
async def remove_run(ags: Server, run: schema.RunName, force: schema.Force = False) -> Response:
    await ags.engine().remove(run, force=force)
    return Response(status_code=204)


@router.post(
    "/runs/{run}/stop",
    operation_id="stop_run",
    summary="End a run in order, and wait until it has ended",
    response_model=schema.Run,
    responses=problems.documented(*OF_A_RUN),
)
async def stop_run(
    ags: Server, run: schema.RunName, asked: schema.Stop | None = None
) -> dict[str, Any]:
    ended = await ags.engine().stop(run, at_once=asked is not None and asked.now)
    return showing.shown(ags, ended)


@router.post(
    "/runs/{run}/restart",
    operation_id="restart_run",
    summary="Give a run its goal again, from the same base",
    response_model=schema.Run,
    responses=problems.documented(*OF_A_RUN, 507),
)
async def restart_run(
    ags: Server, run: schema.RunName, asked: schema.Nothing | None = None
) -> dict[str, Any]:
    return showing.shown(ags, await ags.engine().restart(run))


@router.post(
    "/runs/{run}/tell",
    operation_id="tell_run",
    summary="Give a run its next turn, in the same conversation",
    response_model=schema.Run,
    responses=problems.documented(*OF_A_RUN, 507),
)
async def tell_run(ags: Server, run: schema.RunName, asked: schema.Tell) -> dict[str, Any]:
    return showing.shown(ags, await ags.engine().tell(run, asked.text))


@router.get(
    "/runs/{run}/ports",
    operation_id="list_ports",
    summary="List the ports of a run that are on this machine's loopback",
    response_model=schema.Ports,
    responses=problems.documented(*OF_A_RUN),
)
async def list_ports(ags: Server, run: schema.RunName) -> dict[str, Any]:
    engine = ags.engine()
    if engine.find(run).state != "running":
        return {"items": []}
    return {"items": (await engine.ports(run)).get("ports", [])}


@router.post(
    "/runs/{run}/ports",
    operation_id="publish_port",
    summary="Bring a port of a run to this machine's loopback",
    response_model=schema.Published,
    responses=problems.documented(*OF_A_RUN),
)
async def publish_port(ags: Server, run: schema.RunName, asked: schema.Publish) -> dict[str, Any]:
    return await ags.engine().publish(run, asked.port, asked.host_port)
