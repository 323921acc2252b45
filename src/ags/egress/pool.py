"""Made addresses for names: a name asked for inside gets one, and who dials it means that name.

At most `size` names have an address at a time. Then the one that was not used for longest makes
room, never one with an open connection. Addresses go round the whole range before one is given to
another name: a program that kept an old address is told that it is nobody's, and does not reach
somebody else.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator

NETWORK = ipaddress.IPv4Network("198.18.0.0/15")
FIRST, LAST = ipaddress.IPv4Address("198.18.1.0"), ipaddress.IPv4Address("198.19.255.254")
"""The first 256 are kept for what has a fixed address, such as the gateway at 198.18.0.1."""
SIZE = 8192


class Pool:
    """Names are canonical, addresses in dotted form, as sockets have them."""

    def __init__(
        self,
        size: int = SIZE,
        first: ipaddress.IPv4Address = FIRST,
        last: ipaddress.IPv4Address = LAST,
    ) -> None:
        self._first, self._count = int(first), int(last) - int(first) + 1
        if not 0 < size <= self._count or first not in NETWORK or last not in NETWORK:
            raise ValueError(f"no pool of {size} names from {first} to {last}")
        self._size = size
        self._turn = 0
        # Both in the order of their last use.
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._pins: dict[str, int] = {}

    @property
    def count(self) -> int:
        return len(self._addresses)

    def address(self, name: str) -> str | None:
        """The name's address, made if it has none; None if all there are have open connections."""
        if address := self._addresses.get(name):
            self._use(name, address)
            return address
        if len(self._addresses) >= self._size and not self._make_room():
            return None
        address = self._next()
        self._use(name, address)
        return address

    def name(self, address: str) -> str | None:
        """The name that this address stands for now."""
        if name := self._names.get(address):
            self._use(name, address)
        return name

    @contextlib.contextmanager
    def pinned(self, address: str) -> Iterator[str | None]:
        """The address's name, which it keeps for as long as the context lasts."""
        name = self.name(address)
        if name is None:
            yield None
            return
        self._pins[address] = self._pins.get(address, 0) + 1
        try:
            yield name
        finally:
            self._pins[address] -= 1
            if not self._pins[address]:
                del self._pins[address]
            self._use(name, address)

    def _use(self, name: str, address: str) -> None:
        self._addresses.pop(name, None)
        self._addresses[name] = address
        self._names[address] = name

    def _make_room(self) -> bool:
        for name, address in self._addresses.items():
            if address not in self._pins:
                del self._addresses[name], self._names[address]
                return True
        return False

    def _next(self) -> str:
        """There is a free one: fewer names have an address than there are addresses."""
        while True:
            address = str(ipaddress.IPv4Address(self._first + self._turn % self._count))
            self._turn += 1
            if address not in self._names:
                return address
