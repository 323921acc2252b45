"""`ags --server URL restart`."""

from __future__ import annotations

from ags.cli import restart as local
from ags.cli.remote.following import accompany, last_seq
from ags.cli.remote.verb import There, like
from ags.cli.start import at_work
from ags.text import one_line


@like(local.command)
def command(there: There, name: str, detach: bool) -> int:
    seen = last_seq(there.client, name)
    run = there.client.restart(name)
    if detach:
        print(at_work(one_line(run["name"]), " again"))
        return 0
    return accompany(there, name, seen)
