"""Everybody else's side of the control socket: the command line, the server."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from ags.control import wire
from ags.control.wire import Ended, Size
from ags.errors import AgsError
from ags.model import MIB

PATIENCE = 60.0
MOST_TYPED = 1 * MIB


async def ask(
    run_dir: Path, do: str, /, *, patience: float = PATIENCE, **fields: object
) -> dict[str, object]:
    """Have a run do something, and wait for its answer. Its refusal is raised in its own words."""
    try:
        async with asyncio.timeout(patience), _connection(run_dir) as (reader, writer):
            return await _ask(run_dir, {**fields, "do": do}, reader, writer)
    except TimeoutError:
        cause = f"no answer came in {patience:g} s"
        raise AgsError(f"ask the run to {do}", subject=run_dir.name, cause=cause) from None


class View:
    """A run's terminal, seen from here."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Mapping[str, object],
    ) -> None:
        self.answer = answer
        self._reader = reader
        self._writer = writer
        writer.transport.set_write_buffer_limits(high=MOST_TYPED)

    async def read(self) -> bytes | Ended:
        """The next output, or how it ended."""
        try:
            found = await wire.read_frame(self._reader)
            if found and found[0] == wire.OUTPUT:
                return found[1]
            if found and found[0] == wire.END:
                return wire.unpack_end(found[1])
        except ValueError:
            return Ended(None, "the run sent what is no terminal's output")
        return Ended(None, "the run is not at work any more")

    async def type(self, data: bytes) -> None:
        for start in range(0, len(data), wire.MOST_FRAME):
            part = data[start : start + wire.MOST_FRAME]
            self._writer.write(wire.frame(wire.INPUT, part))
            with contextlib.suppress(OSError):  # it has ended, as reading will tell
                await self._writer.drain()

    def resize(self, size: Size) -> None:
        """Or, with the size that it has, to be sent the picture again."""
        self._writer.write(wire.frame(wire.RESIZE, wire.pack_size(size)))


@contextlib.asynccontextmanager
async def view(run_dir: Path, request: Mapping[str, object], size: Size) -> AsyncIterator[View]:
    """Look at a terminal of a run for as long as the context lasts. `request` has its `do`."""
    complete = {**request, "rows": size.rows, "columns": size.columns}
    # Of a viewer that does not read, this much waits here: the run redraws what it missed.
    async with _connection(run_dir, limit=wire.MOST_FRAME) as (reader, writer):
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await _ask(run_dir, complete, reader, writer)
        except TimeoutError:
            cause = f"no answer came in {PATIENCE:g} s"
            raise AgsError("open the terminal", subject=run_dir.name, cause=cause) from None
        yield View(reader, writer, answer)


@contextlib.asynccontextmanager
async def _connection(
    run_dir: Path, limit: int = wire.MOST_ANSWER
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    connected = await _connect(run_dir)
    reader, writer = await asyncio.open_unix_connection(sock=connected, limit=limit)
    try:
        yield reader, writer
    finally:
        # What is still to be sent goes, but nobody waits for it.
        writer.close()


async def _connect(run_dir: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        directory = wire.open_directory(run_dir)
        try:
            await _connect_patiently(made, wire.address(directory))
        finally:
            os.close(directory)
    except BaseException as error:
        made.close()
        if isinstance(error, OSError):  # a TimeoutError is one
            raise _no_connection(run_dir, error) from error
        raise
    return made


async def _connect_patiently(made: socket.socket, address: str) -> None:
    # Not the loop's own sock_connect: it takes a full queue for a connection under way.
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return made.connect(address)
            except BlockingIOError:
                await asyncio.sleep(0.02)


def _no_connection(run_dir: Path, error: OSError) -> AgsError:
    nobody = (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK)
    if isinstance(error, TimeoutError):
        cause, hint = "it takes no connection", ""
    elif error.errno in nobody:
        cause, hint = "it is not at work", "see `ags list`"
    else:
        cause, hint = (error.strerror or str(error)).lower(), ""
    return AgsError("reach the run", subject=run_dir.name, cause=cause, hint=hint)


async def _ask(
    run_dir: Path,
    request: Mapping[str, object],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> dict[str, object]:
    sent = wire.line(request)
    if len(sent) > wire.MOST_REQUEST:
        cause = f"the request is longer than {wire.MOST_REQUEST} bytes"
        raise AgsError("ask the run", subject=run_dir.name, cause=cause)
    try:
        writer.write(sent)
        answer = wire.fields(await reader.readuntil(b"\n"))
    except (asyncio.IncompleteReadError, OSError) as error:
        cause = "it ended before it answered"
        raise AgsError("ask the run", subject=run_dir.name, cause=cause) from error
    except (asyncio.LimitOverrunError, ValueError) as error:
        cause = f"its answer cannot be read: {error}"
        raise AgsError("ask the run", subject=run_dir.name, cause=cause) from error
    if answer.pop("ok", False) is not True:
        raise wire.refused(answer)
    return answer
