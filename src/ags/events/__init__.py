"""What happens in a run, one JSON line each, appended by one writer and followed by many readers.

`seq` rises from line to line; where one is missing, a `system` event says how many and why. Lines
are capped, and so are the file and the rate: a full disk or a stalled agent would be worse than a
line that was only counted.
"""

from ags.events.event import KINDS, LINE, Event, Kind
from ags.events.output import Line, OutputSplitter
from ags.events.reader import Stored, Watch, follow, follow_stored, last_seq, read, read_blocks
from ags.events.writer import Caps, Writer

__all__ = [
    "KINDS", "LINE", "Caps", "Event", "Kind", "Line", "OutputSplitter", "Stored", "Watch", "Writer",
    "follow", "follow_stored", "last_seq", "read", "read_blocks",
]  # fmt: skip
