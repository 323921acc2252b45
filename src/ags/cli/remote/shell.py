"""`ags --server URL shell`."""

from __future__ import annotations

from ags.cli import shell as local
from ags.cli.remote.attach import look
from ags.cli.remote.verb import There, like
from ags.cli.view import Detached


@like(local.command)
def command(there: There, name: str) -> int:
    outcome = look(there, name, beside=True)
    return 0 if isinstance(outcome, Detached) else outcome.code or 0
