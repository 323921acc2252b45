"""Projects: added, pulled, looked at, taken away."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from ags import clients, projects
from ags.errors import AgsError, Missing, Unfit
from ags.projects import Project
from ags.server import problems, schema
from ags.server.fetching import REDO, Fetching, fetching_of, meant
from ags.server.state import State, state_of

router = APIRouter(tags=["projects"])
Server = Annotated[State, Depends(state_of)]
Work = Annotated[Fetching, Depends(fetching_of)]


@router.get(
    "/projects",
    operation_id="list_projects",
    summary="List projects, in the order in which they were added",
    response_model=schema.Projects,
    responses=problems.documented(409, 422),
)
async def list_projects(
    ags: Server,
    work: Work,
    client: Annotated[schema.Word | None, Query(description="`default`: only your own")] = None,
    limit: schema.PageSize = schema.USUAL_ITEMS,
    offset: schema.Offset = 0,
) -> dict[str, Any]:
    whose = None if client is None else clients.checked_name(client)
    found = projects.listed(ags.ags_home, whose)
    items = await work.all_shown(found[offset : offset + limit])
    return {"items": items, "total": len(found)}


@router.post(
    "/projects",
    operation_id="add_project",
    summary="Add a project by its address: it is cloned meanwhile, or linked",
    status_code=201,
    response_model=schema.Project,
    responses={
        200: {"model": schema.Project, "description": "It is known already"},
        **problems.documented(409, 422, 507),
    },
)
async def add_project(
    ags: Server, work: Work, asked: schema.NewProject, response: Response
) -> dict[str, Any]:
    client = "" if asked.client is None else clients.checked_name(asked.client)
    if asked.link:
        return await _linked(ags, work, asked.url, client, response)
    adding = projects.begin(ags.ags_home, meant(asked.url), client)
    response.status_code = 201 if adding.new else 200
    if adding.new:
        work.clone(adding)
    work.tell(adding.project)
    return await work.shown(adding.project)


async def _linked(
    ags: State, work: Fetching, folder: str, client: str, response: Response
) -> dict[str, Any]:
    place = meant(folder).folder
    if place is None:
        cause = "only a folder on the server's own machine can be"
        raise Unfit("link a project", subject=folder[:80], cause=cause)
    before = {each.id for each in projects.listed(ags.ags_home)}
    project = await projects.link(ags.ags_home, place, client)
    response.status_code = 200 if project.id in before else 201
    work.tell(project)
    return await work.shown(project)


@router.get(
    "/projects/{project}",
    operation_id="show_project",
    summary="Tell about a project",
    response_model=schema.Project,
    responses=problems.documented(404, 409),
)
async def show_project(ags: Server, work: Work, project: schema.ProjectId) -> dict[str, Any]:
    return await work.shown(projects.get(ags.ags_home, project))


@router.delete(
    "/projects/{project}",
    operation_id="remove_project",
    summary="Remove a project; a folder of your own stays",
    status_code=204,
    response_class=Response,
    responses=problems.documented(404, 409, 422),
)
async def remove_project(
    ags: Server, work: Work, project: schema.ProjectId, force: schema.Force = False
) -> Response:
    begun = force and await work.cancel(project)
    with contextlib.suppress(Missing) if begun else contextlib.nullcontext():
        await projects.remove(ags.engine(), project, force=force)
    ags.board.project_gone(project)
    return Response(status_code=204)


@router.post(
    "/projects/{project}/pull",
    operation_id="pull_project",
    summary="Fetch what is new where a project was cloned from",
    status_code=202,
    response_model=schema.Project,
    responses=problems.documented(404, 409, 422),
)
async def pull_project(
    ags: Server, work: Work, project: schema.ProjectId, asked: schema.Nothing | None = None
) -> dict[str, Any]:
    found = projects.get(ags.ags_home, project)
    _check_pullable(found)
    work.pull(found)
    await asyncio.sleep(0)  # it takes its lock first thing
    return await work.shown(projects.get(ags.ags_home, project))


def _check_pullable(project: Project) -> None:
    cause = ""
    if project.linked:
        cause, hint = "it is a folder of your own", "pull there, with git"
    elif project.state in ("cloning", "pulling"):
        cause, hint = f"it is {project.state} right now", "wait until that is done"
    elif project.state == "failed":
        cause, hint = project.error or "it has not been cloned", REDO
    if cause:
        raise AgsError("pull", subject=project.name, cause=cause, hint=hint)


@router.get(
    "/projects/{project}/branches",
    operation_id="list_branches",
    summary="List the branches of a project, the latest first",
    response_model=schema.Branches,
    responses=problems.documented(404, 409),
)
async def list_branches(ags: Server, project: schema.ProjectId) -> dict[str, Any]:
    found = await projects.branches(projects.get(ags.ags_home, project))
    items = [
        {
            "name": each.name,
            "commit": each.commit,
            "title": each.title,
            "when": each.when,
            "run": each.run,
        }
        for each in found
    ]
    return {"items": schema.clean(items)}
