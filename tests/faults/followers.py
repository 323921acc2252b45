"""Those who follow streams of a server that dies: they come again, from where they were."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tests.server.conftest import Server
from tests.server.listening import Listener, Message, listening

BETWEEN = 0.05
"""Seconds before another knock on the door."""


class Follower:
    """Reads in a thread of its own, as a browser does, until `is_over` says that it has all."""

    def __init__(self, server: Server, path: str, is_over: Callable[[Message], bool]) -> None:
        self.messages: list[Message] = []
        self.firsts: list[Message] = []
        """What each connection began with."""
        self._server, self._path, self._is_over = server, path, is_over
        self._last = ""
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def ended(self, patience: float = 120.0) -> None:
        self._thread.join(patience)
        assert not self._thread.is_alive(), f"{self._path} has not ended"

    def leave(self) -> None:
        self._left.set()

    def _follow(self) -> None:
        over = False
        while not over and not self._left.wait(BETWEEN):
            headers = {"Last-Event-ID": self._last} if self._last else {}
            with (
                contextlib.suppress(OSError, http.client.HTTPException),
                listening(self._server, self._path, headers) as listener,
            ):
                over = self._listen(listener)

    def _listen(self, listener: Listener) -> bool:
        """Whether that was all."""
        first = True
        for message in listener:
            if first:
                self.firsts.append(message)
            first = False
            self.messages.append(message)
            self._last = message.id or self._last
            if self._left.is_set() or self._is_over(message):
                return True
        return False


class OfRun(Follower):
    """To the last word on a run."""

    def __init__(self, server: Server, run: str) -> None:
        super().__init__(server, f"/runs/{run}/stream", lambda message: message.event == "end")

    def lines(self) -> list[str]:
        return [each.json()["text"] for each in self.messages if each.event == "output"]

    def numbers(self) -> list[int]:
        return [int(each.id) for each in self.messages if each.id]


class OfBoard(Follower):
    """Until `wanted` is true of all rows as they are by then."""

    def __init__(self, server: Server, wanted: Callable[[dict[str, Any]], bool]) -> None:
        self.rows: dict[str, Any] = {}
        self._wanted = wanted
        super().__init__(server, "/stream", self._take)

    def _take(self, message: Message) -> bool:
        told = json.loads(message.data)
        if message.event == "snapshot":
            self.rows = {row["id"]: row for row in told["runs"]}
        elif message.event == "run":
            self.rows[told["id"]] = told
        elif message.event == "gone":
            self.rows.pop(told["id"], None)
        return self._wanted(self.rows)


@contextlib.contextmanager
def following(*followers: Follower) -> Iterator[None]:
    """None of them outlives the test."""
    try:
        yield
    finally:
        for each in followers:
            each.leave()
