"""`ags --server URL show`."""

from __future__ import annotations

import sys

from ags.cli import show as local
from ags.cli.remote import values
from ags.cli.remote.verb import There, like
from ags.paint import as_json, paint_for


@like(local.command)
def command(there: There, name: str, as_object: bool) -> None:
    found = there.client.run(name)
    if as_object:
        print(as_json(values.record(found), indent=1))
        return
    paint = paint_for(sys.stdout, there.invocation.environ)
    print("\n".join(local.told(values.run(found), None, paint)))
