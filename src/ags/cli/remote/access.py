"""Which server does it, and with whose token."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ags import records
from ags.cli.invocation import Invocation
from ags.client import Client, address
from ags.client.address import Address
from ags.errors import AgsError
from ags.frozen import frozen

PARTS = ("api", "web")


@frozen
class There:
    """One call of a verb, and the server that does it."""

    invocation: Invocation
    client: Client
    is_here: bool
    """Whether it is a server of this person's on this machine; a tunnel's end is not."""


def reach(invocation: Invocation) -> There:
    assert invocation.server is not None
    place = address.parse(invocation.server)
    is_here = place in own(invocation.ags_home)
    client = Client(invocation.server, token(invocation, place, is_here=is_here))
    return There(invocation, client, is_here)


def token(invocation: Invocation, place: Address, *, is_here: bool) -> str:
    """The one that was given, or for a server of the person's own the one that it made."""
    if given := invocation.environ.get("AGS_TOKEN", "").strip():
        return given
    # Anybody may listen on a port of this machine once the server has ended, such as an agent's
    # own server that is published there: so the address alone does not get the token.
    if not is_here:
        raise AgsError(
            "use the server",
            subject=place,
            cause="there is no token for it: no server of yours listens there, and AGS_TOKEN is"
            " not set",
            hint="`ags up` starts one here; for another, set AGS_TOKEN to its token, which is in"
            " ~/.ags/server/token over there",
        )
    path = invocation.ags_home / "server" / "token"
    try:
        return records.read_file(path)[0].decode().strip()
    except (OSError, ValueError) as error:
        cause = str(getattr(error, "strerror", "") or error).lower()
        raise AgsError("read the server's token", subject=path, cause=cause) from error


def own(ags_home: Path) -> set[Address]:
    """Where servers of this state folder listen now."""
    return {found for part in PARTS for found in _served(ags_home / "server" / f"{part}.lock")}


def _served(lock: Path) -> Iterator[Address]:
    """Only a server that lives holds its lock."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        said = json.loads(os.pread(descriptor, 65536, 0) or b"{}")
        told = (said.get("url"), said.get("local")) if isinstance(said, dict) else ()
        yield from (address.parse(url) for url in told if url and isinstance(url, str))
    except OSError:
        return
    finally:
        os.close(descriptor)
