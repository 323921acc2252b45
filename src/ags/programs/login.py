"""Whether an agent has what it needs to talk to its model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ags import secrets
from ags.config.schema import Settings
from ags.egress.wiring import AGENT_KEYS, FOLDER
from ags.frozen import frozen


@frozen
class Login:
    """Which keys there are, by the variable that an agent reads, and where each was found."""

    keys: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{name} {where}" for name, where in self.keys) or "none"


def login_state(
    agent: str, environ: Mapping[str, str], ags_home: Path, settings: Settings
) -> Login:
    """Looks at names alone; no secret is read."""
    known = [key.variable for key in AGENT_KEYS.get(agent, ())]
    configured = {secret.env for secret in settings.secrets}
    kept = {name for name, _ in secrets.store(ags_home / FOLDER, environ).list()}
    found = []
    for variable in known:
        if variable in configured:
            found.append((variable, "in your settings"))
        elif environ.get(variable):
            found.append((variable, "exported"))
        elif variable in kept:
            found.append((variable, "in the secret store"))
    return Login(tuple(found))
