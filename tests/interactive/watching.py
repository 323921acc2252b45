"""Waiting for what comes about by itself, and looking at processes from outside."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

DEADLINE = 120.0
"""Seconds for anything to come about: a bound for a machine that is busy, not a measure."""
TURN = 0.05

T = TypeVar("T")


def eventually(look: Callable[[], T | None], what: str, told: Callable[[], object]) -> T:
    """The first answer that is one; `told` says what there was instead, should none come."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        if (found := look()) is not None:
            return found
        time.sleep(TURN)
    raise AssertionError(f"no {what!r} in {DEADLINE:g} s, but:\n{told()}")


def long_sleep() -> str:
    """A command that does not end by itself, and that no other process has in its arguments."""
    return f"sleep 86400.{secrets.randbelow(10**12):012}"


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    arguments: str
    state: str
    has_terminal: bool
    """It is in the foreground of its terminal: keys that send signals send them there."""


def processes(mark: str) -> list[Process]:
    """Those of anybody's whose arguments hold this text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
                # After the name, which may hold anything: state, parent, group, session, terminal
                # and the terminal's foreground group.
                fields = (entry / "stat").read_text(errors="replace").rpartition(") ")[2].split()
                if mark in arguments:
                    process = Process(
                        int(entry.name), arguments.strip(), fields[0], fields[2] == fields[5]
                    )
                    found.append(process)
    return found


def running(command: str, *, state: str = "SR", has_terminal: bool = False) -> Process:
    """Until the program itself, and not only who is to start it, has got that far."""

    def look() -> Process | None:
        return next(
            (
                process
                for process in processes(command)
                if process.arguments == command
                and process.state in state
                and process.has_terminal >= has_terminal
            ),
            None,
        )

    return eventually(look, f"{command} in state {state}", lambda: processes(command))


def caller(mark: str) -> Process:
    """The `ags` that was told to run this."""
    return next(process for process in processes(mark) if "start.py ags exec" in process.arguments)


def gone(mark: str, *, alone: bool = False) -> None:
    """Until no process with this in its arguments is left; or `alone`, with nothing else there."""

    def left() -> list[Process]:
        return [each for each in processes(mark) if not alone or each.arguments == mark]

    eventually(lambda: None if left() else True, f"end of all {mark}", left)
