"""A terminal over a WebSocket: bytes both ways, sizes as JSON, the end as the last word."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from ags import runs
from ags.control import client
from ags.control.wire import Ended, Size
from ags.engine import Engine
from ags.errors import AgsError, Missing, Unfit
from ags.frozen import frozen
from ags.server.auth import Keys, Unsure
from ags.server.state import State
from ags.server.stream import BEAT, MOST_STREAMS, PATIENCE, counted

PROTOCOL = "ags.v1"
UNFIT, LOGGED_OUT, MISSING, REFUSED, FULL, STOPPING = 4422, 4401, 4404, 4409, 4503, 1012
SCREEN = "xterm-256color"
"""As the page's terminal, and most others, understand it."""
MOST_REASON = 120
"""Bytes: a close frame has room for 123."""


class Unspoken(Exception):
    """The other side sent what is no part of this."""


class View(Protocol):
    """A terminal, seen from here."""

    async def read(self) -> bytes | Ended:
        """The next output, or how it ended."""
        ...

    async def type(self, data: bytes) -> None: ...

    def resize(self, size: Size) -> None: ...


async def serve(
    websocket: WebSocket, state: State, opened: AbstractAsyncContextManager[View], then: str
) -> None:
    """Until the program ends, the viewer leaves or logs out, or the server stops.

    `then` says what becomes of the program in the last two cases.
    """
    wanted = websocket.scope.get("subprotocols", ())
    await websocket.accept(PROTOCOL if PROTOCOL in wanted else None)
    with counted(state) as room:
        if not room:
            await _close(websocket, FULL, f"{MOST_STREAMS} streams are open already")
            return
        try:
            await _visit(websocket, state, opened, then)
        except Unsure as error:
            await _close(websocket, FULL, f"{error}; {then}")
        except Missing as error:
            await _close(websocket, MISSING, error.cause)
        except Unfit as error:
            await _close(websocket, UNFIT, error.cause)
        except AgsError as error:
            await _close(websocket, REFUSED, error.cause or error.what)
        except Unspoken as error:
            await _close(websocket, UNFIT, str(error))
        except (TimeoutError, OSError, WebSocketDisconnect):
            pass  # gone, or as good as


async def _visit(
    websocket: WebSocket, state: State, opened: AbstractAsyncContextManager[View], then: str
) -> None:
    async with opened as view:
        outcome = await _first(websocket, state, view)
    if outcome is None:
        return
    if isinstance(outcome, Ended):
        told = json.dumps({"ended": outcome.code, "reason": outcome.reason})
        await _patiently(websocket.send_text(told))
        await _close(websocket, 1000, "")
    else:
        await _close(websocket, outcome.code, f"{outcome.reason}; {then}")


@contextlib.asynccontextmanager
async def of_run(
    state: State, run: str, size: Size, *, shell: bool, term: str
) -> AsyncIterator[View]:
    """The run's own terminal, or that of a shell beside it."""
    engine = state.engine()
    run_dir = _at_work(engine, run, shell=shell)
    await engine.answering(run_dir)
    wish = {"do": "enter", "term": term} if shell else {"do": "attach"}
    async with client.view(run_dir, wish, size) as view:
        yield view


def _at_work(engine: Engine, name: str, *, shell: bool) -> Path:
    what = "open a shell" if shell else "attach"
    run_dir = engine.at_work(name, what)
    if not shell and not (run := runs.load(run_dir)).order.terminal:
        cause = "it was started without a terminal"
        raise AgsError(what, subject=run.name, cause=cause, hint=f"see `ags logs {run.name}`")
    return run_dir


@frozen
class _Cut:
    """We end it before the program does."""

    code: int
    reason: str


_STOPPED = _Cut(STOPPING, "the server stops")
_LOGGED_OUT = _Cut(LOGGED_OUT, "the session was ended")


async def _first(websocket: WebSocket, state: State, view: View) -> Ended | _Cut | None:
    """Whatever comes first: None, if the viewer left."""
    ways = (
        asyncio.create_task(_show(websocket, view)),
        asyncio.create_task(_type(websocket, state.keys, view)),
        asyncio.create_task(_stopped(state)),
        asyncio.create_task(_logged_out(websocket, state.keys)),
    )
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        return next(each.result() for each in ways if each.done())
    finally:
        for each in ways:
            each.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _show(websocket: WebSocket, view: View) -> Ended:
    while isinstance(data := await view.read(), bytes):
        await _patiently(websocket.send_bytes(data))
    return data


async def _type(websocket: WebSocket, keys: Keys, view: View) -> _Cut | None:
    while (came := await websocket.receive())["type"] == "websocket.receive":
        # Nobody has told us yet, if another process ended the session.
        if keys.who(websocket.scope["ags.token"]) is None:
            return _LOGGED_OUT
        if (typed := came.get("bytes")) is not None:
            await view.type(typed)
        else:
            view.resize(_size(came.get("text") or ""))
    return None


async def _stopped(state: State) -> _Cut:
    await state.stopping.wait()
    return _STOPPED


async def _logged_out(websocket: WebSocket, keys: Keys) -> _Cut:
    await keys.until_ended(websocket.scope["ags.token"], BEAT)
    return _LOGGED_OUT


def _size(text: str) -> Size:
    try:
        found = json.loads(text)
        rows, columns = found["rows"], found["columns"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unspoken("a text frame has to be a size: rows and columns") from None
    if type(rows) is not int or type(columns) is not int:
        raise Unspoken("rows and columns are not numbers")
    return Size(rows, columns)


async def _patiently(sending: Coroutine[Any, Any, None]) -> None:
    """The transport takes no more than it may hold, so this waits for a viewer that is slow."""
    async with asyncio.timeout(PATIENCE):
        await sending


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    short = reason.encode(errors="replace")[:MOST_REASON].decode(errors="ignore")
    with contextlib.suppress(OSError, RuntimeError, TimeoutError):
        await _patiently(websocket.close(code, short))
