"""What the fake internet noticed: values that come over from its process."""

from __future__ import annotations

import hashlib

from ags.frozen import frozen

PATTERN = bytes(range(256)) * 1024
"""What `/down` sends, over and over."""


@frozen
class Query:
    """A question that reached a DNS server, whichever address it was asked at."""

    name: str
    kind: str
    server: str
    transport: str


@frozen
class Packet:
    """The first sign of somebody who wants something: SYN, datagram, ping, anything but TCP."""

    protocol: str
    source: str
    target: str
    port: int


@frozen
class Seen:
    """A request as it arrived at an origin. `head` is its raw bytes; `body` only its beginning."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    head: bytes
    body: bytes
    size: int
    digest: str
    sni: str | None
    visit: int

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def host(self) -> str | None:
        return self.header("host")

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


@frozen
class Visit:
    """A connection. `raw` is what came over it, decrypted, up to a megabyte."""

    peer: str
    sni: str | None
    raw: bytes
    failure: str


def pattern(size: int) -> bytes:
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


def pattern_digest(size: int) -> str:
    """The SHA-256 of what `/down?size=` sends, without ever holding it."""
    digest = hashlib.sha256()
    for _ in range(size // len(PATTERN)):
        digest.update(PATTERN)
    digest.update(PATTERN[: size % len(PATTERN)])
    return digest.hexdigest()
