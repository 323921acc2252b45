"""The supervisor's side of `inside.sock`, the one socket of ours that a sandbox has.

Whoever connects is hostile. One line is read, one answered, and the connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from ags.errors import AgsError
from ags.hooks import wire
from ags.hooks.call import Heard
from ags.hooks.model import Verdict
from ags.model import KIB

MOST_CLIENTS = 16
"""At once; others wait in the kernel's queue."""
WAITING = 64
PATIENCE = 10.0
"""Seconds for a client to send its line, and to take the answer."""
CHUNK = 64 * KIB

Hear = Callable[[Heard, asyncio.Event], Awaitable[Verdict]]
"""The event is set when whoever asked is gone."""


class Channel:
    """Listens for as long as the run is at work. `path` is what is to be mounted."""

    def __init__(self, run_dir: Path, hear: Hear, *, patience: float) -> None:
        self.path = run_dir / wire.SOCKET
        self._hear = hear
        self._patience = patience
        self._clients: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_CLIENTS)
        self._accepting: asyncio.Task[None] | None = None
        self._listening: socket.socket | None = None

    @classmethod
    async def open(
        cls, run_dir: Path, hear: Hear, *, owner: int | None = None, patience: float = PATIENCE
    ) -> Self:
        """`owner` is the host's id of who runs inside, where that is not ours."""
        made = cls(run_dir, hear, patience=patience)
        try:
            made._listening = _listen(run_dir, owner)
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise AgsError("open the socket for hooks", subject=run_dir, cause=cause) from error
        made._accepting = asyncio.create_task(made._accept(made._listening))
        return made

    async def close(self) -> None:
        """Who still waits for an answer gets none, which inside means no."""
        tasks = [*self._clients, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            self._listening.close()
        with contextlib.suppress(OSError):
            self.path.unlink()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError:  # out of descriptors, or gone before it was taken
                self._room.release()
                await asyncio.sleep(0.05)
                continue
            except BaseException:
                self._room.release()
                raise
            task = asyncio.create_task(self._serve(client))
            self._clients.add(task)
            task.add_done_callback(self._gone)

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._clients.discard(task)
        self._room.release()

    async def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, TimeoutError):
            client.setblocking(False)
            said = await self._answer(await self._line(client), client)
            async with asyncio.timeout(self._patience):
                await asyncio.get_running_loop().sock_sendall(client, said)
            # With bytes of theirs unread, closing would take the answer away again.
            client.shutdown(socket.SHUT_WR)
            await self._drain(client)

    async def _line(self, client: socket.socket) -> bytes | None:
        """The first line, None if none comes."""
        loop = asyncio.get_running_loop()
        data = bytearray()
        try:
            async with asyncio.timeout(self._patience):
                while len(data) <= wire.MOST_REQUEST:
                    part = await loop.sock_recv(client, CHUNK)
                    if not part:
                        return None
                    end = part.find(b"\n")
                    if end >= 0:
                        data += part[:end]
                        return bytes(data) if len(data) <= wire.MOST_REQUEST else None
                    data += part
        except TimeoutError:
            return None
        return None

    async def _drain(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        left = 4 * wire.MOST_REQUEST
        async with asyncio.timeout(min(1.0, self._patience)):
            while left > 0 and (part := await loop.sock_recv(client, CHUNK)):
                left -= len(part)

    async def _answer(self, line: bytes | None, client: socket.socket) -> bytes:
        if line is None:
            return wire.denied("no request came, or one that is too long")
        match wire.request(line):
            case Heard() as heard:
                return await self._judged(heard, client)
            case wire.Opening():
                return wire.denied("opening addresses is not possible yet; show it to the person")
            case wire.Refusal(reason):
                return wire.denied(reason)

    async def _judged(self, heard: Heard, client: socket.socket) -> bytes:
        left = asyncio.Event()
        watching = asyncio.create_task(_watch(client, left))
        try:
            return wire.answer(await self._hear(heard, left))
        except Exception as error:
            context = {"message": "a hook's call failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return wire.denied("AGS has a fault, so it says no")
        finally:
            watching.cancel()


async def _watch(client: socket.socket, left: asyncio.Event) -> None:
    """Until it hangs up. None that waits for an answer closes only its own half."""
    loop, room = asyncio.get_running_loop(), wire.MOST_REQUEST
    with contextlib.suppress(OSError):
        while room > 0 and (part := await loop.sock_recv(client, CHUNK)):
            room -= len(part)
    if room > 0:
        left.set()


def _listen(run_dir: Path, owner: int | None) -> socket.socket:
    """Reached by a short way: the real path may be longer than the 108 bytes there are."""
    directory = os.open(run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(wire.SOCKET, dir_fd=directory)
        os.fchmod(made.fileno(), 0o600)  # before it is bound: never wider, not even for a moment
        made.bind(f"/proc/self/fd/{directory}/{wire.SOCKET}")
        if owner is not None and owner != os.geteuid():
            os.chown(wire.SOCKET, owner, -1, dir_fd=directory, follow_symlinks=False)
        made.listen(WAITING)
        return made
    except BaseException:
        made.close()
        raise
    finally:
        os.close(directory)
