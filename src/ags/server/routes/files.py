"""What there is to read of a run: its files, its log, its decisions."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from ags import events
from ags.egress import trail
from ags.events import Watch
from ags.logtext import Stream
from ags.model import MIB
from ags.server import problems, reading, schema
from ags.server.state import State, state_of
from ags.text import encode, utf8

router = APIRouter(tags=["files"])
Server = Annotated[State, Depends(state_of)]

EVENTS = "events.jsonl"
MOST_PAGE = 8 * MIB
"""Bytes of events in one answer; what is left comes with the next."""
USUAL_LINES = 500


async def asked_path(
    request: Request,
    path: Annotated[str, Query(max_length=reading.MOST_PATH, description="From the top")] = "",
) -> reading.Parts:
    """By its bytes: those that are no text were replaced before it came here."""
    query = request.scope["query_string"].decode("latin-1")
    given = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    return reading.parts_of(next((value for name, value in given[::-1] if name == "path"), path))


WantedPath = Annotated[reading.Parts, Depends(asked_path)]
WantedSide = Annotated[schema.Side, Query(description="As it is now, or in a commit")]


@router.get(
    "/runs/{run}/files",
    operation_id="read_file",
    summary="Look into a folder or a file of a run",
    response_model=schema.Folder | schema.File,
    responses=problems.documented(404, 409, 422),
)
async def read_file(
    ags: Server, run: schema.RunName, path: WantedPath, at: WantedSide = "workspace"
) -> dict[str, Any]:
    return await reading.read(ags.engine().find(run), path, at)


@router.get(
    "/runs/{run}/files/raw",
    operation_id="raw_file",
    summary="All bytes of a file of a run",
    response_class=Response,
    responses={
        200: {
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            }
        },
        **problems.documented(404, 409, 422),
    },
)
async def raw_file(
    ags: Server, run: schema.RunName, path: WantedPath, at: WantedSide = "workspace"
) -> Response:
    found = await reading.raw(ags.engine().find(run), path, at)
    name = quote(encode(path[-1] if path else "file"), safe="")
    # An attachment, and no type a browser would act on: the agent wrote it.
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    media = "application/octet-stream"
    if isinstance(found, bytes):
        return Response(found, media_type=media, headers=headers)
    sent = reading.pieces(found, reading.MOST_RAW)
    return StreamingResponse(sent, media_type=media, headers=headers)


@router.get(
    "/runs/{run}/log",
    operation_id="log_of_run",
    summary="What happened in a run, as text",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **problems.documented(404, 409, 422),
    },
)
async def log_of_run(ags: Server, run: schema.RunName) -> Response:
    log = ags.engine().run_dir(run) / EVENTS
    return StreamingResponse(_as_text(log), media_type="text/plain; charset=utf-8")


async def _as_text(log: Path) -> AsyncIterator[bytes]:
    shown = Stream()
    for block in events.read_blocks(log):
        yield _joined(line for event in block for line in shown.render(event))
        await asyncio.sleep(0)
    yield _joined(shown.finish())


def _joined(lines: Iterable[str]) -> bytes:
    return utf8("".join(f"{line}\n" for line in lines)).encode()


@router.get(
    "/runs/{run}/events",
    operation_id="events_of_run",
    summary="What happened in a run, event by event",
    response_model=schema.Events,
    responses=problems.documented(404, 409, 422),
)
async def events_of_run(
    ags: Server,
    run: schema.RunName,
    after: schema.Number = 0,
    limit: schema.Lines = USUAL_LINES,
    kind: Annotated[list[schema.Word], Query()] = [],  # noqa: B006
) -> Response:
    log = ags.engine().run_dir(run) / EVENTS
    found: list[bytes] = []
    last, room = after, MOST_PAGE
    coming = events.follow_stored(log, after, lambda: True, Watch())
    async with contextlib.aclosing(coming) as blocks:
        async for block in blocks:
            for event in block:
                if len(found) == limit or room <= 0:
                    return _page(found, last)
                last = event.seq
                if not kind or event.kind in kind:
                    found.append(event.line)
                    room -= len(event.line)
    return _page(found, last)


def _page(lines: list[bytes], last: int) -> Response:
    """Lines as they are stored, which is JSON."""
    body = b'{"items":[%s],"last":%d}' % (b",".join(lines), last)
    return Response(body, media_type="application/json")


@router.get(
    "/runs/{run}/egress",
    operation_id="egress_of_run",
    summary="What a run wanted to reach, and what was decided",
    response_model=schema.Decisions,
    responses=problems.documented(404, 409, 422),
)
async def egress_of_run(
    ags: Server,
    run: schema.RunName,
    after: schema.Number = 0,
    limit: schema.Lines = USUAL_LINES,
    denied: Annotated[bool | None, Query(description="Only what was refused, or allowed")] = None,
) -> Response:
    log = ags.engine().run_dir(run) / trail.LOG
    found: list[dict[str, Any]] = []
    last = after
    async with contextlib.aclosing(ags.marks.lines(log, after)) as lines:
        async for number, line in lines:
            if len(found) == limit:
                break
            last = number
            if denied is None or (line.get("allowed") is False) == denied:
                found.append({**schema.clean(line), "number": number})
    body = json.dumps({"items": found, "last": last})
    return Response(body.encode(), media_type="application/json")
