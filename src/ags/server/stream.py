"""Server-sent events. What is sent waits in a file or on the board, never here: no queue grows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ags import runs
from ags.errors import AgsError, Unfit
from ags.events import Stored, Watch, follow_stored
from ags.server import problems
from ags.server.state import State

MOST_STREAMS = 256
"""At once, terminals included."""
BEAT = 15.0
"""Seconds of silence after which a sign of life goes out: proxies cut what is silent."""
PATIENCE = 30.0
"""Seconds for a reader to take what it was sent."""
BETWEEN = 0.1
"""Seconds until another look at a run that is neither at work nor over: it is just begun anew."""
RETRY = b"retry: 1000\n\n"

Messages: TypeAlias = AsyncGenerator[list[bytes], None]


def message(id_: str, event: str, data: bytes) -> bytes:
    """`data` is one line."""
    head = f"id: {id_}\nevent: {event}\n" if id_ else f"event: {event}\n"
    return b"%sdata: %s\n\n" % (head.encode(), data)


def as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


@contextlib.contextmanager
def counted(state: State) -> Iterator[bool]:
    """Whether there is room for another stream; it is taken up for as long as this lasts."""
    if state.metrics.streams >= MOST_STREAMS:
        yield False
        return
    state.metrics.streams += 1
    try:
        yield True
    finally:
        state.metrics.streams -= 1


class Deaf(Exception):
    """The reader is gone, or takes nothing. What the source fails with is something else."""


class EventStream(Response):
    """Sends what `source` gives until that ends, the reader leaves or may no more, or we stop."""

    media_type = "text/event-stream"

    def __init__(
        self, state: State, source: Messages, *, beat: float = BEAT, patience: float = PATIENCE
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"X-Accel-Buffering": "no"})
        self._state = state
        self._source = source
        self._beat = beat
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with contextlib.aclosing(self._source):
            with counted(self._state) as room:
                if room:
                    await self._serve(scope, receive, send)
                else:
                    await full()(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **head})
        sending = asyncio.create_task(self._send_all(send))
        over = self._state.keys.until_ended(scope["ags.token"], self._beat)
        ends = (_gone(receive), self._state.stopping.wait(), over)
        others = [asyncio.create_task(each) for each in ends]
        try:
            await asyncio.wait((sending, *others), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(sending, *others)
        if sending.cancelled():
            await self._last(send)
        elif isinstance(error := sending.exception(), Deaf):
            return  # nor can it be told of an end
        elif error is not None:
            # The head is out, so nobody else can answer for it: who follows comes again.
            self._state.log.failure(error, str(scope.get("ags.id", "")))

    async def _send_all(self, send: Send) -> None:
        await self._send(send, RETRY)
        coming: asyncio.Task[list[bytes] | None] | None = None
        try:
            while True:
                coming = coming or asyncio.create_task(_next(self._source))
                await asyncio.wait({coming}, timeout=self._beat)
                if not coming.done():
                    await self._send(send, b": beat\n\n")
                    continue
                messages, coming = coming.result(), None
                if messages is None:
                    break
                await self._send(send, b"".join(messages))
                self._state.metrics.sent += len(messages)
        finally:
            if coming is not None:
                await _cancelled(coming)
        await self._last(send)

    async def _send(self, send: Send, data: bytes, *, more: bool = True) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await send({"type": "http.response.body", "body": data, "more_body": more})
        except OSError as error:
            raise Deaf from error

    async def _last(self, send: Send) -> None:
        with contextlib.suppress(Deaf):
            await self._send(send, b"", more=False)


def full() -> Response:
    return problems.answer(
        503,
        "Cannot open another stream",
        detail=f"{MOST_STREAMS} are open already",
        hint="close a page that shows runs, then try again",
        headers={"Retry-After": "5"},
    )


async def _next(source: Messages) -> list[bytes] | None:
    return await anext(source, None)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def after_of(given: str | None) -> int:
    """The seq that a reader has last seen."""
    if given is None:
        return 0
    if not re.fullmatch(r"[0-9]{1,18}", given, re.ASCII):
        cause = f"{given[:40]!a} is no number of an event"
        raise Unfit("go on after that event", cause=cause, hint="leave it away to begin anew")
    return int(given)


async def of_run(state: State, run_dir: Path, after: int, watch: Watch) -> Messages:
    """All that happens in a run, to its end: each event once, in order, from the one after."""
    log = run_dir / "events.jsonl"
    while True:
        coming = follow_stored(log, after, lambda: not runs.is_alive(run_dir), watch)
        async with contextlib.aclosing(coming):
            async for lines in coming:
                yield [_event(line) for line in lines]
                after = lines[-1].seq
        if told := _end(state, run_dir):
            yield [told]
            return
        await asyncio.sleep(BETWEEN)


def _event(stored: Stored) -> bytes:
    kind = stored.kind if stored.kind.isidentifier() else "system"
    return message(str(stored.seq), kind, stored.line)


def _end(state: State, run_dir: Path) -> bytes | None:
    """The last word on a run; None if there is more to come."""
    if not run_dir.is_dir():
        return message("", "gone", as_json({"id": run_dir.name}))
    try:
        run = runs.load(run_dir)
        if not run.is_final:  # nobody tends it: it died, or is just begun anew
            runs.sweep(state.ags_home, (run_dir.name,))
            run = runs.load(run_dir)
    except AgsError:
        return message("", "gone", as_json({"id": run_dir.name}))
    return message("", "end", as_json({"state": run.state})) if run.is_final else None
