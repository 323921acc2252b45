"""One spelling for a host, or a refusal; and which addresses are not the open internet."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from ags.egress.hosts import BadHost, address_of, canonical_host, is_public_name, special


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("api.example", "api.example"),
        ("API.Example", "api.example"),
        ("api.example.", "api.example"),
        ("localhost", "localhost"),
        ("my_bucket.example", "my_bucket.example"),
        ("_acme.example", "_acme.example"),
        ("a--b.example", "a--b.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.Example.", "xn--bcher-kva.example"),
        ("пример.example", "xn--e1afmkfd.example"),
        ("аpi.example", "xn--pi-6kc.example"),
        ("日本.example", "xn--wgv71a.example"),
        ("1.example", "1.example"),
        ("1.2.3.4.example", "1.2.3.4.example"),
        ("0xa.example", "0xa.example"),
        ("0xg", "0xg"),
        ("1e3", "1e3"),
        (".".join(["a" * 63] * 3 + ["b" * 61]), ".".join(["a" * 63] * 3 + ["b" * 61])),
    ],
)
def test_a_name_has_one_spelling(written: str, canonical: str) -> None:
    assert canonical_host(written) == canonical
    assert canonical_host(canonical) == canonical


@pytest.mark.parametrize(
    "written",
    [
        "", ".", "..", "a..b", ".a.example", "a.example..", " a.example",
        "a.example ", "a b.example",
        "a.example\n", "a\r\n.example", "a\x00.example", "a\x7f.example", "a\x85.example",
        "a%2eexample", "a%00.example", "user@a.example", "user:pass@a.example", "a.example:443",
        "a.example:", ":443", "a.example/", "a.example/x", "a.example\\", "a.example?x",
        "a.example#x",
        "*.example", "a,b.example", "a;b.example", "-a.example", "a-.example", "a.-b.example", "-",
        "[a.example]", "[", "]", "[]", "[[::1]]", "a'b.example", "ä\x00.example", "\ud800.example",
        "a" * 64 + ".example", ".".join(["a" * 63] * 4), "x" * 100_000, "ü" * 64 + ".example",
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused_in_one_short_line(written: str) -> None:
    with pytest.raises(BadHost) as caught:
        canonical_host(written)
    assert str(caught.value).isprintable()
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "written",
    [
        "straße.example",  # two readings: strasse, or a name of its own
        "ελλάς.example",
        "a\u200db.example",
        "a\u00adb.example",
        "a\u3002example",  # other dots
        "a\uff0eexample",
        "ａｐｉ.example",  # full width
        "ⓐpi.example",
        "\u212aelvin.example",  # a Kelvin sign, which lower-cases to k
        "ﬁle.example",
        "１２７.0.0.1",
        "a.example\u2044x",
        "a\u2100.example",
        "☃.example",
        "xn--bücher.example",
        "u\u0308.example",  # ü as two characters
        "\u202eelpmaxe.example",
    ],
)
def test_letters_with_more_than_one_reading_are_refused(written: str) -> None:
    with pytest.raises(BadHost):
        canonical_host(written)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0x7f.0.0x0.1", "127.0.0.1"),
        ("0000000000177.0.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("10.65535", "10.0.255.255"),
        ("4294967295", "255.255.255.255"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::0:1", "2001:db8::1"),
        ("[2001:db8:0:0:1:0:0:1]", "2001:db8::1:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("[::FFFF:a00:1]", "10.0.0.1"),
        ("::10.0.0.1", "::a00:1"),
    ],
)
def test_an_address_has_one_spelling_however_it_is_written(written: str, canonical: str) -> None:
    assert canonical_host(written) == canonical
    assert canonical_host(canonical) == canonical
    assert str(address_of(canonical)) == canonical


@pytest.mark.parametrize(
    "written",
    [
        "256.0.0.1", "1.2.3.256", "1.2.65536", "1.16777216", "4294967296", "1.2.3.4.5", "1..2",
        "08",
        "1.2.3.09", "0x", "1.0x", "a.1", "a.example.0x7f", "1.2.3.-4",
        "fe80::1%eth0", "fe80::1%25eth0", "[fe80::1%1]", "::1%lo", "1::2::3", ":::", "12345::",
        "::1.2.3", "::ffff:010.0.0.1", "[127.0.0.1]", "[::1]:80", "::1]", "[::1", "::1 ", "::\n1",
        "9" * 5000, "0x" + "f" * 900,
    ],
)  # fmt: skip
def test_what_ends_in_a_number_is_an_address_or_nothing(written: str) -> None:
    with pytest.raises(BadHost):
        canonical_host(written)


@pytest.mark.parametrize(
    "written", ["127.1", "0x7f.1", "0177.0.0.1", "2130706433", "010.8.8", "1.2.3.4", "0x0", "00"]
)
def test_the_c_library_reads_the_same_address(written: str) -> None:
    assert socket.inet_ntoa(socket.inet_aton(written)) == canonical_host(written)


@pytest.mark.parametrize(
    "name", ["api.example", "a.b.c.example", "xn--bcher-kva.example", "x.corp"]
)
def test_a_name_with_a_dot_can_be_public(name: str) -> None:
    assert is_public_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "localhost", "printer", "a.localhost", "nas.local", "metadata.google.internal", "x.invalid",
        "host.containers.internal", "1.0.0.127.in-addr.arpa", "x.onion", "127.0.0.1", "2001:db8::1",
    ],
)  # fmt: skip
def test_names_of_the_machine_or_its_neighbours_and_addresses_are_not_public(name: str) -> None:
    assert not is_public_name(name)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("0.0.0.0", "this network"),
        ("0.1.2.3", "this network"),
        ("10.0.0.5", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "carrier"),
        ("100.127.255.255", "carrier"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("169.254.169.254", "metadata"),
        ("168.63.129.16", "metadata"),
        ("100.100.100.200", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("169.254.1.1", "link-local"),
        ("192.0.0.8", "protocol assignments"),
        ("192.0.2.1", "documentation"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("192.88.99.1", "6to4"),
        ("198.18.0.1", "benchmark"),
        ("198.19.255.255", "benchmark"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.250", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::ffff:8.8.8.8", "mapped"),
        ("::ffff:0:8.8.8.8", "translated"),
        ("::8.8.8.8", "compatible"),
        ("64:ff9b::a00:1", "NAT64"),
        ("64:ff9b:1::1", "NAT64"),
        ("100::1", "discard"),
        ("2001::1", "Teredo"),
        ("2001:2::1", "benchmark"),
        ("2001:10::1", "ORCHID"),
        ("2001:20::1", "ORCHID"),
        ("2001:1::1", "protocol assignments"),
        ("2001:db8::1", "documentation"),
        ("3fff::1", "documentation"),
        ("2002:a00:1::1", "6to4"),
        ("3ffe::1", "6bone"),
        ("5f00::1", "segment routing"),
        ("fc00::1", "unique local"),
        ("fdff::1", "unique local"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "zone"),
        ("2606:4700::1%1", "zone"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("1::1", "reserved"),
        ("4000::1", "reserved"),
        ("e000::1", "reserved"),
    ],
)
def test_every_special_range_has_a_name(address: str, name: str) -> None:
    assert special(address) == name
    assert special(ipaddress.ip_address(address)) == name


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
        "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255",
        "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
        "223.255.255.255", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00::1",
        "2003::1", "3ffd::1", "2620:fe::fe",
    ],
)  # fmt: skip
def test_an_address_of_the_open_internet_is_not_special(address: str) -> None:
    assert special(address) is None


@pytest.mark.parametrize("text", ["", "a.example", "127.1", "1.2.3", "::g", "[::1]"])
def test_what_is_no_address_cannot_be_judged_as_one(text: str) -> None:
    with pytest.raises(BadHost):
        special(text)
