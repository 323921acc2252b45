"""What one call of `ags` was given: its environment and the options that come before the verb."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ags.errors import AgsError
from ags.frozen import frozen
from ags.text import plain

if TYPE_CHECKING:
    from ags.engine import Engine


@frozen
class Invocation:
    """Read once in main and passed on, so that no verb looks at the process by itself."""

    environ: Mapping[str, str]
    home: Path
    ags_home: Path
    config: Path | None
    debug: bool
    server: str | None = None
    """The address of the server that does it; None: it is done here."""


def read(
    environ: Mapping[str, str], *, config: Path | None, debug: bool, server: str | None = None
) -> Invocation:
    """The state folder is $AGS_HOME, or `.ags` in the home."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    if not home.is_absolute():
        raise AgsError(
            "find your home folder",
            subject=home,
            cause="HOME is not an absolute path",
            hint="set HOME to your home folder, from the root on",
            exit_code=125,
        )
    ags_home = Path(environ.get("AGS_HOME") or home / ".ags")
    if not ags_home.is_absolute():
        raise AgsError(
            "find the state folder",
            subject=ags_home,
            cause="AGS_HOME is not an absolute path",
            hint="set AGS_HOME to a folder of yours, from the root on, or unset it",
            exit_code=125,
        )
    return Invocation(
        environ=dict(environ),
        home=home,
        ags_home=ags_home,
        config=config,
        debug=debug,
        server=server,
    )


@contextlib.contextmanager
def engine_of(invocation: Invocation) -> Iterator[Engine]:
    """For one verb. What it found on the way is told at the end, whatever that is."""
    from ags.engine import Engine  # here, for the verbs that need none

    engine = Engine(invocation.environ, invocation.home, invocation.ags_home)
    with telling(engine.notes):
        yield engine


@contextlib.contextmanager
def telling(notes: list[str]) -> Iterator[None]:
    """What is in `notes` by the end is told, each once, after what was asked for."""
    try:
        yield
    finally:
        sys.stdout.flush()
        for note in dict.fromkeys(notes):
            tell(f"note: {note}")


def tell(line: str) -> None:
    """To the person, apart from what was asked for."""
    print(f"ags: {plain(line)}", file=sys.stderr)
