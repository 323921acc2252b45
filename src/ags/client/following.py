"""A stream that outlives its connections: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ags.client.errors import Broken, Refused
from ags.client.link import Link
from ags.client.sse import Sent
from ags.errors import AgsError
from ags.model import MIB

PATIENCE = 60.0
"""Seconds for a server to come back."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
MOST = 64 * MIB
"""Bytes of one event; the board's first one has hundreds of runs."""


def follow(link: Link, path: str, last_id: str = "", patience: float = PATIENCE) -> Iterator[Sent]:
    """Without end; who reads knows the last event, or has enough."""
    given_up, pause = time.monotonic() + patience, FIRST_PAUSE
    while True:
        cut: AgsError | None = None
        try:
            for sent in link.events(path, last_id, MOST):
                last_id = sent.id
                yield sent
                given_up, pause = time.monotonic() + patience, FIRST_PAUSE
        except (Broken, Refused) as error:
            if not _may_pass(error):
                raise
            cut = error
        if time.monotonic() + pause > given_up:
            raise cut or Broken("follow it", subject=link.address, cause="the stream ends at once")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _may_pass(error: AgsError) -> bool:
    """A server, or a proxy before it, that is just being started anew."""
    return isinstance(error, Broken) or (isinstance(error, Refused) and error.status >= 500)
