"""`ags --server URL asks`."""

from __future__ import annotations

import sys

from ags.asking import Asked, chosen
from ags.cli import asks as local
from ags.cli.remote import values
from ags.cli.remote.verb import There, like
from ags.client import Client
from ags.paint import as_json, paint_for


@like(local.command)
def command(there: There, as_array: bool) -> None:
    found = [values.asked(each) for each in there.client.asks()]
    if as_array:
        print(as_json([{"run": each.run, **each.fields} for each in found], indent=1))
    else:
        paint = paint_for(sys.stdout, there.invocation.environ)
        print("\n".join(local.told(found, paint)))


def the_one(client: Client, id_: str, run: str | None) -> Asked:
    """The question of this id, be it whose it may."""
    return chosen(map(values.asked, client.asks(run)), id_)
