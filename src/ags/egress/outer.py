"""Connections to origins, and those of them that a client has left behind.

To dial and to agree on keys takes longer than most requests. So a connection that can carry another
request is kept for a moment after its client has gone, for the next client that wants the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ags.egress.link import Link, Secure
from ags.egress.model import Request

LONGEST = 4.0
"""Seconds that nobody needs it: many origins hang up after five."""
MOST = 16


class Talk(Protocol):
    """A connection in the clear, whatever it is on the wire."""

    link: Link

    def take(self) -> bytes | None: ...
    async def read(self) -> bytes: ...
    async def write(self, data: bytes, /) -> None: ...
    async def close(self) -> None: ...


class Outer:
    """A connection to an origin, by the address that was dialled, for the host, port and scheme of
    `wanted`.

    `terms` are those by which it was made: with others the same name may lead elsewhere, or be
    trusted for other reasons.
    """

    def __init__(self, talk: Talk, address: str, wanted: Request, terms: object) -> None:
        self.talk, self.address = talk, address
        self.wanted, self.terms = wanted, terms
        self.clean = True
        """No body went up on it, of which an origin could take a part for the next request."""

    @property
    def quiet(self) -> bool:
        """Whether it can take another request.

        An origin that said something unasked has hung up, or is about to.
        """
        ended = isinstance(self.talk, Secure) and self.talk.session.ended
        return self.talk.link.quiet and not ended


class Idle:
    """Those that are nobody's at the moment."""

    def __init__(self, end: Callable[[Outer], None]) -> None:
        self._end = end
        self._kept: dict[Outer, asyncio.TimerHandle] = {}
        """The one that was left last comes last."""

    def put(self, outer: Outer) -> None:
        if len(self._kept) >= MOST:
            self._drop(next(iter(self._kept)))
        self._kept[outer] = asyncio.get_running_loop().call_later(LONGEST, self._drop, outer)

    def take(self, wanted: Request, terms: object) -> Outer | None:
        fitting = [each for each in self._kept if each.terms is terms and each.wanted == wanted]
        for outer in reversed(fitting):
            if outer.quiet:
                self._kept.pop(outer).cancel()
                return outer
            self._drop(outer)
        return None

    def close(self) -> None:
        for outer in tuple(self._kept):
            self._drop(outer)

    def _drop(self, outer: Outer) -> None:
        self._kept.pop(outer).cancel()
        self._end(outer)
