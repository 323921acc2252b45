"""A DNS server that knows what it is told, says so to whoever asks at any address, and notes it."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.internet.seen import Query

PORT = 53
KINDS = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA",
         33: "SRV", 64: "SVCB", 65: "HTTPS", 255: "ANY"}  # fmt: skip
NAME_ERROR = 3
IP_PKTINFO, IP_TRANSPARENT, IPV6_RECVPKTINFO, IPV6_PKTINFO = 8, 19, 49, 50
IPV6_TRANSPARENT = 75
SPACE = 256


class Names:
    """Per name, the sets of answers for the first query of a kind, the second, and so on."""

    def __init__(self) -> None:
        self.known: dict[str, list[list[str]]] = {}
        self.queries: list[Query] = []
        self._asked: Counter[tuple[str, int]] = Counter()

    def set(self, name: str, sets: Sequence[Sequence[str]]) -> None:
        self.known[name.lower()] = [list(each) for each in sets]
        for key in [key for key in self._asked if key[0] == name.lower()]:
            del self._asked[key]

    def answer(self, message: bytes, server: str, transport: str) -> bytes | None:
        try:
            name, end = _name(message, 12)
            kind, _ = struct.unpack_from(">HH", message, end)
        except (struct.error, IndexError):
            self.queries.append(Query("", "malformed", server, transport))
            return None
        self.queries.append(Query(name, KINDS.get(kind, str(kind)), server, transport))
        question = message[12 : end + 4]
        answers = self._next(name.lower(), kind)
        code = NAME_ERROR if answers is None else 0
        records = list(_records(answers or [], kind))
        head = message[:2] + struct.pack(">HHHHH", 0x8580 | code, 1, len(records), 0, 0)
        return head + question + b"".join(records)

    def _next(self, name: str, kind: int) -> list[str] | None:
        if name not in self.known:
            return None
        sets = self.known[name]
        turn = self._asked[name, kind]
        self._asked[name, kind] += 1
        return sets[min(turn, len(sets) - 1)] if sets else []


def _name(message: bytes, at: int) -> tuple[str, int]:
    labels = []
    while length := message[at]:
        labels.append(message[at + 1 : at + 1 + length].decode("latin-1"))
        at += 1 + length
    return ".".join(labels), at + 1


def _records(answers: Sequence[str], kind: int) -> Iterator[bytes]:
    """Addresses of the kind that was asked for; what is no address is another name for it."""
    for answer in answers:
        try:
            packed = ipaddress.ip_address(answer).packed
            found = 1 if len(packed) == 4 else 28
        except ValueError:
            packed = b"".join(bytes([len(x)]) + x.encode() for x in answer.split(".")) + b"\0"
            found = 5
        if found in (kind, 5):
            yield struct.pack(">HHHIH", 0xC00C, found, 1, 0, len(packed)) + packed


async def serve(names: Names) -> None:
    loop = asyncio.get_running_loop()
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        server = _bound(family, socket.SOCK_DGRAM, address)
        loop.add_reader(server, _datagram, server, names)
        listener = _bound(family, socket.SOCK_STREAM, address)
        await asyncio.start_server(lambda r, w: _stream(r, w, names), sock=listener)


def _bound(family: socket.AddressFamily, kind: socket.SocketKind, address: str) -> socket.socket:
    made = socket.socket(family, kind | socket.SOCK_NONBLOCK)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
        made.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
    else:
        made.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
        made.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    made.bind((address, PORT))
    return made


def _datagram(server: socket.socket, names: Names) -> None:
    message, notes, _, peer = server.recvmsg(4096, SPACE)
    v4 = server.family == socket.AF_INET
    # The answer must come from where the question went, or nobody believes it.
    note = next(data for _, kind, data in notes if kind in (IP_PKTINFO, IPV6_PKTINFO))
    asked = note[8:12] if v4 else note[:16]
    server_name = str(ipaddress.ip_address(asked))
    if reply := names.answer(message, server_name, "udp"):
        ours = bytes(4) + asked + bytes(4) if v4 else asked + bytes(4)
        level = socket.IPPROTO_IP if v4 else socket.IPPROTO_IPV6
        kind = IP_PKTINFO if v4 else IPV6_PKTINFO
        server.sendmsg([reply], [(level, kind, ours)], 0, peer)


async def _stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, names: Names) -> None:
    try:
        while head := await reader.read(2):
            head += await reader.readexactly(2 - len(head))
            message = await reader.readexactly(int.from_bytes(head, "big"))
            server = str(writer.get_extra_info("sockname")[0])
            if reply := names.answer(message, server, "tcp"):
                writer.write(len(reply).to_bytes(2, "big") + reply)
                await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()
