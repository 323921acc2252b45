"""A run or a project as one row of a list, the same wherever it is shown."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ags.frozen import frozen
from ags.projects import Project
from ags.runs import Moment, Run
from ags.server.schema import clean
from ags.store import Summary
from ags.text import utf8

MOST_GOAL = 500
"""Characters of it in a list, which may have many; a run that is asked for by itself has it all."""


def row(summary: Summary, project_id: str | None = None) -> dict[str, Any]:
    """`project_id` is the project's, where it is one that we know."""
    return {
        "id": summary.id,
        "name": summary.name,
        "agent": utf8(summary.agent),
        "goal": _cut(utf8(summary.goal)),
        "mode": summary.mode,
        "client": utf8(summary.client),
        "group": utf8(summary.group),
        "project": utf8(str(summary.project)),
        "project_id": project_id,
        "branch": _text(summary.branch),
        "state": summary.state,
        "asking": summary.asking,
        "created": summary.created.wall,
        "started": _wall(summary.started),
        "ended": _wall(summary.ended),
        "exit_code": summary.exit_code,
        "stopped_by": _text(summary.stopped_by),
        "weakenings": [utf8(name) for name in summary.weakenings],
        "files": summary.files,
        "insertions": summary.insertions,
        "deletions": summary.deletions,
        "applied": summary.applied,
    }


@frozen
class Progress:
    """Of a clone or a pull that is under way here."""

    stage: str = ""
    percent: int | None = None


def project_row(
    project: Project, runs: int, head: str, progress: Progress | None = None
) -> dict[str, Any]:
    progress = progress or Progress()
    made: dict[str, Any] = clean(
        {
            "id": project.id,
            "name": project.name,
            "url": project.url,
            "client": project.client,
            "linked": project.linked,
            "state": project.state,
            "progress": progress.percent,
            "stage": progress.stage,
            "error": project.error,
            "head": head,
            "added": project.added,
            "runs": runs,
            "apart": asdict(project.apart),
        }
    )
    return made


def _cut(goal: str) -> str:
    return goal if len(goal) <= MOST_GOAL else f"{goal[: MOST_GOAL - 1]}…"


def row_of(run: Run, project_id: str | None = None) -> dict[str, Any]:
    """The same of a whole record."""
    return row(summary_of(run), project_id)


def summary_of(run: Run) -> Summary:
    result = run.result
    return Summary(
        id=run.id,
        name=run.name,
        agent=run.agent,
        goal=run.goal,
        mode=run.mode,
        project=run.project,
        branch=run.branch,
        state=run.state,
        asking=run.asking,
        created=run.created,
        started=run.started,
        ended=run.ended,
        exit_code=run.exit_code,
        stopped_by=run.stopped_by,
        weakenings=tuple(each.name for each in run.weakenings),
        files=result.files if result else None,
        insertions=result.insertions if result else None,
        deletions=result.deletions if result else None,
        applied=any(each.undone is None for each in run.applied),
        client=run.order.client,
        group=run.group,
    )


def _wall(moment: Moment | None) -> float | None:
    return None if moment is None else moment.wall


def _text(text: str | None) -> str | None:
    return None if text is None else utf8(text)
