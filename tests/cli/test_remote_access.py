"""Which servers are the person's own, and so get their token."""

from __future__ import annotations

from pathlib import Path

import pytest

from ags.cli.remote import access
from ags.server.serve import Serving, check, listening, local_url, seats


def behind_a_proxy(host: str) -> Serving:
    public = "https://ags.example.org"
    return Serving(ports={"web": 0}, host=host, behind_proxy=True, public_url=public)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("::1", "http://[::1]:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("192.0.2.7", ""),
        ("2001:db8::7", ""),
    ],
)
def test_a_server_is_on_loopback_if_it_listens_there(host: str, local: str) -> None:
    """Else somebody else may have the port of that number."""
    serving = behind_a_proxy(host)
    assert local_url(serving, check(serving), 8000) == local


def test_a_server_is_known_by_its_public_address_and_on_loopback(tmp_path: Path) -> None:
    assert access.own(tmp_path) == set()
    serving = behind_a_proxy("127.0.0.1")
    with seats(tmp_path, ["web"]) as taken, listening(tmp_path, serving, taken) as sockets:
        port = sockets["web"].getsockname()[1]
        known = {"https://ags.example.org", f"http://127.0.0.1:{port}"}
        assert {str(each) for each in access.own(tmp_path)} == known
    assert access.own(tmp_path) == set()
