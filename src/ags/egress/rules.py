"""One rule, as a person or a service writes it."""

from __future__ import annotations

import re
from typing import get_args

from ags.config.values import shown
from ags.egress.document import Node
from ags.egress.hosts import HOST_NAME, BadHost, address_of, canonical_host, special
from ags.egress.model import Scheme
from ags.egress.paths import bad_pattern
from ags.egress.policy import Rule
from ags.egress.suffixes import too_wide
from ags.errors import AgsError

RULE_KEYS = ("host", "ports", "protocol", "methods", "paths")

# Who lists an address of their own network means it; it is dialled unless it is this machine's.
_MAY_BE_MEANT = frozenset(("private", "unique local"))
_THIS_MACHINE = frozenset(("loopback", "this network", "unspecified"))


FENCE_PORTS = (53, 3128)
_TAKEN = "where the fence itself answers, to names and as a proxy; it cannot be opened"


def parse_domain(written: str, subject: object = None, denial: bool = False) -> Rule:
    """`host`, `*.suffix` or an address, and perhaps `:port`, as a flag has it."""
    host, port = _split_port(written)
    try:
        if port == 0 or port > 0xFFFF:
            raise AgsError("use this domain", cause="a port is from 1 to 65535")
        if port in FENCE_PORTS and not denial:
            raise AgsError("use this domain", cause=f"port {port} is {_TAKEN}")
        ports = (port,) if port > 0 else () if denial else (443, 80)
        return Rule(judged_host(host, denial), ports)
    except AgsError as error:
        raise AgsError(
            "use this domain", subject=subject, cause=error.cause, hint=error.hint
        ) from error


def judged_host(written: str, denial: bool = False) -> str:
    """A rule's host in its canonical form. A denial may be as wide as it likes."""
    if denial and written == "*":
        return written
    if written.startswith("*."):
        return f"*.{_suffix(written[2:], denial)}"
    if "*" in written:
        hint = "`*.example.org` is every name below example.org"
        raise AgsError("use this host", cause="a * stands only before the first dot", hint=hint)
    if "/" in written:
        raise AgsError("use this host", cause="it is an address of a page", hint="only the host")
    host = canonical_host(written)
    return host if denial else _meant(host)


def _suffix(written: str, denial: bool) -> str:
    suffix = canonical_host(written)
    if address_of(suffix) is not None:
        raise AgsError("use this host", cause="no names are below an address")
    if not denial and too_wide(suffix):
        cause = f"everyone can have a name below {suffix}"
        raise AgsError("use this host", cause=cause, hint="name the hosts themselves")
    return suffix


def _meant(host: str) -> str:
    if host == HOST_NAME:
        hint = "list its ports under `host_services:`"
        raise AgsError("use this host", cause="the host is no domain", hint=hint)
    address = address_of(host)
    if address is None and "." not in host:
        raise AgsError("use this host", cause="a name without a dot is not resolved inside")
    kind = special(address) if address else None
    if kind is None or kind in _MAY_BE_MEANT:
        return host
    hint = "if it is meant to be, give it a name under `upstreams:`, and list that name"
    if kind in _THIS_MACHINE:
        hint = "for a service of this machine, list its port under `host_services:`"
    raise AgsError("use this host", cause=f"{host} is never reached ({kind})", hint=hint)


def rules_in(node: Node, denial: bool) -> tuple[Rule, ...]:
    return tuple(_rule(item, denial) for item in node.items("write each on a line: `- a.example`"))


def _rule(node: Node, denial: bool) -> Rule:
    if isinstance(node.value, str):
        return Rule(_host(node, denial), () if denial else (443, 80))
    given = node.mapping(RULE_KEYS, "write a host, or `host:` with `ports:` and so on")
    if "host" not in given:
        raise node.error("has no `host:`")
    return rule_of(given, _host(given["host"], denial), denial)


def rule_of(given: dict[str, Node], host: str, denial: bool = False) -> Rule:
    """The rule for this host that these keys make."""
    protocol = _protocol(given["protocol"]) if "protocol" in given else None
    usual: tuple[int, ...] = () if denial else (443, 80)
    if protocol and not denial:
        usual = {"tls": (443,), "http": (80,), "raw": ()}[protocol]
    ports = ports_in(given["ports"]) if "ports" in given else usual
    if not denial and (taken := [port for port in ports if port in FENCE_PORTS]):
        raise given["ports"].error(f"port {taken[0]} is {_TAKEN}")
    if not ports and not denial:
        raise given["protocol"].error("raw needs `ports:`")
    methods = _methods(given["methods"]) if "methods" in given else ()
    paths = _paths(given["paths"]) if "paths" in given else ()
    rule = Rule(host, ports, protocol, methods, paths)
    if rule.looks_inside and any(rule.scheme(port) == "raw" for port in ports or ()):
        place = given.get("methods") or given["paths"]
        raise place.error("nothing is known of a raw connection", "add `protocol: tls` or `http`")
    return rule


def _host(node: Node, denial: bool) -> str:
    written = node.text("a host name")
    try:
        return judged_host(written, denial)
    except AgsError as error:
        hint = error.hint or ("ports go under `ports:`" if isinstance(error, BadHost) else "")
        raise node.error(f"{shown(written)}: {error.cause}", hint) from error


def _protocol(node: Node) -> Scheme:
    for known in get_args(Scheme):
        if node.value == known:
            return known  # type: ignore[no-any-return]
    raise node.error("is unknown", "known: tls, http, raw")


def ports_in(node: Node) -> tuple[int, ...]:
    items = [node] if isinstance(node.value, int) else node.items()
    if not items:
        raise node.error("is empty")
    for item in items:
        if isinstance(item.value, bool) or not isinstance(item.value, int):
            raise item.wrong("a port")
        if not 0 < item.value < 1 << 16:
            raise item.error("a port is from 1 to 65535")
    return tuple(dict.fromkeys(item.value for item in items))


def _methods(node: Node) -> tuple[str, ...]:
    methods = tuple(item.text() for item in _some(node))
    for item in node.items():
        if not re.fullmatch(r"[A-Z]{1,20}", item.value, re.ASCII):
            raise item.error("is not a method", "methods are in capitals, like GET")
    if "CONNECT" in methods:
        raise node.error("CONNECT opens any port of any host, and is never passed on")
    return methods


def _paths(node: Node) -> tuple[str, ...]:
    for item in _some(node):
        if cause := bad_pattern(item.text("a path")):
            raise item.error(cause, "`/v1/*` is all below /v1/, `/*/info` one part and info")
    return tuple(item.value for item in node.items())


def _some(node: Node) -> list[Node]:
    if not (items := node.items()):
        # An empty list reads as "none", and would mean "any".
        raise node.error("is empty", "leave it out to mean any")
    return items


def _split_port(written: str) -> tuple[str, int]:
    """-1 without a port. An IPv6 address needs brackets to have one."""
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:]*):([0-9]{1,6})", written, re.ASCII)
    return (match[1], int(match[2])) if match else (written, -1)
