"""What may go out: rules, their layers, and the decision about one request. All of it is pure.

Layers are joined in order: built-in, user, client, run. What any layer denies stays denied. A
service named by a later layer takes the place of the earlier ones'. A narrowing layer (a
repository's) adds denials and may list what of the rest it keeps; it never opens anything.

`*.x` covers every name below `x`, not `x` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, wraps
from pathlib import Path

from ags.egress.hosts import HOST_NAME, BadHost, address_of, canonical_host, is_public_name
from ags.egress.model import Decision, Request, Scheme
from ags.egress.paths import normal_path, path_matches
from ags.errors import AgsError
from ags.frozen import frozen

DEFAULT_SCHEMES: dict[int, Scheme] = {443: "tls", 80: "http"}
MOST_KNOWN = 1024
_STRICTEST_FIRST: tuple[Scheme, ...] = ("tls", "http", "raw")
# Refusals that a person can lift with a grant, the nearest miss last.
_MISSES = ("not-listed", "port", "protocol", "method", "path")

__all__ = [
    "Layer",
    "Policy",
    "Rule",
    "Upstream",
    "decide",
    "explain",
    "fill",
    "merge",
    "normal_path",
]


@frozen
class Rule:
    """Hosts, and how they may be spoken to. In a denial, an empty part means any."""

    host: str
    """A canonical name or address, or `*.` and a canonical name; in a denial also `*`."""
    ports: tuple[int, ...] = (443, 80)
    protocol: Scheme | None = None
    """None: tls on 443, http on 80, else raw."""
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """`*` is a part of one segment; at the end, anything at all."""
    service: str = ""
    """The service that brought it."""

    def __str__(self) -> str:
        """`github: api.github.com:443 GET,HEAD /repos/*`"""
        return f"{self.service}: {self._spelled}" if self.service else self._spelled

    @property
    def _spelled(self) -> str:
        usual = self.ports in ((), (443, 80))
        ports = "" if usual else f":{','.join(map(str, self.ports))}"
        host = f"[{self.host}]" if ports and ":" in self.host else self.host
        more = (self.protocol or "", ",".join(self.methods), " ".join(self.paths))
        return " ".join((f"{host}{ports}", *filter(None, more)))

    @property
    def looks_inside(self) -> bool:
        """Whether it takes a method or a path to judge by it."""
        return bool(self.methods or self.paths)

    def scheme(self, port: int) -> Scheme:
        return self.protocol or DEFAULT_SCHEMES.get(port, "raw")

    def covers(self, host: str) -> bool:
        if self.host.startswith("*"):
            return host.endswith(self.host[1:])
        return host == self.host


@frozen
class Upstream:
    """A name that is dialled at a fixed address, such as a company's gateway."""

    host: str
    address: str
    port: int | None = None
    ca: Path | None = None


@frozen
class Layer:
    """What one source of policy says."""

    name: str
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    services: tuple[str, ...] = ()
    """Those it names: they replace what earlier layers have of the same name."""
    pending: tuple[tuple[str, str], ...] = ()
    """Services whose hosts are in the person's own tool settings, with their access."""
    ask: bool | None = None
    upstreams: tuple[Upstream, ...] = ()
    host_services: tuple[int, ...] = ()
    narrows: bool = False
    """It can only take away; what it lists is what it keeps of the rest."""
    keeps: bool = False
    """A narrowing layer that has a list at all, be it an empty one."""
    broken: str = ""
    """Why it could not be read. Then nothing goes out."""


@frozen
class Policy:
    """All layers joined. Without any, everything is refused."""

    layers: tuple[Layer, ...] = ()
    secrets: frozenset[tuple[str, int]] = frozenset()
    """Hosts and ports that are sent a secret: their TLS is ended by the fence."""

    @cached_property
    def decided(self) -> dict[tuple[str, int, Scheme], Decision]:
        """Of this very policy, and gone with it."""
        return {}

    @property
    def ask(self) -> bool:
        said = [layer.ask for layer in self.layers if layer.ask is not None]
        refused = any(layer.narrows and layer.ask is False for layer in self.layers)
        return bool(said and said[-1]) and not refused

    @property
    def ports(self) -> frozenset[int]:
        """Those that listeners are needed on."""
        ruled = {port for layer in _opening(self) for rule in layer.allow for port in rule.ports}
        served = {port for layer in _opening(self) for port in layer.host_services}
        return frozenset(ruled | served | set(DEFAULT_SCHEMES))

    def scheme(self, host: str, port: int) -> Scheme:
        """How a connection to this port is to be read: by the strictest rule for this host."""
        known = self._schemes
        if (scheme := known.get((host, port))) is None:
            if len(known) >= MOST_KNOWN:
                known.clear()
            scheme = known[host, port] = _scheme(self, host, port)
        return scheme

    @cached_property
    def _schemes(self) -> dict[tuple[str, int], Scheme]:
        return {}

    def looks_inside(self, host: str) -> bool:
        """Whether methods or paths matter for this host, and with them `paths.override`."""
        rules = (rule for layer in self.layers for rule in (*layer.allow, *layer.deny))
        return any(rule.looks_inside and rule.covers(host) for rule in rules)

    def upstream(self, host: str) -> Upstream | None:
        """Where to dial this name, by the last layer that says so."""
        found = (u for layer in reversed(self.layers) for u in layer.upstreams if u.host == host)
        return next(found, None)


def merge(layers: Iterable[Layer], secrets: Iterable[tuple[str, int]] = ()) -> Policy:
    """The layers as one policy, in their order."""
    ordered = tuple(layers)
    for layer in ordered:
        if layer.narrows and (layer.upstreams or layer.host_services or layer.ask):
            cause = "it can deny and list domains, but not open anything"
            raise AgsError("use this policy", subject=layer.name, cause=cause)
    return Policy(tuple(_superseded(ordered)), frozenset(secrets))


def fill(layer: Layer, found: Mapping[str, tuple[Rule, ...]]) -> Layer:
    """The layer with the hosts of pending services; those not found open nothing."""
    rules: list[Rule] = []
    for name, access in layer.pending:
        for rule in found.get(name, ()) if access != "none" else ():
            methods = () if access == "readwrite" else rule.methods
            rules.append(replace(rule, service=name, methods=methods))
    left = tuple((name, access) for name, access in layer.pending if name not in found)
    return replace(layer, allow=(*layer.allow, *rules), pending=left)


Judge = Callable[[Policy, Request], Decision]


def _remembered(judge: Judge) -> Judge:
    """What was decided of whole connections: a program dials the same few hosts again and again."""

    @wraps(judge)
    def remembering(policy: Policy, request: Request) -> Decision:
        if request.method is not None or request.path is not None:
            return judge(policy, request)
        known, wanted = policy.decided, (request.host, request.port, request.scheme)
        if (decision := known.get(wanted)) is None:
            if len(known) >= MOST_KNOWN:
                known.clear()
            decision = known[wanted] = judge(policy, request)
        return decision

    return remembering


@_remembered
def decide(policy: Policy, request: Request) -> Decision:
    """Whether this goes out. A connection whose method is not known yet is judged by the rest."""
    refusal = _closed(policy) or _malformed(request) or _denied(policy, request)
    if refusal:
        return refusal
    if request.host == HOST_NAME:
        return _host_service(policy, request)
    decision = _listed(policy, request)
    return _narrowed(policy, request, decision) if decision.allowed else decision


def an_allowed_one(policy: Policy) -> tuple[str, int] | None:
    """Some name and port that a connection may go to, for a look at whether it gets there."""
    for layer in _opening(policy):
        for rule in layer.allow:
            if rule.host.startswith("*") or not is_public_name(rule.host):
                continue
            for port in rule.ports:
                request = Request(rule.host, port, policy.scheme(rule.host, port))
                if decide(policy, request).allowed:
                    return rule.host, port
    return None


def explain(policy: Policy, request: Request) -> tuple[str, ...]:
    """The decision in a line, then each rule for this host with what it says to this request."""
    decision = decide(policy, request)
    verb = "allowed" if decision.allowed else "refused"
    by = f" by `{decision.rule}` ({decision.layer})" if decision.rule else ""
    lines = [f"{verb}: {meaning(decision.reason)}{by}"]
    for layer, rule in _denying(policy, request.host):
        lines.append(f"deny `{rule}` ({layer.name}): {_miss(rule, request, True) or 'applies'}")
    for layer, rule in _allowing(policy, request.host):
        lines.append(f"allow `{rule}` ({layer.name}): {_miss(rule, request) or 'applies'}")
    return tuple(lines)


def meaning(reason: str) -> str:
    """A reason code in words."""
    return _MEANINGS.get(reason, reason)


_MEANINGS = {
    "allowed": "a rule allows it",
    "no-policy": "there is no policy that could be read",
    "not-listed": "no rule names this host",
    "log-in": "a token of the log-in was asked for, and AGS answered",
    "denied": "a rule denies it",
    "narrowed": "the repository's own policy leaves it out",
    "port": "no rule for this host has this port",
    "protocol": "the rule for this port is for another protocol",
    "method": "no rule for this host has this method",
    "path": "no rule for this host has this path, or the path has more than one reading",
    "name": "this is not a name that can be judged",
    "address": "an address is reached only if it is itself listed",
    "ask-denied": "you denied it",
    "ask-timeout": "nobody answered in time",
    "ask-full": "too many questions wait for an answer",
    "ask-used": "what you allowed is used up",
    "host-service": "this port of the host is not listed under host_services",
}


def _closed(policy: Policy) -> Decision | None:
    if not policy.layers:
        return Decision(False, "no-policy", "", "")
    broken = next((layer for layer in policy.layers if layer.broken), None)
    return Decision(False, "no-policy", "", broken.name) if broken else None


def _malformed(request: Request) -> Decision | None:
    try:
        odd = canonical_host(request.host) != request.host
    except BadHost:
        odd = True
    if odd:
        return Decision(False, "name", "", "")
    return None if 0 < request.port < 1 << 16 else Decision(False, "port", "", "")


def _denied(policy: Policy, request: Request) -> Decision | None:
    for layer, rule in _denying(policy, request.host):
        if _miss(rule, request, denial=True) is None:
            return Decision(False, "denied", str(rule), layer.name)
    return None


def _host_service(policy: Policy, request: Request) -> Decision:
    for layer in _opening(policy):
        if request.port in layer.host_services:
            return Decision(True, "allowed", f"host_services: {request.port}", layer.name)
    return Decision(False, "host-service", "", "")


def _listed(policy: Policy, request: Request) -> Decision:
    misses: list[tuple[int, Layer, Rule]] = []
    fits: list[tuple[Layer, Rule]] = []
    for layer, rule in _allowing(policy, request.host):
        if (miss := _miss(rule, request)) is None:
            fits.append((layer, rule))
        else:
            misses.append((_MISSES.index(miss), layer, rule))
    if fits:
        # A rule that does not look inside spares the connection from being opened.
        layer, rule = min(fits, key=lambda fit: fit[1].looks_inside)
        intercept = _intercepts(policy, request, rule)
        return Decision(True, "allowed", str(rule), layer.name, intercept=intercept)
    if not misses:
        return _unlisted(policy, request)
    nearest, layer, rule = max(misses, key=lambda miss: miss[0])
    sayable = request.path is None or normal_path(request.path) is not None
    ask = policy.ask and sayable and is_public_name(request.host)
    return Decision(False, _MISSES[nearest], str(rule), layer.name, ask=ask)


def _unlisted(policy: Policy, request: Request) -> Decision:
    if address_of(request.host) is not None:
        return Decision(False, "address", "", "")
    ask = policy.ask and is_public_name(request.host)
    return Decision(False, "not-listed", "", "", ask=ask)


def _narrowed(policy: Policy, request: Request, decision: Decision) -> Decision:
    """Every narrowing layer with a list must list it too."""
    for layer in policy.layers:
        if not (layer.narrows and layer.keeps):
            continue
        kept = [rule for rule in layer.allow if rule.covers(request.host)]
        fits = [rule for rule in kept if _miss(rule, request) is None]
        if not fits:
            return Decision(False, "narrowed", "", layer.name)
        if request.scheme == "tls" and all(rule.looks_inside for rule in fits):
            decision = replace(decision, intercept=True)
    return decision


def _intercepts(policy: Policy, request: Request, rule: Rule) -> bool:
    if request.scheme != "tls":
        return False
    wary = any(
        deny.looks_inside and _reach(deny, request, denial=True) is None
        for _, deny in _denying(policy, request.host)
    )
    return rule.looks_inside or wary or (request.host, request.port) in policy.secrets


def _miss(rule: Rule, request: Request, denial: bool = False) -> str | None:
    """What of a rule for this host does not fit: port, protocol, method or path. None: it fits."""
    if miss := _reach(rule, request, denial):
        return miss
    if request.method is None:
        # Not seen yet, unless it never will be. A denial waits for it, an allowance assumes it.
        waits = denial and rule.looks_inside and request.scheme != "raw"
        return "method" if waits else None
    if rule.methods and not _method_fits(rule, request.method, denial):
        return "method"
    if rule.paths and not _path_fits(rule, request.path or "", denial):
        return "path"
    return None


def _reach(rule: Rule, request: Request, denial: bool) -> str | None:
    if request.port not in rule.ports and not (denial and not rule.ports):
        return "port"
    scheme = rule.protocol if denial else rule.scheme(request.port)
    return "protocol" if scheme not in (None, request.scheme) else None


def _method_fits(rule: Rule, method: str, denial: bool) -> bool:
    # Methods are case-sensitive, but not every origin knows.
    return (method.upper() if denial else method) in rule.methods


def _path_fits(rule: Rule, path: str, denial: bool) -> bool:
    normal = normal_path(path)
    if normal is None:
        return denial
    return any(path_matches(pattern, normal, denial) for pattern in rule.paths)


def _scheme(policy: Policy, host: str, port: int) -> Scheme:
    if host == HOST_NAME:
        return "raw"
    found = {rule.scheme(port) for _, rule in _allowing(policy, host) if port in rule.ports}
    usual = DEFAULT_SCHEMES.get(port, "raw")
    return next((scheme for scheme in _STRICTEST_FIRST if scheme in found), usual)


def _opening(policy: Policy) -> Iterator[Layer]:
    return (layer for layer in policy.layers if not layer.narrows)


def _allowing(policy: Policy, host: str) -> Iterator[tuple[Layer, Rule]]:
    return ((la, rule) for la in _opening(policy) for rule in la.allow if rule.covers(host))


def _denying(policy: Policy, host: str) -> Iterator[tuple[Layer, Rule]]:
    return ((la, rule) for la in policy.layers for rule in la.deny if rule.covers(host))


def _superseded(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    for position, layer in enumerate(layers):
        later = {s for la in layers[position + 1 :] if not la.narrows for s in la.services}
        kept = tuple(rule for rule in layer.allow if rule.service not in later)
        yield layer if layer.narrows or not later else replace(layer, allow=kept)
