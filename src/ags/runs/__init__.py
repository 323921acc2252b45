"""Runs as they are kept in AGS_HOME.

`runs/<id>/run.json` is the truth. Only who holds `runs/<id>/lock` writes it: that is the
supervisor for as long as it lives, and afterwards whoever applies, restarts or sweeps.
`names/<name>` is a link to the run of that name, so that a name is taken by one step of the kernel.
"""

from ags.runs.files import directory, find, ids, load, load_all, load_with_facts, names
from ags.runs.lock import Held, hold, is_alive
from ags.runs.record import (
    FINAL,
    NEXT,
    Applied,
    Clock,
    Damaged,
    Mode,
    Moment,
    Mount,
    Move,
    Order,
    Pushed,
    Result,
    Run,
    State,
    Supervisor,
    Turn,
    checked_name,
    duration,
    moved,
    new_id,
    now,
    seconds,
)
from ags.runs.registry import Busy, check_free, create, discard, relink, remove, sweep, tidy

__all__ = [
    "FINAL", "NEXT", "Applied", "Busy", "Clock", "Damaged", "Held", "Mode", "Moment", "Mount",
    "Move", "Order", "Pushed", "Result", "Run", "State", "Supervisor", "Turn", "check_free",
    "checked_name", "create", "directory", "discard", "duration", "find", "hold", "ids", "is_alive",
    "load", "load_all", "load_with_facts", "moved", "names", "new_id", "now", "relink", "remove",
    "seconds", "sweep", "tidy",
]  # fmt: skip
