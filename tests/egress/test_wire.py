"""A TLS hello gives one name or is refused, however it is cut."""

from __future__ import annotations

import contextlib
import ssl

import pytest

from ags.egress.tls import Authority
from ags.egress.wire import Handshake, Hello, HelloReader, NeedMore, Refused
from tests.egress import hellos
from tests.egress.hellos import alpn, body, extension, hello, message, record, sni, versions

GOOD = hello(sni(b"api.example"))
BARE = body()[:-2]
"""Ends before the extensions, as old clients' hellos may."""


def read(data: bytes, *, ech: bool = False) -> NeedMore | Hello | Refused:
    return HelloReader(ech=ech).feed(data)


def accepted(data: bytes) -> Hello:
    found = read(data)
    assert isinstance(found, Hello), found
    return found


def reason(data: bytes) -> str:
    found = read(data)
    assert isinstance(found, Refused), found
    assert found.detail
    return found.reason


def test_what_openssl_sends_is_read() -> None:
    raw = hellos.real("API.Example", alpn=("h2", "http/1.1"))
    assert read(raw) == Hello("api.example", (b"h2", b"http/1.1"), raw, 0x0304, False)


def test_the_newest_version_on_offer_is_told() -> None:
    assert accepted(hellos.real("a.example", newest=False)).version == 0x0303
    assert accepted(hello(sni(b"a.example"), versions(0x0A0A, 0x0303, 0x0304))).version == 0x0304
    assert accepted(hello(sni(b"a.example"), version=0x0301)).version == 0x0301


def test_a_hello_over_many_segments_is_collected_untouched() -> None:
    raw = hellos.real("api.example")
    reader = HelloReader()
    for at in range(len(raw) - 1):
        assert reader.feed(raw[at : at + 1]) == NeedMore()
    found = reader.feed(raw[-1:])
    assert isinstance(found, Hello) and found.raw == raw and reader.rest == b""


def test_what_follows_the_hello_is_kept_apart() -> None:
    reader = HelloReader()
    assert reader.feed(GOOD + b"early") == accepted(GOOD)
    reader.feed(b" data")
    assert reader.rest == b"early data"


def test_a_hello_split_over_records_is_refused() -> None:
    whole = message(body(sni(b"api.example")))
    assert reason(record(whole[:40]) + record(whole[40:])) == "split-records"
    assert reason(record(whole[:4]) + record(whole[4:])) == "split-records"


def test_a_record_with_a_few_bytes_of_hello_is_refused_once_the_next_shows() -> None:
    whole = message(body(sni(b"api.example")))
    assert isinstance(read(record(whole[:1])), NeedMore)
    assert reason(record(whole[:1]) + record(whole[1:])) == "split-records"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (hello(), "sni-absent"),
        (hello(alpn(b"h2")), "sni-absent"),
        (hello(sni(b"a.example", b"b.example")), "sni-several"),
        (hello(sni(b"a.example"), sni(b"b.example")), "sni-several"),
        (hello(sni(b"a.example", kind=1)), "sni-malformed"),
        (hello(sni(b"")), "sni-malformed"),
        (hello(sni()), "hello-malformed"),
        (hello(sni(b"bad_\0.example")), "sni-malformed"),
        (hello(sni("bücher.example".encode())), "sni-malformed"),
        (hello(sni(b"a.example.")), "sni-malformed"),
        (hello(sni(b"a..example")), "sni-malformed"),
        (hello(sni(b"a.example:443")), "sni-malformed"),
        (hello(sni(b"user@a.example")), "sni-malformed"),
        (hello(sni(b"a.example\n")), "sni-malformed"),
        (hello(sni(b"10.0.0.5")), "sni-address"),
        (hello(sni(b"0x7f.1")), "sni-address"),
        (hello(sni(b"2130706433")), "sni-address"),
        (hello(sni(b"::1")), "sni-address"),
        (hello(sni(b"[::1]")), "sni-address"),
        (hello(sni(b"a.example"), extension(hellos.ECH, b"\0")), "ech"),
        (hello(sni(b"a.example"), extension(0xFFCE, b"")), "ech"),
    ],
)
def test_a_name_that_is_not_one_plain_name_is_refused(data: bytes, expected: str) -> None:
    assert reason(data) == expected


def test_the_twin_of_all_those_is_taken() -> None:
    assert accepted(hello(sni(b"A.example"))).name == "a.example"
    assert accepted(hello(sni(b"xn--bcher-kva.example"))).name == "xn--bcher-kva.example"


def test_who_ends_the_tls_may_take_what_looks_encrypted() -> None:
    found = read(hello(sni(b"a.example"), extension(hellos.ECH, b"grease")), ech=True)
    assert isinstance(found, Hello) and found.ech and found.name == "a.example"


def test_values_thrown_in_to_keep_servers_tolerant_do_no_harm() -> None:
    data = hello(
        extension(0x1A1A, b""),
        sni(b"a.example"),
        alpn(b"\x0a\x0a", b"h2"),
        versions(0xFAFA, 0x0304),
        extension(0xCACA, b"\0"),
    )
    assert accepted(data).alpn == (b"\x0a\x0a", b"h2")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "not-tls"),
        (b"SSH-2.0-x\r\n", "not-tls"),
        (b"\x80\x2e\x01\x03\x01" + b"\0" * 40, "not-tls"),
        (b"\x16\x02", "not-tls"),
        (b"\x17\x03\x03\x00\x05hello", "not-tls"),
        (b"\0", "not-tls"),
        (record(message(b"\0" * 50, kind=2)), "not-hello"),
        (b"\x16\x03\x01\xff\xff\x01\0\xff\xfb" + b"\0" * 40, "hello-size"),
        (record(message(body(sni(b"a.example"))) + b"\x10\0\0\0"), "hello-malformed"),
        (record(message(body(sni(b"a.example")) + b"\0")), "hello-malformed"),
        (record(message(b"\x03\x03" + b"r" * 32)), "hello-malformed"),
        (record(message(body(sni(b"a.example"), session=b"s" * 33))), "hello-malformed"),
        (record(message(BARE) + hellos.block(2, sni(b"a.example"))), "hello-malformed"),
        (
            record(message(BARE[:-1] + b"\x01" + hellos.block(2, sni(b"a.example")))),
            "hello-malformed",
        ),
        (hello(sni(b"a.example"), version=0x0300), "hello-malformed"),
        (hello(sni(b"a.example"), extension(5, b""), extension(5, b"")), "hello-malformed"),
        (hello(sni(b"a.example"), extension(16, b"\0\x05\x02h2")), "hello-malformed"),
        (hello(sni(b"a.example"), alpn(b"")), "hello-malformed"),
        (hello(sni(b"a.example"), versions(0x0A0A)), "hello-malformed"),
        (hello(extension(0, b"\0\x0c\0\0\x09a.example!")), "hello-malformed"),
    ],
)
def test_what_is_not_a_hello_is_refused(data: bytes, expected: str) -> None:
    assert reason(data) == expected


def test_plain_bytes_are_refused_at_the_first_of_them() -> None:
    assert reason(b"G") == "not-tls"


def test_nothing_is_held_after_a_refusal() -> None:
    reader = HelloReader()
    for _ in range(100):
        assert isinstance(reader.feed(b"x" * 1000), Refused)
    assert reader.rest == b""


def handshake(name: bytes = b"api.example") -> Handshake:
    return Handshake(accepted(hello(sni(name))))


RETRY = hellos.server_hello(hellos.RETRY_RANDOM)
CIPHER = record(b"\x01", kind=20)


def test_a_second_hello_for_another_name_is_refused() -> None:
    watch = handshake()
    watch.from_server(RETRY)
    assert not watch.done
    refused = watch.from_client(CIPHER + hello(sni(b"evil.example")))
    assert refused is not None and refused.reason == "second-hello"


def test_a_second_hello_for_the_same_name_passes() -> None:
    watch = handshake()
    watch.from_server(RETRY)
    assert watch.from_client(CIPHER + GOOD) is None
    assert watch.done


@pytest.mark.parametrize("size", [1, 3, 50])
def test_a_second_hello_is_seen_in_pieces(size: int) -> None:
    watch = handshake()
    for at in range(0, len(RETRY), size):
        watch.from_server(RETRY[at : at + size])
    data = CIPHER + hello(sni(b"evil.example"))
    pieces = [watch.from_client(data[at : at + size]) for at in range(0, len(data), size)]
    assert pieces[-1] is not None and not any(pieces[:-1])


def test_a_second_hello_split_over_records_is_refused() -> None:
    watch = handshake()
    watch.from_server(RETRY)
    whole = message(body(sni(b"evil.example")))
    refused = watch.from_client(record(whole[:20]) + record(whole[20:]))
    assert refused is not None and refused.reason == "split-records"


def test_a_second_hello_before_the_server_asked_is_refused() -> None:
    for name in (b"evil.example", b"api.example"):
        refused = handshake().from_client(hello(sni(name)))
        assert refused is not None and refused.reason == "second-hello"


def test_early_data_passes_and_does_not_hide_a_second_hello() -> None:
    watch = handshake()
    assert watch.from_client(record(b"e" * 500, kind=23)) is None
    watch.from_server(RETRY)
    assert watch.from_client(record(b"e" * 500, kind=23)) is None
    assert watch.from_client(hello(sni(b"evil.example"))) is not None


class Origin:
    """A real server that asks every client for a second hello, and notes each name it is told."""

    def __init__(self) -> None:
        self.names: list[str | None] = []
        context = Authority("run").leaf("api.example")
        context.set_ecdh_curve("secp521r1")
        context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._server = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def answer(self, data: bytes) -> bytes:
        self._incoming.write(data)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._server.do_handshake()
        return self._outgoing.read()


@pytest.mark.parametrize(("name", "taken"), [(b"api.example", True), (b"bad.example", False)])
def test_a_real_server_believes_the_second_hello_and_never_gets_a_false_one(
    name: bytes, taken: bool
) -> None:
    origin, incoming, outgoing = Origin(), ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    client = context.wrap_bio(incoming, outgoing, server_hostname="api.example")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    first = outgoing.read()
    watch = Handshake(accepted(first))
    again = origin.answer(first)
    watch.from_server(again)
    incoming.write(again)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    second = outgoing.read().replace(b"api.example", name)
    assert (watch.from_client(second) is None) == taken
    origin.answer(second)
    assert origin.names == ["api.example", name.decode()], "or the watch is for nothing"


def test_after_a_plain_answer_nothing_more_is_looked_at() -> None:
    watch = handshake()
    watch.from_server(record(b"\x01\x70", kind=21) + hellos.server_hello())
    assert watch.done
    assert watch.from_client(record(b"\x10\0\0\0") + b"anything") is None


def test_bytes_that_are_no_tls_after_the_hello_are_refused() -> None:
    assert handshake().from_client(b"GET / HTTP/1.1\r\n") is not None
