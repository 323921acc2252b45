"""Programs that know nothing of a fence reach what is allowed, and are told of what is not."""

from __future__ import annotations

import pytest

from tests.egress.clients.desk import Desk, needs
from tests.egress.clients.programs import CLIENTS, Client


@pytest.mark.parametrize("client", CLIENTS.values(), ids=list(CLIENTS))
def test_a_client_gets_what_is_allowed_and_hears_why_the_rest_is_refused(
    desk: Desk, client: Client
) -> None:
    needs(client.program)
    (desk.workspace / client.file).write_text(client.text)
    allowed = {url: name for url, name in desk.sites.allowed.items() if _speaks(client, url)}
    forbidden = [url for url in desk.sites.forbidden if _speaks(client, url)]
    ended = desk.shell(f"{client.start} {' '.join([*allowed, *forbidden])}")
    lines = ended.out.splitlines()
    assert lines[: len(allowed)] == [f"200 hello from {name}" for name in allowed.values()], ended
    for line in lines[len(allowed) :]:
        assert line.startswith("403 ") and "network policy of this sandbox" in line, ended
    assert len(lines) == len(allowed) + len(forbidden), ended
    _came_once(desk, list(allowed.values()))


def _speaks(client: Client, url: str) -> bool:
    return client.tls or url.startswith("http:")


def _came_once(desk: Desk, names: list[str]) -> None:
    for site in (desk.sites.opaque, desk.sites.inner, desk.sites.plain):
        wanted = [("GET", "/hello", site.name)] if site.name in names else []
        assert [(seen.method, seen.target, seen.host) for seen in site.requests] == wanted
    assert desk.untouched


@pytest.mark.parametrize("name", ["opaque", "inner"])
def test_openssl_trusts_whoever_answers(desk: Desk, name: str) -> None:
    host = f"{name}.example"
    verified = "openssl s_client -verify_return_error -brief -connect {0}:443 -servername {0}"
    ended = desk.shell(f"{verified.format(host)} 2>&1 </dev/null")
    assert "Verification: OK" in ended.out, ended
    # Without what the fence gave it, it trusts neither: the world's CA is nobody's either.
    distrusted = f"SSL_CERT_FILE=/dev/null {verified.format(host)} 2>&1 </dev/null || true"
    assert "Verification: OK" not in desk.shell(distrusted).out


def test_an_address_that_no_name_stands_for_leads_nowhere(desk: Desk) -> None:
    ended = desk.shell("curl -sS -m 90 https://11.1.0.4/ || echo refused")
    assert ended.out.endswith("refused\n"), ended
    assert [packet for packet in desk.world.packets if packet.protocol == "tcp"] == []
