"""The ways to run a plan, by name."""

from __future__ import annotations

import importlib

from ags.backends.base import Backend
from ags.errors import AgsError

# What a person can choose; imported only then, as each brings dependencies of its own.
BACKENDS = {
    "bubblewrap": ("ags.backends.bubblewrap", "Bubblewrap"),
}


def backend(name: str) -> Backend:
    """The backend of that name, ready to use."""
    if name not in BACKENDS:
        raise AgsError(
            "use the backend",
            subject=name,
            cause="there is none by that name",
            hint=f"one of: {', '.join(BACKENDS)}",
        )
    module, attribute = BACKENDS[name]
    made: Backend = getattr(importlib.import_module(module), attribute)()
    return made
