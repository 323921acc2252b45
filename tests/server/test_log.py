"""The log, where nobody reads it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ags.server.log import Log

LINES = 5000
"""More than a pipe, a terminal or a socket holds."""


@contextlib.contextmanager
def ends(kind: str) -> Iterator[tuple[int, int]]:
    """To read from, and to write to."""
    if kind == "socket":
        pair = socket.socketpair()
        made = pair[0].detach(), pair[1].detach()
    else:
        made = pty.openpty() if kind == "terminal" else os.pipe()
    os.set_blocking(made[0], False)
    try:
        yield made
    finally:
        for each in made:
            os.close(each)


def read(source: int) -> bytes:
    data = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(source, 65536):
            data += part
    return data.replace(b"\r", b"")


def whole_lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


@pytest.mark.parametrize("kind", ["pipe", "terminal", "socket"])
def test_a_reader_that_stalls_stops_nobody_and_is_told_how_much_it_missed(kind: str) -> None:
    with ends(kind) as (source, target):
        log = Log("json", target)

        def work() -> None:
            for number in range(LINES):
                log.event("request", number=number, path="/api/v1/health" * 4)

        working = threading.Thread(target=work, daemon=True)
        working.start()
        working.join(90)
        assert not working.is_alive()
        assert os.get_blocking(target)  # others who write there may count on it
        # What is in a terminal's hands comes when it likes, so there is room again sooner or later.
        data, number, until = b"", LINES, time.monotonic() + 90
        while not any(each.get("number", 0) >= LINES for each in whole_lines(data)):
            assert time.monotonic() < until
            log.event("request", number=number)
            data += read(source)
            number += 1
        told = whole_lines(data)
        due, gaps = 0, 0
        for each in told:
            if each["event"] == "lines lost":
                due, gaps = due + each["count"], gaps + 1
            else:
                assert each["number"] == due
                due += 1
        assert gaps
