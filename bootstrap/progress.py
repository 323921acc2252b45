"""Progress on stderr: a line that moves on a terminal, one line per step elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
INTERVAL = 0.1
ERASE = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Progress:
    out: TextIO
    program: str

    @property
    def live(self) -> bool:
        encoding = (self.out.encoding or "").lower().replace("-", "")
        return self.out.isatty() and os.environ.get("TERM", "dumb") != "dumb" and encoding == "utf8"

    def say(self, text: str) -> None:
        print(f"{self.program}: {text}", file=self.out, flush=True)

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[], None]]:
        """Gives a function to call every INTERVAL while the step takes its time."""
        begun = time.monotonic()

        def tick() -> None:
            passed = time.monotonic() - begun
            frame = FRAMES[int(passed / INTERVAL) % len(FRAMES)]
            print(f"{ERASE}{frame} {title} {passed:.0f} s", end="", file=self.out, flush=True)

        if not self.live:
            self.say(title)
            yield lambda: None
            return
        tick()
        try:
            yield tick
        except BaseException:
            print(f"{ERASE}✗ {title}", file=self.out, flush=True)
            raise
        print(f"{ERASE}✓ {title} {time.monotonic() - begun:.1f} s", file=self.out, flush=True)
