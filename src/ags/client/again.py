"""A request that may be sent again: by its key the server knows what it has done of it."""

from __future__ import annotations

import time
from typing import TypeVar

from ags.client.errors import Broken, Refused, Unreached
from ags.client.link import Link, Request

T = TypeVar("T")
PATIENCE = 120.0
"""Seconds for a server to come back, or to be done with what it was asked for before."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


def insist(link: Link, request: Request, shape: type[T]) -> T:
    """The answer, if need be to a second request or a later one."""
    given_up, pause, was_sent = 0.0, FIRST_PAUSE, False
    while True:
        try:
            return link.json(request, shape)
        except (Broken, Refused) as error:
            was_sent = was_sent or not isinstance(error, Unreached)
            given_up = given_up or time.monotonic() + PATIENCE
            may_pass = isinstance(error, Broken) or error.is_for_now
            if not (was_sent and may_pass) or time.monotonic() + pause > given_up:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
