"""What goes over `inside.sock`: one line of JSON each way. No sockets here, and no trust.

Only two things can be said, and everything else is refused: it is the agent's side that speaks.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from ags.frozen import frozen
from ags.hooks.call import BadCall, Heard, read
from ags.hooks.model import Verdict
from ags.model import KIB, MIB
from ags.text import one_line

SOCKET = "inside.sock"
MOST_REQUEST = 1 * MIB
MOST_REASON = 4 * KIB
MOST_URL = 8 * KIB


@frozen
class Opening:
    """A wish to have an address opened in the person's browser."""

    url: str


@frozen
class Refusal:
    reason: str


Request: TypeAlias = Heard | Opening | Refusal


def request(line: bytes) -> Request:
    """Never an exception, whatever the bytes are."""
    try:
        found = json.loads(line.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        return Refusal("this is no JSON that can be read")
    if not isinstance(found, dict):
        return Refusal("this is no request")
    if found.keys() == {"hook", "agent", "payload"}:
        try:
            return read(found["agent"], found["hook"], found["payload"])
        except BadCall as error:
            return Refusal(str(error))
    if found.keys() == {"open"}:
        url = found["open"]
        fits = isinstance(url, str) and len(url) <= MOST_URL
        return Opening(url) if fits else Refusal("this is no address")
    return Refusal("nothing but a hook's call is heard here")


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number")


ALLOW = b'{"decision":"allow"}\n'
"""To the byte: the forwarder inside compares it."""


def answer(verdict: Verdict) -> bytes:
    if verdict.allowed:
        return ALLOW
    by = "AGS's guard" if verdict.by == "guard" else f"the hook {verdict.by}"
    reason = f"refused by {by}: {verdict.reason}" if verdict.by else verdict.reason
    return denied(reason)


def denied(reason: str) -> bytes:
    said = "\n".join(one_line(line) for line in reason[:MOST_REASON].splitlines())
    line = json.dumps({"decision": "deny", "reason": said or "refused"}, separators=(",", ":"))
    return line.encode() + b"\n"
