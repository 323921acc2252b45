"""Runs to test with, and processes that use them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ags import runs
from ags.runs import Held, Run
from tests.people import ROOT


def example(name: str = "fix-login", **changes: Any) -> Run:
    at = runs.now()
    given: dict[str, Any] = {
        "id": runs.new_id(at),
        "name": name,
        "agent": "shell",
        "goal": "make the log-in work",
        "mode": "separate",
        "project": Path("/home/me/project"),
        "created": at,
    }
    return Run(**{**given, **changes})


def create(home: Path, name: str = "fix-login", **changes: Any) -> Held:
    return runs.create(home, example(name, **changes))


def script(text: str, *arguments: object, pass_fds: Sequence[int] = ()) -> subprocess.Popen[str]:
    """A process of its own that knows the source and these examples."""
    return subprocess.Popen(
        [sys.executable, "-c", text, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=pass_fds,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
