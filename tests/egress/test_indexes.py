"""Where an index keeps its files: learnt outside, from the index alone, and for reading only."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ags.egress import indexes, tls
from ags.egress.fence import Fence, Terms
from ags.egress.indexes import extended, file_hosts, learn
from ags.egress.model import Request
from ags.egress.policy import Layer, Policy, Rule, decide, merge
from ags.egress.registries import rules_for
from tests.egress.clients import shop
from tests.internet import Internet
from tests.internet.fixtures import internet, the_internet

__all__ = ["internet", "the_internet"]

INDEX = "https://index.example/simple"


def https(host: str, port: int = 443) -> Rule:
    return Rule(host, (port,), "tls", ("GET", "HEAD"))


def opened(*addresses: str, service: str = "pip", deny: tuple[Rule, ...] = ()) -> Policy:
    rules = rules_for(addresses).rules
    named = tuple(Rule(r.host, r.ports, r.protocol, r.methods, service=service) for r in rules)
    return merge([Layer("user", allow=named, deny=deny, services=(service,))])


def test_links_of_an_index_page_are_hosts_of_files() -> None:
    page = '<a href="https://files.example/a.whl">a</a><a href="/b.whl">b</a>'
    assert file_hosts("pip", page, f"{INDEX}/pip/") == (https("files.example"),)


@pytest.mark.parametrize(
    "link",
    [
        "https://index.example/a.whl", "http://plain.example/a.whl", "https://10.0.0.5/a.whl",
        "https://11.1.1.1/a.whl", "https://[fd00::1]/a.whl", "https://localhost/a.whl",
        "https://*.example/a.whl", "ftp://files.example/a.whl", "https://:0/",
    ],
)  # fmt: skip
def test_a_link_to_the_same_host_an_address_or_a_less_safe_place_teaches_nothing(link: str) -> None:
    page = f'<a href="{link}">a</a>'
    assert file_hosts("pip", page, f"{INDEX}/pip/") == ()
    tarball = json.dumps({"dist": {"tarball": link}})
    assert file_hosts("npm", tarball, "https://index.example/npm/latest") == ()


def test_a_page_full_of_hosts_teaches_a_few() -> None:
    page = "".join(f'<a href="https://f{n}.example/a.whl">a</a>' for n in range(100))
    assert len(file_hosts("pip", page, INDEX)) == indexes.MOST_HOSTS


@pytest.mark.parametrize(
    "page", ["", "{", "[]", '{"dist": 1}', '{"dist": {"tarball": 1}}', "[" * 9999]
)
def test_an_odd_document_teaches_nothing(page: str) -> None:
    assert file_hosts("npm", page, "https://index.example/npm/latest") == ()


def test_what_was_learnt_is_for_reading_even_where_the_index_can_be_written_to() -> None:
    index = Rule("index.example", (443,), "tls", service="pip")
    policy = merge([Layer("built-in"), Layer("user", allow=(index,), services=("pip",))])
    more = extended(policy, {"pip": (https("files.example"),), "npm": (https("other.example"),)})

    def allowed(host: str, method: str) -> bool:
        return decide(more, Request(host, 443, "tls", method, "/x")).allowed

    assert allowed("index.example", "PUT") and allowed("files.example", "GET")
    assert not allowed("files.example", "PUT") and not allowed("other.example", "GET")
    decision = decide(more, Request("files.example", 443, "tls", "GET", "/x"))
    assert decision.layer == "user" and decision.rule.startswith("pip: ")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


def page(site: Path, path: str, text: str) -> None:
    file = site / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def learnt(
    internet: Internet, policy: Policy, within: float = 240.0, **given: tuple[str, ...]
) -> dict[str, tuple[Rule, ...]]:
    fence = Fence(
        Terms(policy),
        authority=tls.Authority("test"),
        upstream=tls.upstream(tls.certificates(internet.ca)),
        record=lambda line: None,
    )
    with internet.here():
        return dict(asyncio.run(learn(fence, given, within)))


@pytest.fixture
def index(internet: Internet, site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Gives its log of requests. What it says is waited for, however slow the machine is."""
    monkeypatch.setattr(indexes, "PAGE_TIMEOUT", 60.0)
    site.mkdir()
    with shop.opened(internet, "index.example", site) as log:
        yield log


def names(internet: Internet) -> set[str]:
    """That were looked up; the site itself asks for its own name, the other way round."""
    return {query.name for query in internet.queries if not query.name.endswith(".arpa")}


def test_file_hosts_are_learnt_from_the_page_of_the_tools_own_package(
    internet: Internet, site: Path, index: Path
) -> None:
    page(site, "simple/pip/index.html", '<a href="https://files.example/pip.whl">pip</a>')
    page(site, "npm/npm/latest", '{"dist": {"tarball": "https://tar.example/npm.tgz"}}')
    registry = "https://index.example/npm/"
    found = learnt(internet, opened(INDEX), pip=(INDEX,), npm=(registry,))
    assert found == {"pip": (https("files.example"),), "npm": (https("tar.example"),)}
    assert sorted(index.read_text().split()) == sorted(
        ["GET", "/simple/pip/", "GET", "/npm/npm/latest"]
    )
    assert names(internet) == {"index.example"}


def test_an_index_without_that_package_is_asked_for_another_or_is_a_list_itself(
    internet: Internet, site: Path, index: Path
) -> None:
    page(site, "links.html", '<a href="https://wheels.example/a.whl">a</a>')
    links = "https://index.example/links.html"
    assert learnt(internet, opened(links), pip=(links,)) == {"pip": (https("wheels.example"),)}


def test_an_index_that_is_denied_or_not_opened_is_not_asked(
    internet: Internet, site: Path, index: Path
) -> None:
    page(site, "simple/pip/index.html", '<a href="https://files.example/pip.whl">pip</a>')
    denied = opened(INDEX, deny=(Rule("index.example", ()),))
    for policy in (denied, opened("https://other.example/")):
        assert learnt(internet, policy, pip=(INDEX,)) == {}
    assert index.read_text() == "" and names(internet) == set()
    assert learnt(internet, opened(INDEX), pip=(INDEX,)) and index.read_text()


@pytest.mark.parametrize("flaw", ["another's certificate", "a private address", "a redirect"])
def test_only_a_verified_index_of_the_open_internet_teaches(internet: Internet, flaw: str) -> None:
    name = f"{flaw.split()[-1]}.example"
    address = f"https://{name}/simple"
    origin = internet.origin(name, tls=True, trusted=flaw != "another's certificate")
    if flaw == "a private address":
        internet.answers(name, ["10.0.0.5"])
    elif flaw == "a redirect":
        address = f"https://{name}/moved"
        internet.origin("elsewhere.example", tls=True)
    assert learnt(internet, opened(address), pip=(address,)) == {}
    asked = len(origin.requests)
    assert asked >= 1 if flaw == "a redirect" else asked == 0
    assert internet.lan.visits == []
    assert "elsewhere.example" not in names(internet)


def test_a_slow_index_is_not_waited_for(
    internet: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "PAGE_TIMEOUT", 0.3)
    internet.origin("slow.example", port=8443)  # speaks no TLS: its answer never comes
    address = "https://slow.example:8443/simple"
    began = time.monotonic()
    assert learnt(internet, opened(address), 600.0, pip=(address,)) == {}
    assert time.monotonic() - began < 300
