"""Whatever comes as a query: never an exception, never a reply that is not one."""

from __future__ import annotations

import socket
import struct

from hypothesis import given
from hypothesis import strategies as st

from ags.egress.dns import BadFrame, answer, framed, unframed
from ags.egress.hosts import canonical_host, is_public_name
from ags.egress.pool import NETWORK, Pool
from tests.egress.test_dns import A, query, read

LABELS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=63), st.from_regex(rb"[A-Za-z0-9-_]{1,9}", fullmatch=True)
    ),
    max_size=6,
)
PLAIN = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_", min_size=1, max_size=12)
NAMES = st.lists(PLAIN, min_size=1, max_size=5).map(".".join)
QUERIES = st.builds(query, NAMES, st.integers(0, 65535), st.integers(0, 3))


def wire(labels: list[bytes]) -> bytes:
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


@given(st.binary(max_size=600))
def test_any_bytes_get_silence_or_a_whole_reply(sent: bytes) -> None:
    reply = answer(sent, Pool())
    if reply is None:
        assert len(sent) < 12 or sent[2] & 0x80
    else:
        assert read(reply).id == struct.unpack_from("!H", sent)[0]
        assert reply[2] & 0x80
        assert len(reply) <= 512


@given(QUERIES, st.data())
def test_a_damaged_query_gets_silence_or_a_whole_reply(sent: bytes, data: st.DataObject) -> None:
    damaged = bytearray(sent)
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    reply = answer(cut, Pool())
    assert reply is None or read(reply)


@given(LABELS)
def test_an_address_is_made_only_for_exactly_the_name_that_was_asked(labels: list[bytes]) -> None:
    pool = Pool()
    reply = answer(query(wire(labels)), pool)
    if reply is None or not (address := read(reply).address):
        assert pool.count == 0
        return
    name = pool.name(address)
    assert name is not None and is_public_name(name) and canonical_host(name) == name
    assert [label.encode() for label in name.split(".")] == [label.lower() for label in labels]
    assert int.from_bytes(socket.inet_aton(address), "big") in range(
        int(NETWORK[256]), int(NETWORK[-1])
    )


@given(NAMES)
def test_a_public_name_gets_an_address_and_no_other_does(name: str) -> None:
    reply = read(answer(query(name, A), Pool()))
    try:
        public = is_public_name(canonical_host(name))
    except Exception:
        public = False
    assert bool(reply.address) == public
    assert public or reply.code == 3


@given(st.lists(NAMES, max_size=40), st.integers(1, 5))
def test_the_pool_never_gives_one_address_to_two_names(names: list[str], size: int) -> None:
    pool = Pool(size)
    for name in names:
        address = pool.address(name)
        assert address is not None
        assert pool.name(address) == name
        assert pool.count <= size
    held = [pool.address(name) for name in list(pool._addresses)]
    assert len(set(held)) == len(held)


@given(st.lists(QUERIES, max_size=5), st.lists(st.integers(0, 200), max_size=5))
def test_a_stream_gives_the_same_messages_wherever_it_is_cut(
    messages: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(map(framed, messages))
    found: list[bytes] = []
    rest, start = b"", 0
    for end in (*sorted(cuts), len(stream)):
        whole, rest = unframed(rest + stream[start:end])
        found += whole
        start = max(start, end)
    assert (found, rest) == (messages, b"")


@given(st.binary(max_size=300))
def test_any_stream_is_messages_or_an_error(stream: bytes) -> None:
    try:
        messages, rest = unframed(stream)
    except BadFrame:
        return
    assert b"".join(map(framed, messages)) + rest == stream
