"""What a run changed, taking it over, and taking that back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse

from ags import proc, review
from ags.errors import Missing
from ags.server import problems, reading, schema, showing
from ags.server.state import State, state_of

router = APIRouter(tags=["review"])
Server = Annotated[State, Depends(state_of)]

PATCH = "text/x-diff"
LONGEST = 120.0
"""Seconds to look through a diff."""
MOST_BEGINNING = 100_000


@router.get(
    "/runs/{run}/diff",
    operation_id="diff_run",
    summary="Show what a run changed, and what of it deserves a second look",
    response_model=schema.Diff,
    responses=problems.documented(404, 409, 422, 507),
)
async def diff_run(
    ags: Server,
    run: schema.RunName,
    whitespace: Literal["show", "ignore"] = "show",
    since: Annotated[int | None, Query(ge=0, le=100_000)] = None,
    beginning: Annotated[int | None, Query(ge=1, le=MOST_BEGINNING)] = None,
) -> Response:
    """`since` a turn of the run's: only what it did after the end of that one.

    `beginning`: only the first files, up to so many changed lines but at least one, with their
    risks. `stat` counts all files: if these are more than are told, there are others.
    """
    engine = ags.engine()
    await engine.gather(run)
    spaces = whitespace == "show"
    wanted = partial(review.review, engine, run, since=since, spaces=spaces, beginning=beginning)
    async with ags.aside:
        # What an agent made may take long to look through, and nobody else shall wait for it.
        found = await proc.aside(partial(_diff, wanted), timeout=LONGEST)
    # Of our own making, so it is not checked line by line.
    return Response(found, media_type="application/json")


def _diff(wanted: Callable[[], Coroutine[Any, Any, review.Review]]) -> bytes:
    found = asyncio.run(wanted()).to_json()
    found["risks"] = schema.clean(found["risks"])
    # Of many lines: no blanks between them, and no list is within itself.
    return json.dumps(found, check_circular=False, separators=(",", ":")).encode()


@router.get(
    "/runs/{run}/diff.patch",
    operation_id="patch_of_run",
    summary="The same as a patch for `git apply`",
    response_class=Response,
    responses={
        200: {"content": {PATCH: {"schema": {"type": "string", "format": "binary"}}}},
        **problems.documented(404, 409, 422, 507),
    },
)
async def patch_of_run(ags: Server, run: schema.RunName) -> Response:
    engine = ags.engine()
    found = await engine.gather(run)
    try:
        file = (engine.run_dir(run) / "result.patch").open("rb")
    except FileNotFoundError as error:
        cause = "it has not ended" if not found.is_final else "there is none: see its notes"
        raise Missing("read its patch", subject=found.name, cause=cause) from error
    named = {"Content-Disposition": f'attachment; filename="{found.name}.patch"'}
    return StreamingResponse(reading.pieces(file), media_type=PATCH, headers=named)


@router.post(
    "/runs/{run}/apply",
    operation_id="apply_run",
    summary="Bring the work of a run onto a branch",
    response_model=schema.Done,
    responses=problems.documented(404, 409, 422, 507),
)
async def apply_run(ags: Server, run: schema.RunName, asked: schema.Apply) -> dict[str, Any]:
    engine = ags.engine()
    if asked.how == "push":
        remote = asked.remote or "origin"
        pushed = await review.push(
            engine, run, remote=remote, branch=asked.into, expected=asked.expected
        )
        made: dict[str, Any] = schema.clean(
            {
                "outcome": "push",
                "target": f"{pushed.remote}/{pushed.branch}",
                "before": None,
                "after": pushed.commit,
                "source": pushed.commit,
            }
        )
        return made
    done = await review.apply(engine, run, into=asked.into, how=asked.how, expected=asked.expected)
    return showing.done(done)


@router.post(
    "/runs/{run}/undo",
    operation_id="undo_run",
    summary="Take the last apply of a run back",
    response_model=schema.Done,
    responses=problems.documented(404, 409, 422, 507),
)
async def undo_run(
    ags: Server, run: schema.RunName, asked: schema.Nothing | None = None
) -> dict[str, Any]:
    return showing.done(await review.undo(ags.engine(), run))
