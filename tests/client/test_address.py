"""Where a token may go."""

from __future__ import annotations

import pytest

from ags.client import address
from ags.client.address import Address
from ags.errors import Unfit


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://127.0.0.1:8080", Address("http", "127.0.0.1", 8080)),
        ("http://127.0.0.1:8080/", Address("http", "127.0.0.1", 8080)),
        ("HTTP://LOCALHOST:8080", Address("http", "127.0.0.1", 8080)),
        ("http://127.8.8.8", Address("http", "127.8.8.8", 80)),
        ("http://[::1]:8080", Address("http", "::1", 8080)),
        ("https://ags.example.org", Address("https", "ags.example.org", 443)),
        (
            "https://ags.example.org:8443/team/ags/",
            Address("https", "ags.example.org", 8443, "/team/ags"),
        ),
        ("https://localhost:8443", Address("https", "localhost", 8443)),
        ("https://192.0.2.7", Address("https", "192.0.2.7", 443)),
    ],
)
def test_addresses_of_servers_are_taken(url: str, found: Address) -> None:
    assert address.parse(url) == found


@pytest.mark.parametrize(
    "url",
    [
        "http://ags.example.org",
        "http://192.0.2.7:8080",
        "http://0.0.0.0:8080",
        "http://10.0.0.1",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org",
        "http://x.localhost",
        "http://127.1:8080",
        "http://2130706433",
        "http://0x7f000001",
        "http://[::]:8080",
        "http://[::ffff:127.0.0.1]",
        "http://[fe80::1]",
    ],
)
def test_over_http_only_this_machine_is_spoken_to(url: str) -> None:
    with pytest.raises(Unfit, match="could read the token") as refused:
        address.parse(url)
    assert "https://" in refused.value.hint and "ssh -L" in refused.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8080",
        "ftp://127.0.0.1",
        "unix:///run/ags.sock",
        "http://",
        "http://127.0.0.1:0",
        "http://127.0.0.1:65536",
        "http://127.0.0.1:8080/?token=s3cret",
        "http://127.0.0.1:8080/login#s3cret",
        "http://ann:s3cret@127.0.0.1:8080",
        "https://s3cret@ags.example.org",
        "https://ags.example.org/../s3cret",
        "https://ags.example.org//s3cret",
        "https://ags.example.org\\@s3cret",
        "https://ags.example.org\r\nX: s3cret",
        "https://ags.example.org\n",
        "https://-option",
        "https://exämple.org",
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(Unfit, match="not the address") as refused:
        address.parse(url)
    assert "s3cret" not in f"{refused.value!r} {refused.value} {refused.value.hint}"


def test_an_address_is_written_as_it_is_dialled() -> None:
    assert str(address.parse("http://localhost:80")) == "http://127.0.0.1"
    assert str(address.parse("http://[::1]:8080/")) == "http://[::1]:8080"
    assert address.parse("https://[2001:db8::1]:8443").authority == "[2001:db8::1]:8443"


def test_only_this_machines_addresses_are_loopback() -> None:
    assert address.parse("https://localhost").is_loopback
    assert address.parse("http://[::1]").is_loopback
    assert not address.parse("https://ags.example.org").is_loopback
