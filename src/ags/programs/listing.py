"""What there is of an agent: its program, and whether it can talk to its model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ags.config.schema import Settings
from ags.errors import AgsError
from ags.frozen import frozen
from ags.logins import state as logins
from ags.programs.installed import Installed, current
from ags.programs.login import Login, login_state


@frozen
class Row:
    """One agent."""

    name: str
    installed: Installed | None
    problem: str
    """Why what is installed cannot be used."""
    login: Login
    subscription: str
    """What is known of a log-in; empty if there is none."""


def row(name: str, environ: Mapping[str, str], home: Path, ags_home: Path, own: Settings) -> Row:
    """Nothing is asked of anybody, and of keys only the names are looked at."""
    found, problem = None, ""
    try:
        found = current(ags_home, name)
    except AgsError as error:
        problem = f"{error}; {error.hint}"
    held = logins.found(name, home, ags_home, "", environ)
    subscription = "" if held.where == "none" else str(held)
    return Row(name, found, problem, login_state(name, environ, ags_home, own), subscription)
