"""What a resolver inside is told, byte by byte."""

from __future__ import annotations

import asyncio
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from ags.backends.base import Streams
from ags.egress import dns
from ags.egress.dns import BadFrame, Code, answer, framed, unframed
from ags.egress.pool import FIRST, Pool
from ags.kernel.netns import Opened, Wanted, open_sockets
from ags.model import Text
from tests.box import Box

A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV, OPT, HTTPS, AXFR, ANY = (
    1, 2, 5, 6, 12, 15, 16, 28, 33, 41, 65, 252, 255,
)  # fmt: skip
IN, CHAOS = 1, 3


def name(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return b"".join(bytes((len(label),)) + label for label in raw.split(b".") if label) + b"\0"


def query(
    asked: str | bytes,
    type_: int = A,
    class_: int = IN,
    *,
    flags: int = 0x0100,
    counts: tuple[int, int, int, int] = (1, 0, 0, 0),
    tail: bytes = b"",
) -> bytes:
    wire = name(asked) if isinstance(asked, str) else asked
    return (
        struct.pack("!6H", 0xBEEF, flags, *counts) + wire + struct.pack("!HH", type_, class_) + tail
    )


def edns(version: int = 0, options: bytes = b"", at: bytes = b"\0", type_: int = OPT) -> bytes:
    return at + struct.pack("!HHBBHH", type_, 1232, 0, version, 0, len(options)) + options


@dataclass(frozen=True)
class Record:
    type: int
    ttl: int
    content: bytes


@dataclass(frozen=True)
class Reply:
    """Read back by a reader of its own."""

    id: int
    flags: int
    code: int
    question: bytes
    answers: tuple[Record, ...]
    authorities: tuple[Record, ...]
    additional: tuple[Record, ...]

    @property
    def address(self) -> str | None:
        return ".".join(map(str, self.answers[0].content)) if self.answers else None


def read(reply: bytes | None) -> Reply:
    assert reply is not None
    id_, flags, questions, *counts = struct.unpack_from("!6H", reply)
    at = end = 12
    if questions:
        while reply[end]:
            end += 1 + reply[end]
        end += 5
    question, at = reply[12:end], end
    sections: list[tuple[Record, ...]] = []
    for count in counts:
        records = []
        for _ in range(count):
            at += 2 if reply[at] == 0xC0 else 1
            type_, _, ttl, size = struct.unpack_from("!HHIH", reply, at)
            records.append(Record(type_, ttl, reply[at + 10 : at + 10 + size]))
            at += 10 + size
        sections.append(tuple(records))
    assert at == len(reply)
    return Reply(id_, flags, flags & 0xF, question, *sections)


def ask(asked: bytes, pool: Pool | None = None, extra: tuple[str, ...] = ()) -> Reply:
    return read(answer(asked, pool or Pool(), extra))


def test_a_public_name_gets_a_made_address_with_a_short_life() -> None:
    pool = Pool()
    reply = ask(query("api.example"), pool)
    assert (reply.id, reply.code) == (0xBEEF, Code.FINE)
    assert reply.flags & 0x8180 == 0x8180
    assert [record.type for record in reply.answers] == [A]
    assert 0 < reply.answers[0].ttl <= 60
    assert reply.address and pool.name(reply.address) == "api.example"
    assert (reply.authorities, reply.additional) == ((), ())


def test_every_spelling_of_a_name_is_the_same_name_and_comes_back_as_it_was_asked() -> None:
    pool = Pool()
    mixed = ask(query("aPi.ExAmPlE"), pool)
    assert mixed.question[: len(name("aPi.ExAmPlE"))] == name("aPi.ExAmPlE")
    assert mixed.address == ask(query("api.example"), pool).address
    assert pool.count == 1


@pytest.mark.parametrize("type_", [NS, CNAME, SOA, MX, TXT, AAAA, SRV, HTTPS, AXFR, ANY, 0, 65535])
def test_other_types_of_a_public_name_are_empty_and_take_no_address(type_: int) -> None:
    pool = Pool()
    reply = ask(query("api.example", type_), pool)
    assert (reply.code, reply.answers) == (Code.FINE, ())
    assert [record.type for record in reply.authorities] == [SOA]
    assert pool.count == 0


@pytest.mark.parametrize(
    "asked",
    [
        "localhost", "app.localhost", "printer", "printer.local", "metadata.google.internal",
        "host.containers.internal", "home.arpa", "4.3.2.1.in-addr.arpa", "x.onion", "x.invalid",
        "1.2.3.4", "0x7f.1", "127.1", "", "-rf.example", "sp ace.example", "star*.example",
    ],
)  # fmt: skip
@pytest.mark.parametrize("type_", [A, AAAA, PTR])
def test_a_name_that_is_not_of_the_public_dns_does_not_exist(asked: str, type_: int) -> None:
    pool = Pool()
    reply = ask(query(asked, type_), pool)
    assert (reply.code, reply.answers) == (Code.NO_SUCH_NAME, ())
    assert [record.type for record in reply.authorities] == [SOA]
    assert pool.count == 0


@pytest.mark.parametrize(
    "wire",
    [
        b"\x0bapi.example\0",
        b"\x03api\x0bevil.exampl\0",
        b"\x05api\0x\x07example\0",
        b"\x03\xc3\xa4x\x07example\0",
        b"\x04a\r\nb\x07example\0",
        b"\x03a/b\x07example\0",
        b"\x03a%b\x07example\0",
        b"\x03a:b\x07example\0",
    ],
)
def test_bytes_that_no_name_has_are_no_name(wire: bytes) -> None:
    """A dot within a label, above all: joined, it would be another name."""
    pool = Pool()
    assert ask(query(wire), pool).code == Code.NO_SUCH_NAME
    assert pool.count == 0


def test_a_name_that_is_known_although_not_public_gets_an_address() -> None:
    pool = Pool()
    known = ("host.containers.internal",)
    assert ask(query("Host.Containers.Internal"), pool, known).address
    assert ask(query("host.containers.internal", AAAA), pool, known).code == Code.FINE
    assert ask(query("other.containers.internal"), pool, known).code == Code.NO_SUCH_NAME


def test_with_no_address_left_the_resolver_is_told_of_a_failure() -> None:
    pool = Pool(1, FIRST, FIRST + 1)
    first = ask(query("one.example"), pool).address
    assert first
    with pool.pinned(first):
        reply = ask(query("two.example"), pool)
        assert (reply.code, reply.answers, reply.authorities) == (Code.FAILED, (), ())
    assert ask(query("two.example"), pool).address


def test_an_extended_query_gets_an_extended_reply() -> None:
    cookie = struct.pack("!HH8s", 10, 8, b"12345678")
    for options in (b"", cookie):
        asked = query("api.example", counts=(1, 0, 0, 1), tail=edns(options=options))
        reply = ask(asked)
        assert reply.address
        assert [record.type for record in reply.additional] == [OPT]
    assert ask(query("api.example")).additional == ()


def test_an_extension_of_another_version_is_refused_as_such() -> None:
    reply = ask(query("api.example", counts=(1, 0, 0, 1), tail=edns(version=1)))
    assert reply.answers == ()
    assert (reply.additional[0].ttl >> 24) << 4 | reply.code == Code.BAD_VERSION


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(query("api.example", counts=(0, 0, 0, 0)), id="no question"),
        pytest.param(query("a.example", counts=(2, 0, 0, 0)), id="a question short"),
        pytest.param(
            query("a.example", counts=(2, 0, 0, 0), tail=name("b.example") + b"\0\1\0\1"),
            id="two questions",
        ),
        pytest.param(query("a.example", counts=(1, 1, 0, 0)), id="an answer"),
        pytest.param(query("a.example", counts=(1, 0, 1, 0)), id="an authority"),
        pytest.param(query("a.example", counts=(1, 0, 0, 1)), id="an extension short"),
        pytest.param(
            query("a.example", counts=(1, 0, 0, 2), tail=edns() + edns()), id="two extensions"
        ),
        pytest.param(
            query("a.example", counts=(1, 0, 0, 1), tail=edns(at=b"\1x\0")), id="named extension"
        ),
        pytest.param(
            query("a.example", counts=(1, 0, 0, 1), tail=edns(type_=250)), id="not an extension"
        ),
        pytest.param(
            query("a.example", counts=(1, 0, 0, 1), tail=edns(options=b"12")[:-1]), id="cut options"
        ),
        pytest.param(query("a.example", tail=b"x"), id="bytes behind"),
        pytest.param(query(b"\xc0\x0c"), id="refers to itself"),
        pytest.param(query(b"\x03api\xc0\x0c"), id="refers in a circle"),
        pytest.param(query(b"\xc0\x00"), id="refers to the head"),
        pytest.param(query(b"\xff\xff"), id="refers beyond"),
        pytest.param(query(b"\x40" + b"a" * 64 + b"\0"), id="long label"),
        pytest.param(query(b"\x80" + b"a" * 128 + b"\0"), id="odd label"),
        pytest.param(query((b"\x3f" + b"a" * 63) * 4 + b"\0"), id="long name"),
        pytest.param(query("a.example")[:-1], id="cut type"),
        pytest.param(query("a.example")[:15], id="cut name"),
        pytest.param(query("a.example")[:12], id="head alone"),
    ],
)
def test_what_is_malformed_is_told_so_and_takes_no_address(asked: bytes) -> None:
    pool = Pool()
    reply = ask(asked, pool)
    assert (reply.id, reply.code, reply.question) == (0xBEEF, Code.MALFORMED, b"")
    assert pool.count == 0


def test_a_name_of_full_length_is_fine() -> None:
    """255 bytes as they are sent, 253 as they are read."""
    longest = ".".join(["a" * 63] * 3 + ["b" * 53, "example"])
    assert len(longest) == 253
    assert ask(query(longest)).address
    assert ask(query(f"b{longest}")).code == Code.MALFORMED


@pytest.mark.parametrize("asked", [b"", b"x", query("a.example")[:11]])
def test_less_than_a_head_is_met_with_silence(asked: bytes) -> None:
    assert answer(asked, Pool()) is None


def test_a_reply_is_never_answered() -> None:
    reply = answer(query("api.example"), Pool())
    assert reply is not None
    assert answer(reply, Pool()) is None


@pytest.mark.parametrize("opcode", [1, 2, 4, 5, 15])
def test_other_requests_are_not_known_here(opcode: int) -> None:
    reply = ask(query("api.example", flags=opcode << 11))
    assert (reply.code, reply.flags >> 11 & 0xF) == (Code.NOT_IMPLEMENTED, opcode)


@pytest.mark.parametrize("class_", [0, CHAOS, 4, 254, 255])
def test_other_classes_are_refused(class_: int) -> None:
    assert ask(query("version.bind", TXT, class_)).code == Code.REFUSED


def test_every_reply_fits_into_a_plain_datagram() -> None:
    longest = ".".join(["a" * 63] * 3 + ["b" * 53, "example"])
    for type_ in (A, TXT):
        reply = answer(query(longest, type_, counts=(1, 0, 0, 1), tail=edns()), Pool())
        assert reply is not None and len(reply) <= 512


def test_messages_come_out_of_a_stream_as_they_went_in_however_it_is_cut() -> None:
    messages = (query("a.example"), query("bb.example", AAAA))
    stream = b"".join(map(framed, messages))
    for cut in range(len(stream) + 1):
        first, rest = unframed(stream[:cut])
        second, rest = unframed(rest + stream[cut:])
        assert (first + second, rest) == (messages, b"")


@pytest.mark.parametrize("length", [0, 11, dns.MOST_FRAMED + 1, 65535])
def test_a_length_that_no_query_has_is_an_error_before_its_bytes_come(length: int) -> None:
    with pytest.raises(BadFrame, match=str(length)):
        unframed(struct.pack("!H", length))
    assert unframed(struct.pack("!H", dns.MOST_FRAMED)) == ((), struct.pack("!H", dns.MOST_FRAMED))


INSIDE = """
import socket
def look(name):
    try:
        return sorted({found[4][0] for found in socket.getaddrinfo(name, 443)})
    except socket.gaierror as error:
        return error.errno == socket.EAI_NONAME
print(look('api.example'), look('API.example'), look('printer.local'), look('metadata.internal'))
"""


@contextmanager
def answering(opened: Opened, pool: Pool) -> Iterator[list[str]]:
    """Over what each query came."""
    loop, came = asyncio.get_running_loop(), list[str]()
    assert opened.dns_udp and opened.dns_tcp
    udp, tcp = opened.dns_udp, opened.dns_tcp

    async def datagrams() -> None:
        while True:
            asked, sender = await loop.sock_recvfrom(udp, 4096)
            came.append("udp")
            udp.sendto(answer(asked, pool) or b"", sender)

    async def streams() -> None:
        while True:
            connection, _ = await loop.sock_accept(tcp)
            with connection:
                rest = b""
                while part := await loop.sock_recv(connection, 4096):
                    messages, rest = unframed(rest + part)
                    came.extend("tcp" for _ in messages)
                    replies = b"".join(framed(answer(each, pool) or b"") for each in messages)
                    await loop.sock_sendall(connection, replies)

    tasks = [asyncio.create_task(datagrams()), asyncio.create_task(streams())]
    yield came
    for task in tasks:
        task.cancel()


@pytest.mark.parametrize(("options", "way"), [("", "udp"), ("options use-vc\n", "tcp")])
def test_the_c_library_inside_understands_every_answer(
    tmp_path: Path, options: str, way: str
) -> None:
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    box = Box(workspace, home)
    settings = Text(PurePosixPath("/etc/resolv.conf"), f"nameserver 198.18.0.1\n{options}".encode())
    plan = box.plan("/usr/bin/python3", "-I", "-c", INSIDE, protections=(settings,))

    async def scene(pool: Pool) -> tuple[str, set[str]]:
        with open(os.devnull, "rb") as null, tempfile.TemporaryFile() as out:
            streams = Streams(null.fileno(), out.fileno(), out.fileno())
            sandbox = await box.backend.launch(plan, streams)
            opened = await open_sockets(sandbox.init, Wanted())
            with answering(opened, pool) as came:
                await sandbox.release()
                await sandbox.wait()
            opened.close()
            return os.pread(out.fileno(), 4096, 0).decode(), set(came)

    pool = Pool()
    made = pool.address("api.example")
    assert asyncio.run(scene(pool)) == (f"{[made]} {[made]} True True\n", {way})
