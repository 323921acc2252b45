"""Two directions at once, which stop between pieces: nothing that was read is ever lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Pump:
    """One direction: read a piece, hand it on. `move` tells whether to go on."""

    def __init__(
        self, read: Callable[[], Awaitable[bytes]], move: Callable[[bytes], Awaitable[bool]]
    ) -> None:
        self._read, self._move = read, move
        self._reading = self._stopped = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self._run())
        return self._task

    async def _run(self) -> None:
        while not self._stopped:
            self._reading = True
            data = await self._read()
            self._reading = False
            if not await self._move(data) or not data:
                return

    def stop(self) -> None:
        """After the piece at hand. Reading can be broken off at any time, handing on cannot."""
        self._stopped = True
        if self._task is not None and self._reading:
            self._task.cancel()


async def run(pumps: tuple[Pump, Pump], over: Callable[[], bool], silent: float) -> None:
    """Until it is over, or both have ended; raises what one of them met."""
    waiting = {pump.start() for pump in pumps}
    try:
        while waiting and not over():
            done, waiting = await asyncio.wait(
                waiting, timeout=silent, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
            if not done:
                raise TimeoutError
        for pump in pumps:
            pump.stop()
        await asyncio.gather(*waiting, return_exceptions=True)
    finally:
        for task in waiting:
            task.cancel()
        # Nobody may still wait for a socket that is closed next: its number is soon another's.
        await asyncio.gather(*waiting, return_exceptions=True)
