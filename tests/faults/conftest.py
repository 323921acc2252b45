from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags.kernel import cgroup
from tests.faults import workshop as workshops
from tests.faults.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    with opened(tmp_path.resolve(), monkeypatch) as made:
        yield made


@contextlib.contextmanager
def opened(place: Path, patch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    """No process of it outlives the test, and its temporary files are apart from all others."""
    patch.setattr(tempfile, "tempdir", str(place / "tmp"))
    made = workshops.made(place)
    try:
        yield made
    finally:
        for pid in made.processes():
            with contextlib.suppress(ProcessLookupError):  # it may end by itself meanwhile
                os.kill(pid, signal.SIGKILL)
        made.nothing_runs()
        workshops.reap()
        cgroup.sweep()
