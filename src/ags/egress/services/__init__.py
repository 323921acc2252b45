"""Services: hosts that belong together under one name, as data files beside this one.

A file has `about:`, `options:` and `groups:` of rules, each with `when:` it applies: a mapping of
options to values, or a list of such mappings of which one must fit. `{repos}` in a path stands for
each value of that option. A service with `settings: true` has no hosts of its own: they are in the
person's settings of the tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ags.config.values import shown
from ags.egress.document import Node, read_document
from ags.egress.policy import Rule
from ags.egress.rules import RULE_KEYS, judged_host, rule_of
from ags.frozen import frozen

SERVICES = Path(__file__).parent
_SERVICE_KEYS = ("about", "options", "groups", "settings", "needs")
_OPTION_KEYS = ("one", "any", "each")
_EACH = {"owner/name": r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.\.?\Z)[A-Za-z0-9._-]{1,100}(?<!\.git)"}

Values = dict[str, tuple[str, ...]]


@frozen
class Option:
    """What can be chosen: one of some words, any of some words, or each of a kind of text."""

    name: str
    kind: str
    words: tuple[str, ...]

    @property
    def default(self) -> tuple[str, ...]:
        return {"one": self.words[:1], "any": self.words, "each": ()}[self.kind]


@frozen
class Service:
    name: str
    about: str
    options: tuple[Option, ...]
    from_settings: bool
    groups: tuple[Node, ...]
    needs: tuple[tuple[str, str, str], ...]
    """If an option has this value, another one must be given."""


@frozen
class Chosen:
    """A service with its options decided."""

    name: str
    rules: tuple[Rule, ...]
    access: str
    from_settings: bool


def service_names() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in SERVICES.glob("*.yaml")))


def load_service(name: str) -> Service:
    """A service that there is."""
    file = SERVICES / f"{name}.yaml"
    given = read_document(file.read_text(), file, ours=True).mapping(_SERVICE_KEYS)
    options = given["options"].mapping() if "options" in given else {}
    return Service(
        name,
        given["about"].text(),
        tuple(_option(key, node) for key, node in options.items()),
        "settings" in given and given["settings"].switch(),
        tuple(given["groups"].items()) if "groups" in given else (),
        tuple(_need(item) for item in given["needs"].items()) if "needs" in given else (),
    )


def chosen(service: Service, options: Node | None) -> Chosen:
    """The service as these options have it; None or nothing takes the defaults."""
    values = _values(service, options)
    for option, word, other in service.needs:
        if word in values[option] and not values[other]:
            place = options or Node(None, service.name, 0)
            raise place.error(f"`{option}: {word}` needs `{other}:`")
    access = (*values.get("access", ()), "read")[0]
    return Chosen(service.name, tuple(_expanded(service, values)), access, service.from_settings)


def _option(name: str, node: Node) -> Option:
    ((kind, words),) = node.mapping(_OPTION_KEYS).items()
    listed = words.items() if isinstance(words.value, list) else [words]
    return Option(name, kind, tuple(_word(item) for item in listed))


def _need(node: Node) -> tuple[str, str, str]:
    option, word, other = (_word(item) for item in node.items())
    return option, word, other


def _values(service: Service, options: Node | None) -> Values:
    known = {option.name: option for option in service.options}
    values = {option.name: option.default for option in service.options}
    if options is None or options.value is None:
        return values
    if not known:
        raise options.error("has no options")
    for name, node in options.mapping(tuple(known)).items():
        values[name] = _value(known[name], node)
    return values


def _value(option: Option, node: Node) -> tuple[str, ...]:
    if option.kind == "one":
        return (_known(option, node),)
    items = node.items()
    if not items:
        raise node.error("is empty", "leave it out, or name at least one")
    if option.kind == "any":
        return tuple(_known(option, item) for item in items)
    for item in items:
        if not re.fullmatch(_EACH[option.words[0]], item.text(), re.ASCII):
            raise item.error(f"{shown(item.value)} is not {option.words[0]}")
    return tuple(item.value for item in items)


def _known(option: Option, node: Node) -> str:
    if (word := _word(node)) not in option.words:
        raise node.error(f"{shown(word)} is unknown", f"known: {', '.join(option.words)}")
    return word


def _word(node: Node) -> str:
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    return node.text("a word")


def _expanded(service: Service, values: Values) -> Iterator[Rule]:
    for group in service.groups:
        given = group.mapping(("when", "rules"))
        if "when" in given and not _applies(given["when"], values):
            continue
        for node in given["rules"].items():
            yield from _instances(service, node, values)


def _applies(node: Node, values: Values) -> bool:
    cases = node.items() if isinstance(node.value, list) else [node]
    return any(
        all(_fits(_word(word), values[option]) for option, word in case.mapping().items())
        for case in cases
    )


def _fits(word: str, values: tuple[str, ...]) -> bool:
    if word in ("given", "empty"):
        return bool(values) == (word == "given")
    return word in values


def _instances(service: Service, node: Node, values: Values) -> Iterator[Rule]:
    given = node.mapping(RULE_KEYS)
    paths = given.pop("paths").items() if "paths" in given else []
    rule = rule_of(given, judged_host(given["host"].text()))
    if "ports" not in given and "protocol" not in given:
        rule = replace(rule, ports=(443,))
    spelled = tuple(text for item in paths for text in _filled(item.text(), values))
    if spelled or not paths:
        yield replace(rule, paths=spelled, service=service.name)


def _filled(path: str, values: Values) -> Iterator[str]:
    found = re.search(r"\{(\w+)\}", path)
    if not found:
        yield path
        return
    for value in values[found[1]]:
        yield path.replace(found[0], value)
