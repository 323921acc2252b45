"""Hosts from anywhere: one canonical form or BadHost, and never another exception."""

from __future__ import annotations

import contextlib
import ipaddress
import socket

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ags.egress.hosts import BadHost, address_of, canonical_host, is_public_name, special
from ags.egress.model import Request
from ags.egress.policy import Layer, Rule, decide, merge

numbers = st.integers(0, 1 << 33)
spelled_numbers = st.one_of(
    numbers.map(str), numbers.map(hex), numbers.map(lambda n: f"0{n:o}"), st.sampled_from(("", "x"))
)
hostish = st.one_of(
    st.text(max_size=80),
    st.text("abcXYZ019-_.:[]%@/\\ \x00üßςK。１", max_size=40),
    st.lists(spelled_numbers, min_size=1, max_size=5).map(".".join),
    st.ip_addresses().map(str),
    st.ip_addresses(v=6).map(lambda address: address.exploded.upper()),
)


def canonical(text: str) -> str | None:
    try:
        return canonical_host(text)
    except BadHost:
        return None


@settings(max_examples=1000)
@given(hostish)
@example("\ud800")
@example("xn--\ufffd.example")
def test_a_host_has_one_form_that_is_its_own_form_or_is_refused(text: str) -> None:
    host = canonical(text)
    if host is None:
        return
    assert canonical(host) == host
    assert canonical(text.upper().lower()) in (host, None)
    assert host.isascii() and host.isprintable() and host == host.lower()
    assert not set(host) & set(" %@/\\[]*?#")
    assert is_public_name(host) in (True, False)


@settings(max_examples=1000)
@given(st.lists(spelled_numbers, min_size=1, max_size=5).map(".".join))
def test_whatever_the_c_library_takes_for_an_address_is_that_address(text: str) -> None:
    with contextlib.suppress(OSError):
        meant = socket.inet_ntoa(socket.inet_aton(text))
        assert canonical(text) == meant
    found = canonical(text)
    if found is not None and address_of(found) is not None:
        assert socket.inet_ntoa(socket.inet_aton(text.removesuffix("."))) == found


@given(st.text("0123456789abcdefABCDEF:.", max_size=45).filter(lambda text: ":" in text))
def test_whatever_the_c_library_takes_for_ipv6_is_that_address(text: str) -> None:
    try:
        packed = socket.inet_pton(socket.AF_INET6, text)
    except OSError:
        assert canonical(text) is None
        return
    address = ipaddress.IPv6Address(packed)
    assert canonical(text) == str(address.ipv4_mapped or address)
    assert canonical(f"[{text}]") == canonical(text)


@settings(max_examples=2000)
@given(st.ip_addresses())
def test_what_python_calls_not_global_is_special(address: ipaddress.IPv4Address) -> None:
    globals_within = ("192.0.0.9", "192.0.0.10")
    if not address.is_global and str(address) not in globals_within:
        assert special(address) is not None
    if special(address) is None:
        assert address.is_global and not address.is_multicast and not address.is_reserved


@given(hostish, st.integers(-1, 70000))
def test_only_the_listed_name_is_ever_allowed(text: str, port: int) -> None:
    policy = merge([Layer("user", allow=(Rule("api.example"), Rule("*.below.example")))])
    decision = decide(policy, Request(text, port, "tls"))
    assert not decision.allowed


@given(st.lists(st.text("abc-", min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_name_is_allowed_exactly_if_it_is_below_the_suffix(labels: list[str]) -> None:
    host = canonical(".".join([*labels, "below.example"]))
    policy = merge([Layer("user", allow=(Rule("*.below.example"),))])
    if host is not None:
        assert decide(policy, Request(host, 443, "tls")).allowed
        assert not decide(policy, Request(host.replace(".below", "xbelow"), 443, "tls")).allowed
        assert not decide(policy, Request(f"{host}.evil.example", 443, "tls")).allowed
