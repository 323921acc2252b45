"""The person's settings: what runs may reach, secrets, clients, agents, and this machine."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from ags import clients, projects
from ags.egress.policy import Layer
from ags.errors import Unfit
from ags.server import allowing, problems, schema, settings
from ags.server import schema_settings as shapes
from ags.server.machine import Machine, machine_of
from ags.server.settings import Mistake
from ags.server.state import State, state_of

router = APIRouter(tags=["settings"])
Server = Annotated[State, Depends(state_of)]
Here = Annotated[Machine, Depends(machine_of)]

MOST_ALLOWED = 8192


@router.get(
    "/settings/policy",
    operation_id="show_policy",
    summary="Show the policy's file",
    response_model=shapes.PolicyFile,
    responses=problems.documented(409, 422),
)
async def show_policy(ags: Server, client: shapes.Whose = clients.OWN) -> dict[str, Any]:
    made: dict[str, Any] = schema.clean(settings.policy_text(ags, clients.checked_name(client)))
    return made


@router.put(
    "/settings/policy",
    operation_id="save_policy",
    summary="Put another policy in the place of the one that was read",
    response_model=shapes.SavedPolicy,
    responses=problems.documented(409, 422, 507),
)
async def save_policy(
    ags: Server, asked: shapes.NewPolicy, client: shapes.Whose = clients.OWN
) -> Any:  # noqa: ANN401
    name = clients.checked_name(client)
    found = settings.checked(ags, name, asked.text)
    if isinstance(found, Mistake):
        return _unfit(found)
    shown, changed = await settings.save(ags, name, asked.text, asked.revision)
    return schema.clean({**shown, **await settings.brought(ags, name, changed=changed)})


def _unfit(mistake: Mistake) -> Response:
    where = f"line {mistake.line}" if mistake.line else "the text"
    error = Unfit("save the policy", subject=where, cause=mistake.what, hint=mistake.hint)
    return problems.of(error, errors=[{"where": where, "what": mistake.what}])


@router.post(
    "/settings/policy/withdraw",
    operation_id="withdraw_rule",
    summary="Take back a rule that was just added, and nothing else",
    response_model=shapes.SavedPolicy,
    responses=problems.documented(409, 422, 507),
)
async def withdraw_rule(
    ags: Server, asked: shapes.Withdraw, client: shapes.Whose = clients.OWN
) -> dict[str, Any]:
    name = clients.checked_name(client)
    shown, changed = await allowing.withdrawn(ags, name, asked.rule, asked.revision)
    made: dict[str, Any] = schema.clean(
        {**shown, **await settings.brought(ags, name, changed=changed)}
    )
    return made


@router.post(
    "/settings/policy/check",
    operation_id="check_policy",
    summary="Tell what a policy would mean, or what is wrong with it",
    response_model=shapes.Checked,
    responses=problems.documented(409, 422),
)
async def check_policy(
    ags: Server, asked: shapes.PolicyDraft, client: shapes.Whose = clients.OWN
) -> dict[str, Any]:
    found = settings.checked(ags, clients.checked_name(client), asked.text)
    if isinstance(found, Mistake):
        mistake = {"line": found.line, "what": found.what, "hint": found.hint}
        made: dict[str, Any] = schema.clean(
            {"ok": False, "problems": [mistake], **settings.meaning(Layer(""))}
        )
    else:
        made = schema.clean({"ok": True, "problems": [], **settings.meaning(found)})
    return made


@router.get(
    "/reach",
    operation_id="show_reach",
    summary="Tell what a run would be able to reach; nothing is sent or looked up",
    response_model=shapes.Reach,
    responses=problems.documented(404, 409, 422),
)
async def show_reach(
    ags: Server,
    agent: Annotated[schema.Agent, Query()] = "claude",
    client: Annotated[schema.Word | None, Query(description="`default`: your own work")] = None,
    project: Annotated[schema.Address | None, Query(description="An id or a path")] = None,
    allow: Annotated[
        schema.Text, Query(max_length=MOST_ALLOWED, description="Domains, with commas between")
    ] = "",
) -> dict[str, Any]:
    wanted = [word for each in allow.split(",") if (word := each.strip())]
    made: dict[str, Any] = schema.clean(
        settings.reach(ags, agent, _whose(ags, client, project), wanted)
    )
    return made


def _whose(ags: State, client: str | None, project: str | None) -> str:
    """Who is named, else whose the project is."""
    if client is not None:
        return clients.checked_name(client)
    if project is None or project.startswith("/"):
        return ""
    return projects.get(ags.ags_home, project).client


@router.get(
    "/settings/secrets",
    operation_id="list_secrets",
    summary="List secrets by name, and where each may go",
    response_model=shapes.Secrets,
    responses=problems.documented(409, 422),
)
async def list_secrets(ags: Server, client: shapes.Whose = clients.OWN) -> dict[str, Any]:
    name = clients.checked_name(client)
    made: dict[str, Any] = schema.clean({"client": name, "items": settings.secrets_of(ags, name)})
    return made


@router.get(
    "/settings/clients",
    operation_id="list_clients",
    summary="List clients, and what is kept of each",
    response_model=shapes.Clients,
    responses=problems.documented(409),
)
async def list_clients(ags: Server) -> dict[str, Any]:
    made: dict[str, Any] = schema.clean({"items": settings.clients_of(ags)})
    return made


@router.get(
    "/agents",
    operation_id="list_agents",
    summary="List what a run can be given to",
    response_model=shapes.AgentChoices,
    responses=problems.documented(409),
)
async def list_agents(here: Here) -> dict[str, Any]:
    return {"items": here.choices()}


@router.get(
    "/settings/agents",
    operation_id="show_agents",
    summary="Tell what is installed, and of log-ins",
    response_model=shapes.AgentsFacts,
    responses=problems.documented(409, 422),
)
async def show_agents(
    here: Here,
    check: Annotated[bool, Query(description="Ask your npm registry for the newest")] = False,
) -> dict[str, Any]:
    made: dict[str, Any] = schema.clean({"items": await here.agents(check=check)})
    return made


@router.post(
    "/settings/agents/{name}/install",
    operation_id="install_agent",
    summary="Install an agent, or bring it up to date; it goes on meanwhile",
    status_code=202,
    response_model=shapes.AgentFacts,
    responses=problems.documented(404, 409, 422),
)
async def install_agent(
    here: Here, name: shapes.AgentName, asked: shapes.Install | None = None
) -> dict[str, Any]:
    here.install(name, asked.version if asked else None)
    made: dict[str, Any] = schema.clean(here.one(name))
    return made


@router.get(
    "/settings/doctor",
    operation_id="examine",
    summary="Tell what this machine can do, as `ags doctor` does",
    response_model=shapes.Findings,
    responses=problems.documented(409),
)
async def examine(here: Here) -> dict[str, Any]:
    made: dict[str, Any] = schema.clean(await here.examined())
    return made
