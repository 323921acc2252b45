"""`ags --server URL logs`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ags.cli import logs as local
from ags.cli.remote import values
from ags.cli.remote.following import last_seq
from ags.cli.remote.verb import There, like
from ags.cli.stream import write
from ags.client import Client, shapes
from ags.logtext import Stream
from ags.paint import columns, paint_for


@like(local.command)
def command(there: There, name: str, following: bool, as_lines: bool, last: int | None) -> None:
    client, environ = there.client, there.invocation.environ
    after = 0 if last is None else max(0, last_seq(client, name) - last)
    coming = client.events(name, after) if following else _kept(client, name, after)
    shown = Stream(paint_for(sys.stdout, environ), columns(sys.stdout, environ))
    with contextlib.suppress(KeyboardInterrupt) if following else contextlib.nullcontext():
        for event in map(values.event, coming):
            write(sys.stdout, [local.as_line(event)] if as_lines else shown.render(event))
        write(sys.stdout, shown.finish())


def _kept(client: Client, name: str, after: int) -> Iterator[shapes.Event]:
    """What is there, a page at a time."""
    while (page := client.page(name, after))["items"] and page["last"] > after:
        yield from page["items"]
        after = page["last"]
