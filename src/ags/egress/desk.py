"""Requests that are answered out here, in the place of the host they are for.

Who does so also knows secrets that change while the run goes on. What it is to the fence is here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from ags.egress.http import Headers
from ags.egress.inject import Hidden, Injection, Placeholder
from ags.egress.model import Request
from ags.frozen import frozen


@frozen
class Asked:
    """A whole request. Policy has allowed it; its head has no placeholder out of place."""

    request: Request
    target: str
    headers: Headers
    body: Hidden
    look: Callable[[bytes], str | None] = lambda data: None
    """Whose placeholder is in there, of all that the run has."""

    def first(self, name: bytes) -> str:
        found = (value for given, value in self.headers if given.lower() == name)
        return next(found, b"").decode("latin-1")


@frozen
class Answer:
    """What is answered, as JSON."""

    status: int
    body: Hidden
    reason: str = ""
    """Why it was refused, as a code; else empty."""
    detail: str = ""


Post = Callable[[Asked], Awaitable[Answer]]
"""To the real host, by the fence's own verified way out."""


class Desk(Protocol):
    @property
    def placeholders(self) -> tuple[Placeholder, ...]: ...

    @property
    def injections(self) -> tuple[Injection, ...]: ...

    @property
    def hosts(self) -> frozenset[tuple[str, int]]:
        """Whose TLS the fence has to end."""

    def lookup(self, secret_id: str) -> str | None:
        """The value now of a secret that belongs to the desk."""

    def covered(self) -> tuple[Hidden, ...]:
        """Values that an answer must not bring inside, old ones too."""

    def serves(self, request: Request) -> bool: ...

    async def answer(self, asked: Asked, post: Post) -> Answer:
        """Never a placeholder out, never a value in. Whatever is sent, no exception."""
