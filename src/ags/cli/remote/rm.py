"""`ags --server URL rm`."""

from __future__ import annotations

from ags.cli import rm as local
from ags.cli.remote.verb import There, like
from ags.errors import AgsError
from ags.text import one_line


@like(local.command)
def command(there: There, names: tuple[str, ...], force: bool) -> int:
    gone = [_removed(there, name, force=force) for name in dict.fromkeys(names)]
    return 0 if all(gone) else 1


def _removed(there: There, name: str, *, force: bool) -> bool:
    """Whether it is gone. What keeps one of them is told, and does not keep the others."""
    from ags.cli.main import show

    try:
        there.client.remove(name, force=force)
    except AgsError as error:
        show(error)
        return False
    print(f"removed {one_line(name)}")
    return True
