"""What one call of `ags` was given: its environment and the options that come before the verb."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ags.errors import AgsError
from ags.frozen import frozen


@frozen
class Invocation:
    """Read once in main and passed on, so that no verb looks at the process by itself."""

    environ: Mapping[str, str]
    home: Path
    ags_home: Path
    config: Path | None
    debug: bool


def read(environ: Mapping[str, str], *, config: Path | None, debug: bool) -> Invocation:
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
        environ=dict(environ), home=home, ags_home=ags_home, config=config, debug=debug
    )
