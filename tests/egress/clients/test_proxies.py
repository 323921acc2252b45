"""Programs that were told of a proxy by hand are served at the gateway, by the same rules."""

from __future__ import annotations

import pytest

from tests.egress.clients.desk import Desk
from tests.egress.clients.programs import URLLIB
from tests.internet import Internet
from tests.internet.world import GitOrigin

HTTP, SOCKS = "http://198.18.0.1:3128", "socks5h://198.18.0.1:3128"
BY_HTTP = {"http_proxy": HTTP, "https_proxy": HTTP}
BY_SOCKS = {"ALL_PROXY": SOCKS}
BOTH = pytest.mark.parametrize("given", [BY_HTTP, BY_SOCKS], ids=["http", "socks"])


@pytest.fixture(scope="module")
def project(the_internet: Internet) -> GitOrigin:
    origin = the_internet.git("git.example")
    origin.repository("project.git", {"README.md": "A small project.\n"})
    return origin


@BOTH
def test_curl_reaches_what_is_allowed_and_nothing_else(desk: Desk, given: dict[str, str]) -> None:
    urls = desk.sites.allowed
    ended = desk.shell(f"curl -sS -m 90 {' '.join(urls)}", given)
    assert ended.out.splitlines() == [f"hello from {name}" for name in urls.values()], ended
    for url in desk.sites.forbidden:
        refused = desk.shell(f"curl -sSf -m 90 {url}", given)
        assert refused.code != 0 and "hello" not in refused.out, refused
    assert desk.untouched


def test_a_refusal_is_spoken_by_the_proxy(desk: Desk) -> None:
    https, http = desk.sites.forbidden
    assert "403" in desk.shell(f"curl -sS -m 90 {https} 2>&1 || true", BY_HTTP).out
    assert "ags_policy_refusal" in desk.shell(f"curl -sS -m 90 {http}", BY_HTTP).out
    assert desk.untouched


def test_python_reaches_what_is_allowed_by_its_variables(desk: Desk) -> None:
    (desk.workspace / "fetch.py").write_text(URLLIB)
    urls = desk.sites.allowed
    ended = desk.shell(f"/usr/bin/python3 -I fetch.py {' '.join(urls)}", BY_HTTP)
    wanted = [f"200 hello from {name}" for name in urls.values()]
    assert ended.out.splitlines() == wanted, ended
    refused = desk.shell(f"/usr/bin/python3 -I fetch.py {desk.sites.forbidden[0]}", BY_HTTP)
    assert refused.code != 0 and "403" in refused.err, refused
    assert desk.untouched


@BOTH
def test_git_clones_by_its_variables(desk: Desk, project: GitOrigin, given: dict[str, str]) -> None:
    ended = desk.shell("git clone -q https://git.example/project.git work && cat work/*", given)
    assert (ended.code, ended.out) == (0, "A small project.\n"), ended
    refused = desk.shell("git clone -q https://refused.example/project.git other", given)
    assert refused.code != 0, refused
    assert desk.untouched
