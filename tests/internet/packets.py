"""Notes who wants something of the world: every first packet that comes over its cable."""

from __future__ import annotations

import ipaddress
import socket
import struct

from tests.internet.seen import Packet

ETH_P_ALL, OUTGOING = 3, 4
SYN, ACK = 2, 16
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}
HEAD = 128
MOST = 100_000


class Packets:
    def __init__(self, cable: str) -> None:
        self.noted: list[Packet] = []
        self._socket = socket.socket(
            socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.htons(ETH_P_ALL)
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)
        self._socket.bind((cable, ETH_P_ALL))

    def fileno(self) -> int:
        return self._socket.fileno()

    def drain(self) -> None:
        while len(self.noted) < MOST:
            try:
                data, (_, _, kind, *_) = self._socket.recvfrom(HEAD)
            except BlockingIOError:
                return
            if kind != OUTGOING and (packet := parse(data)):
                self.noted.append(packet)


def parse(data: bytes) -> Packet | None:
    """None for what goes on within a connection, and for what neighbours say to each other."""
    version = data[0] >> 4 if data else 0
    if version == 4 and len(data) >= 20:
        number, start = data[9], (data[0] & 15) * 4
        source, target = data[12:16], data[16:20]
    elif version == 6 and len(data) >= 40:
        number, start = data[6], 40
        source, target = data[8:24], data[24:40]
    else:
        return None
    whence, where = ipaddress.ip_address(source), ipaddress.ip_address(target)
    if where.is_multicast or whence.is_link_local or _neighbourly(number, data[start:]):
        return None
    if number == 6 and data[start + 13] & (SYN | ACK) != SYN:
        return None
    port = struct.unpack_from(">H", data, start + 2)[0] if number in (6, 17, 132) else 0
    return Packet(PROTOCOLS.get(number, str(number)), str(whence), str(where), port)


def _neighbourly(number: int, data: bytes) -> bool:
    return number == 58 and bool(data) and 133 <= data[0] <= 137
