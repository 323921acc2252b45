"""What a program is told with a refusal: whether to try again, and what the person can do.

An agent that is told not to try again gives up, one that is told nothing tries for ever; so each
reason has its own words, and they are true.
"""

from __future__ import annotations

from ags.egress.model import Decision, Request

NEVER = ", and trying again will not help."
_AGAIN = {
    "ask-timeout": "; the person was asked, and gave no answer in time. Trying again asks anew.",
    "ask-full": "; too many questions wait for the person's answer. Try again later, not at once.",
    "ask-used": "; what the person allowed is used up. Trying again asks them anew.",
    "ask-denied": "; the person was asked and said no, so trying again will not help.",
}
_ASKED = ("ask-timeout", "ask-full", "ask-used")
_PLACEHOLDERS = ("placeholder", "secret-gone", "secret-unsendable")


_HINTS = {
    "address": "a rule can list an address; a name that leads to a private one needs `upstreams:`",
    "distrusted": "the program does not trust the run's own CA; it is in the file $SSL_CERT_FILE",
    "proxy-request": "what came to the proxy's port is no CONNECT, whole address or SOCKS5",
}


def hint(reason: str) -> str:
    """What to look at, for refusals that no rule of the policy could change; mostly nothing."""
    return _HINTS.get(reason, "")


def again(reason: str) -> str:
    """The end of the sentence `This is not a network failure`."""
    return _AGAIN.get(reason, NEVER)


def remedy(request: Request, decision: Decision) -> str:
    """What would let it through, for the person who started the run."""
    reason = decision.reason
    if reason in _ASKED:
        return "The person who started it answers with `ags asks` and `ags allow ID`."
    if reason == "ask-denied":
        return "Do without it, or ask the person in your own words."
    if reason in ("denied", "narrowed"):
        whose = "the repository" if reason == "narrowed" else "the person who started it"
        return f"This is the will of {whose}: do without it."
    if reason == "host-service":
        return f"The person who started it can list port {request.port} under `host_services:`."
    if reason == "no-policy":
        return "The person who started it can correct the policy: `ags policy show`."
    if reason in _PLACEHOLDERS:
        return "The person who started it binds secrets to their hosts in `[[secret]]`."
    if reason in ("name", "protocol"):
        return "No rule can allow it in this form."
    return f"The person who started it can allow it: `ags policy add {_added(request)}`."


def _added(request: Request) -> str:
    """As `ags policy add` takes it."""
    host = f"[{request.host}]" if ":" in request.host else request.host
    usual = {"tls": 443, "http": 80}.get(request.scheme)
    return host if request.port == usual else f"{host}:{request.port}"
