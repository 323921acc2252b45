"""A run's control socket with a terminal behind it, and people who look at that terminal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path

from ags import proc
from ags.control import wire
from ags.control.client import View, view
from ags.control.hub import Hub
from ags.control.server import Control, Viewing
from ags.control.wire import Ended, Size

DEADLINE = 120.0
SMALL, LARGE = Size(24, 80), Size(40, 120)
ENVIRONMENT = {**proc.MINIMAL_ENVIRONMENT, "TERM": "xterm", "PS1": "in> ", "HISTFILE": "/dev/null"}


def play(scene: Coroutine[object, object, None]) -> None:
    """The whole of a test, in an event loop that must report nothing odd."""
    faults: list[object] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: faults.append(what))
        async with asyncio.timeout(2 * DEADLINE):
            await scene

    asyncio.run(watched())
    assert faults == []


async def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < end, f"never came true: {what}"
        await asyncio.sleep(0.01)


class Stage:
    """A program on a hub, and a control socket whose verb `attach` shows it."""

    def __init__(self, hub: Hub, child: proc.Child, control: Control) -> None:
        self.control = control
        self.hub = hub
        self.child = child
        self.logged = 0

    async def end(self) -> int:
        code = await self.child.wait()
        await self.hub.finish(Ended(code))
        return code


@contextlib.asynccontextmanager
async def stage(run_dir: Path, argv: Sequence[str], *, size: Size = SMALL) -> AsyncIterator[Stage]:
    hub = Hub(size=size, on_output=lambda data: log(data))
    # As the sandbox's gate does, so that the program has job control and gets the signals.
    command = ("/usr/bin/setsid", "-c", "-w", *argv)
    streams = hub.streams
    child = proc.spawn(
        command,
        env=ENVIRONMENT,
        descriptors={0: streams.stdin, 1: streams.stdout, 2: streams.stderr},
    )

    def log(data: bytes) -> None:
        made.logged += len(data)

    async def attach(request: Mapping[str, object]) -> Viewing:
        return Viewing.asked(hub, request)

    control = await Control.open(run_dir, {"attach": attach})
    made = Stage(hub, child, control)
    try:
        yield made
    finally:
        for pid in session(child.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.signal(signal.SIGKILL)
        await child.wait()
        await hub.finish(Ended(None, "the test is over"))
        await control.close()


def session(parent: int) -> list[int]:
    """The program that setsid started, and what that started on the same terminal."""
    found = Path(f"/proc/{parent}/task/{parent}/children")
    try:
        pids = [int(pid) for pid in found.read_text().split()]
    except OSError:
        return []
    return [each for pid in pids for each in (pid, *session(pid))]


class Looker:
    """Somebody at a terminal: what they were shown, and keys they press."""

    def __init__(self, seen: View) -> None:
        self.seen = seen
        self.shown = b""
        self.ended: Ended | None = None

    async def look(self, pattern: bytes) -> re.Match[bytes]:
        """Until this was shown; what came before it is forgotten."""
        try:
            async with asyncio.timeout(DEADLINE):
                while not (found := re.search(pattern, self.shown)):
                    await self.more()
        except TimeoutError:
            raise AssertionError(f"no {pattern!r} in {self.shown[-2000:]!r}") from None
        self.shown = self.shown[found.end() :]
        return found

    async def more(self) -> None:
        data = await self.seen.read()
        assert isinstance(data, bytes), (data, self.shown[-2000:])
        self.shown += data

    async def enter(self, text: str) -> None:
        await self.seen.type(text.encode() + b"\r")

    async def end(self) -> Ended:
        async with asyncio.timeout(DEADLINE):
            while isinstance(data := await self.seen.read(), bytes):
                self.shown += data
        return data

    async def quiet(self, seconds: float) -> None:
        """All that comes until nothing has come for that long."""
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(seconds):
                    await self.more()


@contextlib.asynccontextmanager
async def looker(run_dir: Path, size: Size = SMALL) -> AsyncIterator[Looker]:
    async with view(run_dir, {"do": "attach"}, size) as seen:
        yield Looker(seen)


class Raw:
    """A client that sends whatever it likes."""

    def __init__(self, run_dir: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(str(run_dir / wire.SOCKET))

    async def send(self, data: bytes) -> None:
        await asyncio.to_thread(self.socket.sendall, data)

    async def line(self) -> dict[str, object]:
        return await asyncio.to_thread(self._line)

    def _line(self) -> dict[str, object]:
        data = b""
        while not data.endswith(b"\n"):
            part = self.socket.recv(1)
            assert part, data
            data += part
        found = json.loads(data)
        assert isinstance(found, dict)
        return found

    async def closed(self) -> bool:
        """Whether the other side ends the connection, whatever it says before."""
        return await asyncio.to_thread(self._closed)

    def _closed(self) -> bool:
        with contextlib.suppress(ConnectionResetError):
            while self.socket.recv(1 << 16):
                pass
        return True

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
