"""From a policy file, and the services it names, to one layer of policy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ags.config.load import read
from ags.config.values import parse_path, shown
from ags.egress.document import Node, read_document
from ags.egress.hosts import address_of, canonical_host
from ags.egress.policy import Layer, Upstream
from ags.egress.rules import parse_domain, ports_in, rules_in
from ags.egress.services import SERVICES, Chosen, chosen, load_service, service_names
from ags.errors import AgsError, ConfigError

FILE_NAME = "policy.yaml"
KEYS = ("services", "domains", "deny", "ask", "upstreams", "host_services")
NARROWING_KEYS = ("services", "domains", "deny", "ask")

_OTHER_FILE = "correct it or move it away; `--policy PATH` uses another file"


def load(file: Path, name: str, home: Path, narrows: bool = False) -> Layer:
    """The layer in this file. A file that is missing, unreadable or empty is an error."""
    return parse(text_of(file), file, name, home, narrows)


def text_of(file: Path) -> str:
    """What the file says, if nobody else can have written it."""
    with _of_a_policy():
        return read(file)


@contextlib.contextmanager
def _of_a_policy() -> Iterator[None]:
    """These are read like settings, and are none to whoever reads the error."""
    try:
        yield
    except ConfigError as error:
        error.what = "read the policy"
        if isinstance(error.__cause__, OSError | UnicodeError) or not error.hint:
            error.hint = error.hint if error.line else _OTHER_FILE
        raise


def parse(text: str, file: object, name: str, home: Path, narrows: bool = False) -> Layer:
    """The layer that this text means. `file` only tells where it came from."""
    with _of_a_policy():
        return _parsed(text, file, name, home, narrows)


def _parsed(text: str, file: object, name: str, home: Path, narrows: bool) -> Layer:
    document = read_document(text, file)
    if document.value is None or document.value == {}:
        hint = "`services:` and `domains:` list what may be reached; see README"
        raise document.error("is empty, so nothing may go out", hint)
    given = document.mapping(NARROWING_KEYS if narrows else KEYS, "it starts with `domains:`")
    selected = _services(given["services"]) if "services" in given else ()
    domains = rules_in(given["domains"], denial=False) if "domains" in given else ()
    return Layer(
        name,
        allow=(*(rule for choice in selected for rule in choice.rules), *domains),
        deny=rules_in(given["deny"], denial=True) if "deny" in given else (),
        services=tuple(choice.name for choice in selected),
        pending=tuple((c.name, c.access) for c in selected if c.from_settings),
        ask=_ask(given["ask"], narrows) if "ask" in given else None,
        upstreams=_upstreams(given["upstreams"], home) if "upstreams" in given else (),
        host_services=ports_in(given["host_services"]) if "host_services" in given else (),
        narrows=narrows,
        keeps=narrows and ("services" in given or "domains" in given),
    )


def built_in(agent: str, *others: str) -> Layer:
    """What holds without any file: the own hosts of the agent and of others at its hand, and
    reading GitHub."""
    wanted = (agent, *others, "github")
    names = [name for name in wanted if (SERVICES / f"{name}.yaml").is_file()]
    selected = [chosen(load_service(name), None) for name in names]
    rules = tuple(rule for choice in selected for rule in choice.rules)
    return Layer("built-in", allow=rules, services=tuple(names))


def from_flags(domains: Sequence[str], name: str = "run") -> Layer:
    """The layer of `--allow DOMAIN`, given any number of times."""
    return Layer(name, allow=tuple(parse_domain(domain, "--allow") for domain in domains))


def _services(node: Node) -> tuple[Chosen, ...]:
    selected: list[Chosen] = []
    for item in node.items("write `- github`, or `- github: {access: read}`"):
        if isinstance(item.value, str):
            given: dict[str, Node | None] = {item.value: None}
        else:
            given = dict(item.mapping(hint="write the name of a service"))
        for name, options in given.items():
            place = options or item
            if name not in service_names():
                hint = f"known: {', '.join(service_names())}"
                raise place.error(f"there is no service {shown(name)}", hint)
            if name in (choice.name for choice in selected):
                raise place.error(f"{name} is there twice")
            selected.append(chosen(load_service(name), options))
    return tuple(selected)


def _ask(node: Node, narrows: bool) -> bool:
    if narrows and node.switch():
        raise node.error("a repository can only turn asking off")
    return node.switch()


def _upstreams(node: Node, home: Path) -> tuple[Upstream, ...]:
    return tuple(_upstream(name, item, home) for name, item in node.mapping().items())


def _upstream(name: str, node: Node, home: Path) -> Upstream:
    try:
        host = canonical_host(name)
        if isinstance(node.value, str):
            return Upstream(host, _address(node))
        given = node.mapping(("address", "port", "ca"))
        if "address" not in given:
            raise node.error("has no `address:`")
        port = ports_in(given["port"])[0] if "port" in given else None
        ca = parse_path(given["ca"].text("a path"), home) if "ca" in given else None
        return Upstream(host, _address(given["address"]), port, ca)
    except ConfigError:
        raise
    except AgsError as error:
        raise node.error(error.cause, error.hint) from error


def _address(node: Node) -> str:
    found = canonical_host(node.text("an address"))
    if address_of(found) is None:
        raise node.error("must be an address, not a name", "a name would have to be resolved")
    return found
