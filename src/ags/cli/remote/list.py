"""`ags --server URL list`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from ags.cli import list as local
from ags.cli.remote import values
from ags.cli.remote.project import meant
from ags.cli.remote.verb import There, like
from ags.paint import as_json, columns, paint_for
from ags.store import Summary

PAGE = 500


@like(local.command)
def command(
    there: There,
    as_array: bool,
    states: tuple[str, ...],
    agent: str | None,
    project: Path | None,
    client: str | None,
    everything: bool,
) -> None:
    where = None if project is None else meant(there, str(project))
    found = tuple(_found(there, states, agent, where, client))
    if as_array:
        print(as_json([local.entry(run) for run in found], indent=1))
        return
    environ = there.invocation.environ
    width, paint = columns(sys.stdout, environ), paint_for(sys.stdout, environ)
    chosen = bool(states or agent or project or client)
    print("\n".join(local.told(found, width, paint, everything=everything, chosen=chosen)))


def _found(
    there: There,
    states: tuple[str, ...],
    agent: str | None,
    project: str | None,
    client: str | None,
) -> Iterator[Summary]:
    """All of them, each once, though runs may begin while it is asked for."""
    seen: set[str] = set()
    asked, total = 0, 1
    while asked < total:
        page = there.client.runs(
            state=states, agent=agent, project=project, client=client, limit=PAGE, offset=asked
        )
        if not page["items"]:
            return
        yield from (values.summary(each) for each in page["items"] if each["id"] not in seen)
        seen |= {each["id"] for each in page["items"]}
        asked, total = asked + len(page["items"]), page["total"]
