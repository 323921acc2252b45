"""From what a run was refused to the smallest policy that would have allowed it. All of it is pure.

The names were chosen by whatever ran inside: this is a proposal for a person to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from ags.egress.hosts import address_of
from ags.egress.model import Request, Scheme
from ags.egress.paths import bad_pattern
from ags.egress.policy import DEFAULT_SCHEMES, Layer, Policy, Rule, decide, meaning
from ags.egress.rules import judged_host
from ags.errors import AgsError
from ags.frozen import frozen

MOST_RULES = 100
MOST_PATHS = 8
"""With more, the method alone is the rule: nobody reads them."""
MENDABLE = ("not-listed", "port", "method", "path")


@frozen
class Lesson:
    """Rules to add, and what they leave refused, each with why."""

    rules: tuple[Rule, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


def learn(policy: Policy, records: Iterable[Mapping[str, object]]) -> Lesson:
    """From the records of a log, under the policy as it is by now."""
    wanted: dict[tuple[str, int, Scheme], dict[Request, None]] = {}
    left: dict[str, str] = {}
    for record in records:
        request = refused(record)
        if request is None or decide(policy, request).allowed:
            continue
        if why := _unmendable(request, str(record.get("reason"))):
            left[f"{request.host}:{request.port}"] = why
            continue
        wanted.setdefault((request.host, request.port, request.scheme), {})[request] = None
    rules = _joined(_rule(*key, tuple(requests)) for key, requests in wanted.items())
    for requests in wanted.values():
        left |= _still_refused(policy, rules[:MOST_RULES], requests)
    return Lesson(rules[:MOST_RULES], tuple(left.items())[:MOST_RULES])


def refused(record: Mapping[str, object]) -> Request | None:
    """What this record says was wanted in vain. It may hold anything."""
    host, port, scheme = (record.get(name) for name in ("host", "port", "scheme"))
    if record.get("allowed") is not False or not isinstance(host, str):
        return None
    if type(port) is not int or not 0 < port < 1 << 16 or scheme not in get_args(Scheme):
        return None
    method, path = record.get("method"), record.get("path")
    spelled = isinstance(method, str) and method.isascii() and method.isalpha() and method.isupper()
    return Request(
        host,
        port,
        scheme,  # type: ignore[arg-type]
        method if spelled and isinstance(method, str) else None,
        _pattern(path) if spelled and isinstance(path, str) else None,
    )


def _pattern(path: str) -> str:
    """The class of a path is nearly a pattern already; its end may stand for anything."""
    return f"{path.removesuffix('/...')}/*" if path.endswith("/...") else path


def _unmendable(request: Request, reason: str) -> str:
    if reason == "address":
        return "an address, and not a name; `ags policy add` takes it if you mean it"
    if reason not in MENDABLE:
        return meaning(reason)
    if address_of(request.host) is not None:
        return "an address, and not a name"
    if request.path is not None and bad_pattern(request.path):
        return "its path has more than one reading"
    try:
        judged_host(request.host)
    except AgsError as error:
        return error.cause
    return ""


def _rule(host: str, port: int, scheme: Scheme, requests: tuple[Request, ...]) -> Rule:
    protocol = None if DEFAULT_SCHEMES.get(port, "raw") == scheme else scheme
    if scheme == "raw" or any(each.method is None for each in requests):
        return Rule(host, (port,), protocol)
    methods = tuple(sorted({each.method or "" for each in requests}))
    paths = sorted({each.path or "" for each in requests})
    kept = tuple(paths) if all(paths) and len(paths) <= MOST_PATHS else ()
    return Rule(host, (port,), protocol, methods, kept)


def _joined(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """A host that is wanted on both usual ports, in whichever way, is one plain rule."""
    found = list(rules)
    plain = {rule for rule in found if not (rule.looks_inside or rule.protocol)}
    both = [rule.host for rule in plain if rule.ports == (443,) and Rule(rule.host, (80,)) in plain]
    kept = (rule for rule in found if not (rule in plain and rule.host in both and _usual(rule)))
    return tuple(sorted((*kept, *map(Rule, both)), key=lambda rule: (rule.host, rule.ports)))


def _usual(rule: Rule) -> bool:
    return rule.ports in ((443,), (80,))


def _still_refused(
    policy: Policy, rules: tuple[Rule, ...], requests: Iterable[Request]
) -> dict[str, str]:
    more = Policy((*policy.layers, Layer("user", allow=rules)), policy.secrets)
    judged = {f"{each.host}:{each.port}": decide(more, each) for each in requests}
    return {where: meaning(found.reason) for where, found in judged.items() if not found.allowed}
