"""`ags --server URL stop`."""

from __future__ import annotations

from ags.cli import stop as local
from ags.cli.remote import values
from ags.cli.remote.verb import There, like
from ags.cli.start import summary


@like(local.command)
def command(there: There, name: str, now: bool) -> None:
    summary(values.run(there.client.stop(name, now=now)))
