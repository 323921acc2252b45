"""How AGS says no."""

from __future__ import annotations

import subprocess

FAILED, MISUSED = 125, 2


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """What failed, why, and what to try, a line each; and nothing was run."""
    assert "Traceback" not in done.stderr
    # A shell whose directory is gone says so before anything of ours runs.
    lines = [line for line in done.stderr.splitlines() if not line.startswith("sh: 0:")]
    starts = [line[:7] for line in lines if line.startswith(("ags: ", "  why: ", "  try: "))]
    assert starts == ["ags: ca", "  why: ", "  try: "], done.stderr
    assert (done.returncode, done.stdout) == (FAILED, "")
    return done.stderr


def misused(done: subprocess.CompletedProcess[str]) -> str:
    """No such flag or verb: said by who reads the command line, before anything is done."""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(("Usage: ags", "Error: "))
    assert (done.returncode, done.stdout) == (MISUSED, "")
    return done.stderr
