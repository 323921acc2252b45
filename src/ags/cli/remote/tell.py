"""`ags --server URL tell`."""

from __future__ import annotations

import sys

from ags.cli import tell as local
from ags.cli.remote.following import accompany, last_seq
from ags.cli.remote.verb import There, like
from ags.cli.start import at_work
from ags.text import one_line


@like(local.command)
def command(there: There, name: str, text: str, detach: bool) -> int:
    if text == "-":
        text = sys.stdin.read()
    seen = last_seq(there.client, name)
    run = there.client.tell(name, text)
    if detach:
        print(at_work(one_line(run["name"]), " again"))
        return 0
    return accompany(there, name, seen)
