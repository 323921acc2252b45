"""A run as the API tells of it, with all that can be done about it now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ags import projects
from ags.agents import AGENTS, agent
from ags.runs import Applied, Run
from ags.server.rows import row, row_of
from ags.server.schema import Step, clean
from ags.server.state import State
from ags.store import Filter, Listing


def rows(state: State, listing: Listing) -> dict[str, Any]:
    known = project_ids(state.ags_home) if listing.runs else {}
    items = [row(each, known.get((each.project, each.client))) for each in listing.runs]
    return {"items": items, "total": listing.total}


def run_rows(state: State, found: list[Run]) -> dict[str, Any]:
    known = project_ids(state.ags_home)
    items = [row_of(each, known.get((each.project, each.order.client))) for each in found]
    return {"items": items, "total": len(items)}


def project_ids(ags_home: Path) -> dict[tuple[Path, str], str]:
    """By the folder and the client: a linked folder may be a project of several."""
    return {(each.folder, each.client): each.id for each in projects.listed(ags_home)}


def shown(state: State, run: Run) -> dict[str, Any]:
    """All of a run but the values of its variables, which may be secrets."""
    order, result, limits = run.order, run.result, run.limits
    project = projects.find_by_folder(state.ags_home, run.project, order.client)
    more = {
        "goal": run.goal,
        "model": order.model,
        "base": run.base,
        "workspace": None if run.workspace is None else str(run.workspace),
        "said": run.said,
        "turn": run.turn,
        "turns": [
            {"turn": number, "commit": each.commit, "said": each.said}
            for number, each in enumerate(run.turns)
        ],
        "answer": run.answer,
        "session": run.session,
        "limits": {name: getattr(limits, name) for name in ("memory", "cpus", "pids", "timeout")},
        "limited_by": run.limited_by,
        "weakenings": [{"name": each.name, "text": each.detail} for each in run.weakenings],
        "notes": run.notes,
        "result": None
        if result is None
        else {
            "commit": result.commit,
            "files": result.files,
            "insertions": result.insertions,
            "deletions": result.deletions,
        },
        "applied": [_applied(each) for each in run.applied],
        "pushed": [
            {
                "remote": each.remote,
                "branch": each.branch,
                "commit": each.commit,
                "at": each.at.wall,
            }
            for each in run.pushed
        ],
        "attempts": _attempts(state, run),
        "terminal": order.terminal,
        "network": order.network,
        "allow": order.allow,
        "ask": order.ask,
        "publish": order.publish,
        "left": left(run),
    }
    made: dict[str, Any] = clean({**row_of(run, project.id if project else None), **more})
    return made


def done(applied: Applied | None) -> dict[str, Any]:
    """What an apply or undo came to."""
    if applied is None:
        nothing = dict.fromkeys(("target", "before", "after", "source"))
        return {"outcome": "nothing", **nothing}
    told = _applied(applied)
    kept = {name: told[name] for name in ("target", "before", "after", "source")}
    return {"outcome": applied.how, **kept}


def left(run: Run) -> list[Step]:
    """What makes sense now; that it succeeds nobody can promise."""
    if not run.is_final:
        return ["stop"]
    apart = run.mode == "separate"
    is_applied = any(each.undone is None for each in run.applied)
    can: dict[Step, bool] = {
        "tell": apart and run.workspace is not None and (bool(run.session) or _is_plain(run)),
        "restart": apart,
        "apply": apart and _has_work(run),
        "undo": is_applied,
        "remove": True,
    }
    return [step for step, possible in can.items() if possible]


def _has_work(run: Run) -> bool:
    if run.result is None:  # it may have been interrupted: then its work is collected first
        return run.started is not None and run.workspace is not None
    there = any(each.undone is None and each.source == run.result.commit for each in run.applied)
    return run.result.commit != run.base and not there


def _is_plain(run: Run) -> bool:
    """Without a conversation, so that none must be there to go on with."""
    return run.agent in AGENTS and agent(run.agent).program is None


def _applied(each: Applied) -> dict[str, Any]:
    return {
        "how": each.how,
        "target": clean(each.target.removeprefix("refs/heads/")),
        "before": each.before,
        "after": each.after,
        "source": each.source,
        "at": each.at.wall,
        "undone": None if each.undone is None else each.undone.wall,
    }


def _attempts(state: State, run: Run) -> list[str]:
    if not run.group:
        return [run.name]
    where = Filter(group=run.group, project=run.project, client=run.order.client)
    found = state.engine().listing(where, order="oldest").runs
    return [each.name for each in found] or [run.name]
