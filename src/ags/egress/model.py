"""The values of the network fence: what is wanted, and what was decided about it."""

from __future__ import annotations

from typing import Literal

from ags.frozen import frozen

Scheme = Literal["tls", "http", "raw"]


@frozen
class Request:
    """What a connection, or one request on it, wants from inside."""

    host: str
    """Canonical, by `hosts.canonical_host`: a name or an address literal."""
    port: int
    scheme: Scheme
    method: str | None = None
    """Known only on http and on intercepted tls."""
    path: str | None = None
    """As sent, without the query."""


@frozen
class Decision:
    """Whether a request goes out, and which rule said so."""

    allowed: bool
    reason: str
    """A code for programs: allowed, not-listed, denied, port, method, path, name, address, …"""
    rule: str
    """As written; empty if none spoke."""
    layer: str
    """built-in, user, client, run, grant; empty if none spoke."""
    intercept: bool = False
    """The fence must end the TLS itself: a secret or a method or path rule hangs on the inside."""
    ask: bool = False
    """Refused, but the person may be asked."""
