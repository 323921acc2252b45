"""The supervisor's side of the control socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Self, TypeAlias

from ags.control import wire
from ags.control.hub import STANDARD, Hub, Viewer
from ags.control.wire import Size
from ags.errors import AgsError
from ags.frozen import frozen

PATIENCE = 60.0
"""Seconds for a client to send a whole request, or to take an answer."""
MOST_CLIENTS = 64
LAST_WORDS = 1.0
"""Seconds for who is turned away to ask first, and for verbs at work when all is closed."""


@frozen
class Viewing:
    """A verb's answer that makes its connection a view of a terminal."""

    hub: Hub
    size: Size
    answer: Mapping[str, object] | None = None

    @classmethod
    def asked(cls, hub: Hub, request: Mapping[str, object]) -> Self:
        """As large as the request says the viewer's terminal is."""
        return cls(hub, wire.size_in(request, default=STANDARD))


Answer: TypeAlias = Mapping[str, object] | Viewing | None
Verb: TypeAlias = Callable[[Mapping[str, object]], Awaitable[Answer]]
"""Takes the whole request. An AgsError goes to who asked. It runs on if they leave meanwhile."""


class Control:
    """Listens for as long as the run is at work. Clients cannot disturb it, nor each other."""

    def __init__(self, run_dir: Path, verbs: Mapping[str, Verb], *, patience: float) -> None:
        self._run_dir = run_dir
        self._verbs = verbs
        self._patience = patience
        self._clients: set[asyncio.Task[None]] = set()
        self._at_work: set[asyncio.Task[None]] = set()
        self._identity: tuple[int, int] | None = None
        self._server: asyncio.Server | None = None
        self._closing = False

    @classmethod
    async def open(
        cls, run_dir: Path, verbs: Mapping[str, Verb], *, patience: float = PATIENCE
    ) -> Self:
        """A socket that was left behind is replaced: who holds the run's lock is the only one."""
        made = cls(run_dir, verbs, patience=patience)
        try:
            listening, made._identity = _listen(run_dir)
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise AgsError("open the control socket", subject=run_dir, cause=cause) from error
        made._server = await asyncio.start_unix_server(
            made._accept, sock=listening, limit=wire.MOST_REQUEST
        )
        return made

    async def close(self) -> None:
        """No more connections; verbs at work may still answer, then all connections end."""
        self._closing = True
        if self._server is not None:
            self._server.close()
        self._remove()
        for task in self._clients - self._at_work:
            task.cancel()
        if self._at_work:
            await asyncio.wait(self._at_work, timeout=LAST_WORDS)
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def _remove(self) -> None:
        path = self._run_dir / wire.SOCKET
        with contextlib.suppress(OSError):
            facts = path.lstat()
            if (facts.st_dev, facts.st_ino) == self._identity:
                path.unlink()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._clients.add(task)
        task.add_done_callback(lambda _: self._gone(task, writer))

    def _gone(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._clients.discard(task)
        # Who does not take the rest would keep it for ever.
        if writer.transport.get_write_buffer_size():
            writer.transport.abort()
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):  # gone, or as good as
            if error := self._unwelcome(writer):
                await self._turn_away(error, reader, writer)
                return
            while not self._closing and (more := await self._exchange(reader, writer)):
                if isinstance(more, Viewing):
                    await _view(more, reader, writer)
                    return

    def _unwelcome(self, writer: asyncio.StreamWriter) -> AgsError | None:
        what = "speak to the run"
        if len(self._clients) > MOST_CLIENTS:
            return AgsError(what, cause=f"it has {MOST_CLIENTS} connections already")
        if cause := _not_ours(writer.get_extra_info("socket")):
            return AgsError(what, cause=cause)
        return None

    async def _turn_away(
        self, error: AgsError, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """With a word of explanation, which many would not read before they have asked."""
        if len(self._clients) > 2 * MOST_CLIENTS:
            return
        with contextlib.suppress(
            TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(LAST_WORDS):
                await reader.readuntil(b"\n")
        await self._say(writer, wire.refusal(error))

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Viewing | bool:
        """One request and its answer. False: that was the last."""
        try:
            async with asyncio.timeout(self._patience):
                request = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return False
        except asyncio.LimitOverrunError:
            cause = f"the request is longer than {wire.MOST_REQUEST} bytes"
            await self._say(writer, wire.refusal(AgsError("read the request", cause=cause)))
            return False
        answer = await self._answer(request)
        if isinstance(answer, Viewing):
            await self._say(writer, {**(answer.answer or {}), "ok": True})
            return answer
        await self._say(writer, answer)
        return True

    async def _say(self, writer: asyncio.StreamWriter, answer: Mapping[str, object]) -> None:
        writer.write(wire.line(answer))
        async with asyncio.timeout(self._patience):
            await writer.drain()

    async def _answer(self, request: bytes) -> dict[str, object] | Viewing:
        task = asyncio.current_task()
        assert task is not None
        self._at_work.add(task)
        try:
            return await self._do(request)
        except AgsError as error:
            return wire.refusal(error)
        except Exception as error:
            context = {"message": "a control verb failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            cause = f"a fault in ags: {type(error).__name__}: {error}"
            return wire.refusal(AgsError("do that", cause=cause[:1000]))
        finally:
            self._at_work.discard(task)

    async def _do(self, request: bytes) -> dict[str, object] | Viewing:
        try:
            fields = wire.fields(request)
        except ValueError as error:
            raise AgsError("read the request", cause=str(error)[:200]) from error
        name = fields.get("do")
        verb = self._verbs.get(name) if isinstance(name, str) else None
        if verb is None:
            cause = "the run knows no such request"
            raise AgsError("do that", subject=ascii(name)[:60], cause=cause)
        answer = await verb(fields)
        if isinstance(answer, Viewing):
            return answer
        complete = {**(answer or {}), "ok": True}
        wire.line(complete)  # what cannot be said is the verb's fault, so it is found here
        return complete


async def _view(
    viewing: Viewing, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    hub = viewing.hub
    viewer = hub.attach(writer, viewing.size)
    try:
        if hub.ended is not None:
            await viewer.end(hub.ended)
        while found := await wire.read_frame(reader):
            await _obey(hub, viewer, *found)
    except ValueError:
        pass  # it does not speak our language, so there is nothing to tell it
    finally:
        hub.detach(viewer)


async def _obey(hub: Hub, viewer: Viewer, kind: bytes, payload: bytes) -> None:
    if kind == wire.INPUT:
        await hub.type(viewer, payload)
    elif kind == wire.RESIZE:
        hub.resize(viewer, wire.unpack_size(payload))
    else:
        raise ValueError(f"a frame of kind {kind!r}")


def _listen(run_dir: Path) -> tuple[socket.socket, tuple[int, int]]:
    """Ready before it has its name, so whoever finds it can connect."""
    directory = wire.open_directory(run_dir)
    new = f"{wire.SOCKET}.new"
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=directory)
        os.fchmod(made.fileno(), 0o600)  # before it is bound: never wider, not even for a moment
        made.bind(wire.address(directory, new))
        made.listen(2 * MOST_CLIENTS)
        facts = os.stat(new, dir_fd=directory, follow_symlinks=False)
        os.rename(new, wire.SOCKET, src_dir_fd=directory, dst_dir_fd=directory)
        return made, (facts.st_dev, facts.st_ino)
    except BaseException:
        made.close()
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=directory)
        raise
    finally:
        os.close(directory)


def _not_ours(peer: socket.socket) -> str:
    """Why this peer may not speak; empty if it may.

    What runs in a sandbox may have our very uid, but it is in another user namespace. The socket is
    not in any sandbox; this holds should it ever get into one.
    """
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("iII", credentials)
    if uid == os.geteuid():
        return "" if _in_our_namespace(pid) else "it does not listen to what runs in a sandbox"
    return "" if uid == 0 else "it belongs to another user"


def _in_our_namespace(pid: int) -> bool:
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/ns/user"), os.stat("/proc/self/ns/user"))
    except OSError:
        return False
