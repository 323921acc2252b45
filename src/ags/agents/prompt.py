"""What every agent is told of where it is."""

from __future__ import annotations

from collections.abc import Iterable

from ags.egress.hosts import HOST_NAME


def text(
    *,
    network: bool = True,
    allowed: Iterable[str] = (),
    host_services: Iterable[int] = (),
    ask: bool = False,
    inplace: bool = False,
) -> str:
    """`allowed` are hosts or services by name, for orientation; the policy itself stays outside."""
    parts = (
        _place(inplace),
        _network(tuple(allowed), ask) if network else "There is no network here, on purpose.",
        _host(tuple(host_services)) if network else "",
        _keys() if network else "",
        "Some commands and paths are refused by a guard, which says why. Do not work around it.",
        "Chromium and browsers made of it start only with --no-sandbox here: the sandbox around "
        "you does not let them build their own.",
    )
    return "# Where you are\n\n" + "\n\n".join(part for part in parts if part) + "\n"


def _place(inplace: bool) -> str:
    work = (
        "The working directory holds the person's own files: what you change is changed."
        if inplace
        else "The working directory is a checkout of your own. When you end, what you leave there, "
        "committed or not, becomes a branch that the person reviews."
    )
    return (
        "You work in a sandbox made by ags, on the person's machine. Only the working directory, "
        f"your home and /tmp can be written to. {work} Git works here, on a private copy of the "
        "repository's history; pushing is the person's to do unless they allowed it."
    )


def _network(allowed: tuple[str, ...], ask: bool) -> str:
    known = f" Among what is allowed: {', '.join(allowed)}." if allowed else ""
    asked = " A refused request may be held for a while: the person is being asked." if ask else ""
    return (
        f"A policy decides which hosts you reach.{known}{asked} A refusal is an answer with "
        'status code 403 whose text says "The network policy of this sandbox (ags) refused", or, '
        "for what is not HTTP, a connection that is reset. It is no failure of the network: do not "
        "try again and do not look for a way around. Say what you needed and why, and go on "
        "without it; the person can allow it with `ags allow`."
    )


def _host(ports: tuple[int, ...]) -> str:
    if not ports:
        return ""
    listed = ", ".join(str(port) for port in ports)
    return f"Services of the person's machine are at {HOST_NAME}, port {listed}; not at localhost."


def _keys() -> str:
    return (
        "Keys in the environment are placeholders: the real ones are put in on the way out, for "
        "the hosts they belong to. A placeholder works nowhere else, so there is no use in "
        "printing, copying or sending it."
    )
