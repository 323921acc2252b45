"""Limits as they are written on a command line or in a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ags.config import values
from ags.config.schema import Settings

PARSERS = {
    "memory": values.parse_memory,
    "cpus": values.parse_cpus,
    "pids": values.parse_pids,
    "timeout": values.parse_timeout,
}


def limited(settings: Settings, given: Mapping[str, str | None]) -> Settings:
    """The settings, with what is given in the place of their limits."""
    parsed = {
        name: parse(text, f"--{name}")
        for name, parse in PARSERS.items()
        if (text := given.get(name)) is not None
    }
    return replace(settings, limits=replace(settings.limits, **parsed))  # type: ignore[arg-type]
