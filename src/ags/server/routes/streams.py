"""What happens, as it happens: a run's log, all runs, a run's terminal, a log-in."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, WebSocket

from ags import clients
from ags.control.wire import Size
from ags.server import terminal
from ags.server.login import LogIns, logins_of
from ags.server.problems import documented
from ags.server.schema_settings import Whose
from ags.server.state import State, state_of
from ags.server.stream import EventStream, after_of, of_run

router = APIRouter()

Last = Annotated[str | None, Header(alias="Last-Event-ID", max_length=100)]
After = Annotated[str | None, Query(max_length=100)]
SENT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


@router.get(
    "/runs/{run}/stream",
    operation_id="run_stream",
    summary="Follow what happens in a run",
    response_class=EventStream,
    status_code=200,  # FastAPI cannot ask this class for it
    responses={**SENT, **documented(404, 422, 503)},
)
async def run_stream(
    run: str,
    state: Annotated[State, Depends(state_of)],
    last: Last = None,
    after: After = None,
) -> EventStream:
    """Each event once, from the one after `Last-Event-ID` or `after` on; then `end`, or `gone`."""
    seen = after_of(after if last is None else last)
    run_dir = state.engine().run_dir(run)
    return EventStream(state, of_run(state, run_dir, seen, state.board.watch))


@router.get(
    "/stream",
    operation_id="board_stream",
    summary="Follow all runs, projects and asks",
    response_class=EventStream,
    status_code=200,  # FastAPI cannot ask this class for it
    responses={**SENT, **documented(422, 503)},
)
async def board_stream(
    state: Annotated[State, Depends(state_of)], last: Last = None
) -> EventStream:
    """A snapshot, then changes; after `Last-Event-ID` only these, where it is still known."""
    return EventStream(state, state.board.follow(last or ""))


@router.websocket("/runs/{run}/terminal")
async def run_terminal(
    websocket: WebSocket,
    run: str,
    state: Annotated[State, Depends(state_of)],
    rows: int = 24,
    columns: int = 80,
    shell: bool = False,
    term: str = terminal.SCREEN,
) -> None:
    """A size that no terminal has becomes the nearest one, on its way to the run."""
    opened = terminal.of_run(state, run, Size(rows, columns), shell=shell, term=term)
    await terminal.serve(websocket, state, opened, "the run goes on")


@router.websocket("/settings/agents/{name}/login")
async def agent_login(
    websocket: WebSocket,
    name: str,
    state: Annotated[State, Depends(state_of)],
    logins: Annotated[LogIns, Depends(logins_of)],
    client: Whose = clients.OWN,
    rows: int = 24,
    columns: int = 80,
) -> None:
    """`ags auth`, which ends with its viewer."""
    opened = logins.open(name, client, Size(rows, columns))
    await terminal.serve(websocket, state, opened, "the log-in was given up")
