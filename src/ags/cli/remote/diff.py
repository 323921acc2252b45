"""`ags --server URL diff`."""

from __future__ import annotations

import asyncio
import sys

from ags.cli import diff as local
from ags.cli.pager import page
from ags.cli.remote import values
from ags.cli.remote.verb import There, like
from ags.paint import Choice, as_json, paint_for


@like(local.command)
def command(
    there: There,
    name: str,
    as_stat: bool,
    as_object: bool,
    as_patch: bool,
    no_pager: bool,
    choice: Choice,
) -> None:
    local.check(name, as_stat=as_stat, as_object=as_object, as_patch=as_patch)
    if as_patch:
        sys.stdout.buffer.write(there.client.patch(name))
        return
    diff = there.client.diff(name)
    if as_object:
        print(as_json(diff, indent=1))
        return
    found = values.review(there.client.run(name), diff)
    environ = there.invocation.environ
    paint = paint_for(sys.stdout, environ, choice)
    shown = local.stat(found.diff, paint, environ) if as_stat else local.whole(found, paint)
    asyncio.run(page(shown, {"PAGER": ""} if no_pager else environ))
