"""What AGS puts into an agent's home, merged with what is there: pure functions on texts."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping

from ags.agents.base import Bring, HomeFile
from ags.agents.toml import toml

SECRETIVE = ("env", "environment", "headers", "http_headers", "bearer_token", "oauth", "auth")
"""Of an MCP server: where its keys are. They stay outside."""


def merged(had: str | None, file: HomeFile) -> str:
    """The file's new text. One that cannot be read counts as empty: its program fails on it."""
    if file.values is None:
        return had if had is not None and file.gently else file.text
    return json.dumps(joined(_object(had), file.values, gently=file.gently), indent=2) + "\n"


def _object(text: str | None) -> Mapping[str, object]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def joined(
    had: Mapping[str, object], given: Mapping[str, object], *, gently: bool = False
) -> dict[str, object]:
    """Objects join, lists unite, and of two other values the given one stands, unless `gently`."""
    return {**had, **{name: _value(had.get(name), new, gently) for name, new in given.items()}}


def _value(had: object, new: object, gently: bool) -> object:
    if isinstance(had, dict) and isinstance(new, Mapping):
        return joined(had, new, gently=gently)
    if isinstance(new, Mapping):
        return had if gently and had is not None else joined({}, new)
    if isinstance(new, list | tuple):
        # Where a list may be, some programs take a single text as well.
        before = had if isinstance(had, list) else [had] if isinstance(had, str) else []
        return [*before, *(item for item in new if item not in before)]
    return had if gently and had is not None else new


def brought(text: str, bring: Bring) -> str:
    """What comes along of the person's own file: all of it, or the named keys of it.

    Keys are those of MCP servers: each comes without what may hold a secret.
    """
    if not bring.keys:
        return text
    is_toml = bring.path.endswith(".toml")
    try:
        found = tomllib.loads(text) if is_toml else json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict):
        return ""
    chosen = {key: _harmless(found[key]) for key in bring.keys if key in found}
    if not chosen:
        return ""
    return toml(chosen) if is_toml else json.dumps(chosen, indent=2) + "\n"


def _harmless(servers: object) -> object:
    if not isinstance(servers, dict):
        return servers
    return {
        name: {key: value for key, value in server.items() if key not in SECRETIVE}
        for name, server in servers.items()
        if isinstance(server, dict)
    }
