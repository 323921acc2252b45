"""What a run on a server does, shown as it comes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

from ags.cli import start
from ags.cli.invocation import tell
from ags.cli.remote import values
from ags.cli.remote.access import There
from ags.cli.stream import write
from ags.client import Client
from ags.errors import AgsError
from ags.logtext import Stream
from ags.paint import columns, paint_for
from ags.runs import FINAL, Run


def accompany(there: There, name: str, after: int = 0) -> int:
    """Show what the run does until it has ended, and what became of it."""
    with Interruptions(there.client, name):
        follow(there.client, name, after)
    return told(ended(there.client, name))


def follow(client: Client, name: str, after: int = 0) -> None:
    stream = Stream(paint_for(sys.stdout, os.environ), columns(sys.stdout, os.environ))
    for event in client.events(name, after):
        write(sys.stdout, stream.render(values.event(event)))
    write(sys.stdout, stream.finish())


def told(run: Run) -> int:
    """Its last words here, and the exit code."""
    start.summary(run)
    return start.exit_code(run)


def ended(client: Client, name: str) -> Run:
    """Its record, once it says so: the log may tell of the end a moment before."""
    while (found := client.run(name))["state"] not in FINAL:
        time.sleep(0.2)
    return values.run(found)


def last_seq(client: Client, name: str) -> int:
    """Of the newest event there is: a look for what there is none of goes to the end."""
    return client.page(name, kind="none")["last"]


class Interruptions:
    """While it holds, Ctrl-C stops the run in order, and a second one at once.

    What was asked for is waited for beside: what the run still says is shown meanwhile.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name
        self._asked = 0

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._stop)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        now = self._asked > 0
        self._asked += 1
        tell("ending it at once" if now else "stopping it; Ctrl-C again ends it at once")
        threading.Thread(target=self._ask, args=(now,), daemon=True).start()

    def _ask(self, now: bool) -> None:
        try:
            self._client.stop(self._name, now=now)
        except AgsError as error:  # it may just have ended, which is all that was wanted
            if not self._has_ended():
                tell(str(error))

    def _has_ended(self) -> bool:
        try:
            return self._client.run(self._name)["state"] in FINAL
        except AgsError:
            return False
