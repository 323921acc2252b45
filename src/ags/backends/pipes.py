"""What connects us with a process that is to become one inside, until it does."""

from __future__ import annotations

import contextlib
import os

MOST_SAID = 4096


class Pipes:
    """Ours: `go` to write, `ready` and `errors` to read. Closed with the stack at the latest."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._theirs: list[int] = []
        stack.callback(self.close_theirs)
        self.their_go, self.go = os.pipe()
        self._own(self.go, self.their_go)
        self.ready, self.their_ready = os.pipe()
        self._own(self.ready, self.their_ready)
        # A file: a pipe that nobody reads would one day block who writes.
        self.errors = os.memfd_create("ags-errors")
        stack.callback(os.close, self.errors)

    def _own(self, ours: int, theirs: int) -> None:
        self._stack.callback(os.close, ours)
        self._theirs.append(theirs)

    def close_theirs(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())

    def said(self) -> str:
        """What went wrong, in the process's own words."""
        return os.pread(self.errors, MOST_SAID, 0).decode(errors="replace").strip()
