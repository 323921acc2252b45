"""What stands between a command in the sandbox and those who look at it."""

from __future__ import annotations

from typing import Protocol

from ags.backends.base import Sandbox, Streams
from ags.model import Ending


class Surface(Protocol):
    """Pipes into the log, or a terminal that people come to and go from."""

    def open(self) -> Streams:
        """For the command to be started with."""

    async def accompany(self, sandbox: Sandbox) -> Ending:
        """From the release to the end, when all that was printed is taken in."""

    def close(self) -> None: ...
