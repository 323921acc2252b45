"""Which ports of this machine's loopback were ever a page of ours, and which ever an agent's.

A browser keeps what a page leaves behind (workers, stored values, cached files) for whoever listens
at the same address next. So the two never share a port, not even one after the other.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

from ags import records

Whose = Literal["served", "published"]

PAGES = frozenset({8000, 8080})
"""The usual ones of our own."""
MOST = 1 << 20


def ours(ags_home: Path) -> frozenset[int]:
    return PAGES | _read(ags_home, "served")


def agents(ags_home: Path) -> frozenset[int]:
    return _read(ags_home, "published") - PAGES


def note(ags_home: Path, whose: Whose, port: int) -> None:
    """For good, and before anybody is let in there."""
    if port in _read(ags_home, whose):
        return
    folder = ags_home / "server"
    records.private_folder(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(folder / whose, flags, 0o600)
    try:
        os.write(descriptor, f"{port}\n".encode())
    finally:
        os.close(descriptor)


def _read(ags_home: Path, whose: Whose) -> frozenset[int]:
    with contextlib.suppress(FileNotFoundError), (ags_home / "server" / whose).open("rb") as file:
        return frozenset(int(line) for line in file.read(MOST).split() if line.isdigit())
    return frozenset()
