"""`ags --server URL undo`."""

from __future__ import annotations

from ags.cli import undo as local
from ags.cli.remote import values
from ags.cli.remote.verb import There, like
from ags.text import one_line


@like(local.command)
def command(there: There, name: str) -> None:
    undone = values.applied(there.client.undo(name))
    name = one_line(name)
    print(f"nothing to undo: {name}" if undone is None else local.told(name, undone))
