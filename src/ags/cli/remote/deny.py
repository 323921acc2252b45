"""`ags --server URL deny`."""

from __future__ import annotations

from ags.cli import deny as local
from ags.cli.remote.asks import the_one
from ags.cli.remote.verb import There, like


@like(local.command)
def command(there: There, id_: str, run: str | None) -> None:
    one = the_one(there.client, id_, run)
    there.client.answer(one.run, one.id, "deny")
    print(local.told(one))
