"""Whatever bytes come from inside: never a crash, and one meaning however they are cut."""

from __future__ import annotations

import base64
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ags.egress.hosts import BadHost, canonical_host
from ags.egress.http import HeadReader, RequestHead, refusal
from ags.egress.inject import (
    Injection,
    Misused,
    Redactor,
    Scanner,
    Swapped,
    echoes,
    placeholder,
    swap,
)
from ags.egress.model import Decision, Request
from ags.egress.socks import Connect, ProxyReader, Say
from ags.egress.wire import Hello, HelloReader, NeedMore, Refused
from tests.egress import hellos
from tests.property import fuzz_egress

KEY = b"k" * 32
cuts = st.lists(st.integers(0, 400), max_size=6)
labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
names = st.builds(lambda *parts: ".".join((*parts, "example")), labels, labels)
printable = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)


def pieces(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in at), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@pytest.mark.parametrize("target", fuzz_egress.TARGETS)
def test_the_fuzz_loop_finds_nothing(target: str) -> None:
    taken = fuzz_egress.fuzz(target)
    assert 0 < taken < fuzz_egress.ROUNDS, "it must see both sides of every judgement"


def test_the_fuzz_loop_is_the_same_for_the_same_seed() -> None:
    assert fuzz_egress.fuzz("head", 50, 3) == fuzz_egress.fuzz("head", 50, 3)


@given(st.binary(max_size=400), cuts)
def test_any_bytes_are_a_hello_or_not_whole_and_in_pieces(data: bytes, at: list[int]) -> None:
    for start in (data, b"\x16\x03\x01" + data, hellos.record(hellos.message(data))):
        parts = HelloReader()
        found = [parts.feed(piece) for piece in pieces(start, at)][-1]
        assert found == HelloReader().feed(start)


@given(names, st.lists(st.binary(min_size=1, max_size=20), max_size=4), cuts)
def test_a_hello_that_is_built_is_read_back(
    name: str, protocols: list[bytes], at: list[int]
) -> None:
    offered = [hellos.alpn(*protocols)] if protocols else []
    raw = hellos.hello(*offered, hellos.sni(name.encode()))
    reader = HelloReader()
    found = [reader.feed(piece) for piece in pieces(raw, at)][-1]
    try:
        assert canonical_host(name) == name
    except BadHost:
        assert isinstance(found, Refused)
        return
    assert found == Hello(name, tuple(protocols), raw, 0x0303, False)
    assert fuzz_egress.seen_by_openssl(raw) in (None, name)


@given(st.binary(max_size=60))
def test_a_server_name_of_any_bytes_is_the_one_openssl_sees_or_refused(name: bytes) -> None:
    found = HelloReader().feed(hellos.hello(hellos.sni(name)))
    assert isinstance(found, Hello | Refused)
    if isinstance(found, Hello):
        assert found.name.encode() == name.lower()


@given(st.binary(max_size=300), cuts)
@example(b" / HTTP/1.1\r\nHost: a\r\n\r\n", [3])
def test_any_bytes_are_a_head_or_not_whole_and_in_pieces(data: bytes, at: list[int]) -> None:
    for start in (
        data,
        b"GET" + data,
        b"GET / HTTP/1.1\r\nHost: a.example\r\n" + data + b"\r\n\r\n",
    ):
        parts = HeadReader()
        found = [parts.feed(piece) for piece in pieces(start, at)][-1]
        assert found == HeadReader().feed(start)


@given(
    st.sampled_from(["GET", "POST", "PROPFIND"]),
    printable.filter(lambda text: "#" not in text),
    st.lists(st.tuples(st.from_regex(r"x-[a-z]{1,8}", fullmatch=True), printable), max_size=5),
)
def test_a_head_that_is_built_is_read_back(
    method: str, path: str, headers: list[tuple[str, str]]
) -> None:
    lines = [f"{method} /{path} HTTP/1.1", "Host: a.example"]
    lines += [f"{name}: {value}" for name, value in headers]
    found = HeadReader().feed("\r\n".join([*lines, "", ""]).encode())
    assert isinstance(found, RequestHead)
    assert (found.method, found.target) == (method, f"/{path}")
    assert found.path + found.query == f"/{path}"
    assert found.headers[1:] == tuple((n.encode(), v.encode()) for n, v in headers)


@given(st.binary(max_size=80))
def test_a_host_header_of_any_bytes_is_one_canonical_host_or_refused(host: bytes) -> None:
    found = HeadReader().feed(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert not isinstance(found, NeedMore)
    if isinstance(found, RequestHead):
        assert canonical_host(found.host) == found.host
        assert found.port is None or 0 < found.port < 65536


@given(st.binary(max_size=300), cuts)
def test_any_bytes_to_the_proxy_are_a_wish_or_not(data: bytes, at: list[int]) -> None:
    for start in (data, b"\x05\x01\0" + data, b"\x05\x01\0\x05\x01\0" + data):
        assert fuzz_egress.fuzz_proxy(start, lambda whole: pieces(whole, at)) in (True, False)


@given(names, st.integers(1, 65535))
def test_a_socks_request_that_is_built_is_read_back(name: str, port: int) -> None:
    reader = ProxyReader()
    assert reader.feed(b"\x05\x01\0") == Say(b"\x05\0")
    sized = bytes([len(name)]) + name.encode()
    found = reader.feed(b"\x05\x01\0\x03" + sized + port.to_bytes(2))
    assert not isinstance(found, Connect) or found == Connect(name, port, "socks")


@given(st.text(max_size=400), st.text(max_size=20), st.text(max_size=20))
def test_any_secret_gets_a_placeholder_that_is_found_and_is_not_it(
    secret: str, secret_id: str, client: str
) -> None:
    made = placeholder(secret_id, secret, client=client, key=KEY)
    assert made == placeholder(secret_id, secret, client=client, key=KEY)
    assert made.text != secret and made.own in made.text and len(made.own) >= 16
    assert Scanner([made]).look(f"<{made.text}>".encode()) == secret_id
    assert Scanner([made]).look(base64.b64encode(made.text.encode())) == secret_id


API = Injection("key", "api.example", 443, "tls", "x-api-key", "{}")


@given(
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=6, max_size=120),
    st.sampled_from(["x-api-key", "x-other", "cookie"]),
    st.sampled_from(["api.example", "b.example"]),
    st.sampled_from([443, 444]),
    st.sampled_from(["", "Bearer ", "x"]),
)
def test_the_secret_goes_to_its_own_place_only(
    secret: str, name: str, host: str, port: int, before: str
) -> None:
    stands = placeholder("key", secret, client="c", key=KEY)
    given_headers = ((name.encode(), f"{before}{stands.text}".encode()),)
    request = Request(host, port, "tls")
    found = swap(given_headers, "/", request, (API,), {"key": stands}, {"key": secret}.get)
    if (name, host, port, before) == ("x-api-key", "api.example", 443, ""):
        assert isinstance(found, Swapped) and found.headers[0][1] == secret.encode()
        assert secret.encode() in found.covered
    else:
        assert isinstance(found, Misused) and found.secret_id == "key"


@given(
    st.lists(st.binary(min_size=1, max_size=8), max_size=4),
    st.lists(st.binary(max_size=20), max_size=8),
)
def test_no_needle_passes_a_redactor(needles: list[bytes], data: list[bytes]) -> None:
    text = b"".join(itertools.chain(*itertools.zip_longest(data, needles, fillvalue=b"")))
    redactor = Redactor(needles)
    whole = Redactor(needles).whole(text)
    shown = b"".join([*(redactor.feed(text[at : at + 3]) for at in range(0, len(text), 3))])
    shown += redactor.end()
    assert shown == whole and len(shown) == len(text)
    assert not any(needle in shown for needle in needles if b"*" not in needle)


@given(st.text(min_size=6, max_size=60), st.binary(max_size=10), st.binary(max_size=10))
def test_every_echo_of_a_secret_is_covered(secret: str, before: bytes, after: bytes) -> None:
    text = before + secret.encode("utf-8", "surrogatepass") + after
    if secret.encode("utf-8", "replace") == secret.encode("utf-8", "surrogatepass"):
        assert secret.encode() not in Redactor(echoes(secret)).whole(text) or "*" in secret


@given(st.text(max_size=50), st.text(max_size=50), st.text(max_size=50))
def test_a_refusal_is_a_whole_response_whatever_it_speaks_of(
    path: str, rule: str, hint: str
) -> None:
    decision = Decision(False, "denied", rule, "user")
    for text in (True, False):
        data = refusal(Request("a.example", 80, "http", "GET", path), decision, hint, text=text)
        head, _, body = data.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}\r\n".encode() in head
