"""Certificates as we write them, read by others: a library, and OpenSSL at its strictest."""

from __future__ import annotations

import ipaddress
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from ags.egress import certificate
from ags.egress.certificate import Term
from ags.egress.tls import Authority, Session

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
TERM = Term(NOW, NOW + timedelta(days=2))
CA_KEY, KEY = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))


def ca() -> x509.Certificate:
    return x509.load_der_x509_certificate(certificate.authority("ags run 1", CA_KEY, TERM))


def leaf(host: str) -> x509.Certificate:
    made = certificate.leaf(host, KEY, TERM, "ags run 1", CA_KEY)
    return x509.load_der_x509_certificate(made)


def common(name: x509.Name) -> str:
    (found,) = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found.value)


def criticality(found: x509.Certificate) -> dict[str, bool]:
    return {type(each.value).__name__: each.critical for each in found.extensions}


def usages(found: x509.Certificate) -> set[str]:
    value = found.extensions.get_extension_for_class(x509.KeyUsage).value
    known = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment")
    return {
        name
        for name in (*known, "key_agreement", "key_cert_sign", "crl_sign")
        if getattr(value, name)
    }


def test_the_ca_says_of_itself_what_it_may() -> None:
    found = ca()
    assert found.version is x509.Version.v3
    assert common(found.subject) == "ags run 1" and found.issuer == found.subject
    assert (found.not_valid_before_utc, found.not_valid_after_utc) == (TERM.begin, TERM.end)
    assert found.public_key() == CA_KEY.public_key()
    constraints = found.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert constraints.ca and constraints.path_length == 0
    assert usages(found) == {"key_cert_sign", "crl_sign"}
    found.verify_directly_issued_by(found)
    assert criticality(found) == {
        "SubjectKeyIdentifier": False,
        "BasicConstraints": True,
        "KeyUsage": True,
    }


def test_a_leaf_says_whom_it_is_for_and_who_vouches() -> None:
    found, issuer = leaf("api.example"), ca()
    found.verify_directly_issued_by(issuer)
    assert found.public_key() == KEY.public_key()
    assert common(found.subject) == "api.example" and found.issuer == issuer.subject
    assert usages(found) == {"digital_signature"}
    value = found.extensions.get_extension_for_class
    assert not value(x509.BasicConstraints).value.ca
    assert list(value(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = value(x509.SubjectAlternativeName).value
    assert names == x509.SubjectAlternativeName([x509.DNSName("api.example")])
    theirs = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert theirs == x509.SubjectKeyIdentifier.from_public_key(CA_KEY.public_key())
    assert value(x509.AuthorityKeyIdentifier).value.key_identifier == theirs.digest
    assert criticality(found) == {
        "SubjectKeyIdentifier": False,
        "BasicConstraints": True,
        "KeyUsage": True,
        "ExtendedKeyUsage": False,
        "SubjectAlternativeName": False,
        "AuthorityKeyIdentifier": False,
    }


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
def test_an_address_is_no_name(address: str) -> None:
    names = leaf(address).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address(address)]
    assert names.get_values_for_type(x509.DNSName) == []


@given(st.integers(0, 250))
def test_a_name_of_any_length_is_read_back(size: int) -> None:
    host = "x" * size + ".example"
    names = leaf(host).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [host]
    assert common(leaf(host).subject) in (host, "ags")


@pytest.mark.parametrize("year", [2026, 2049, 2050, 2051])
def test_a_time_is_read_back_in_either_form(year: int) -> None:
    end = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
    made = certificate.authority("ags", CA_KEY, Term(NOW, end))
    assert x509.load_der_x509_certificate(made).not_valid_after_utc == end


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 65535, 65536])
def test_a_length_is_written_as_short_as_it_can_be(size: int) -> None:
    made = certificate.encoded(certificate.OCTETS, bytes(size))
    first = made[1]
    if size < 128:
        assert first == size and len(made) == size + 2
    else:
        length = made[2 : 2 + (first & 0x7F)]
        assert length[0] != 0 and int.from_bytes(length, "big") == size


def test_serial_numbers_are_positive_short_enough_and_never_the_same() -> None:
    found = [ca().serial_number for _ in range(100)]
    assert len(set(found)) == 100
    assert all(0 < number < 1 << 159 for number in found)


@pytest.mark.parametrize("host", ["api.example", "192.0.2.7"])
def test_openssl_at_its_strictest_believes_it(host: str) -> None:
    authority = Authority("run")
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    client, server = Session(context, host), Session(authority.leaf(host))
    while not client.ready:
        server.receive(client.pending())
        client.receive(server.pending())


def test_a_run_does_not_load_what_it_does_not_need() -> None:
    """The library's own certificates: two megabytes, in every supervisor."""
    script = "import sys, ags.network; print('cryptography.x509' in sys.modules)"
    done = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
