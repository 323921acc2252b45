"""The world's process: it owns a network namespace, and with it every address there is.

The test tells it what to be, and asks what it saw, over a pipe; when that ends, so does the world.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from tests.internet import dns, git, http, postgres
from tests.internet.packets import Packets
from tests.internet.place import CLONE_NEWNET, unshare
from tests.internet.seen import Packet, Query, Seen, Visit
from tests.internet.site import Site

SPEAKERS = {"http": http.speak, "postgres": postgres.speak, "echo": postgres.echo}


class World:
    def __init__(self) -> None:
        self.names = dns.Names()
        self.sites: list[Site] = []
        self.sniffer: Packets | None = None

    async def begin(self, cable: str) -> None:
        self.sniffer = Packets(cable)
        asyncio.get_running_loop().add_reader(self.sniffer, self.sniffer.drain)
        await dns.serve(self.names)

    async def open(
        self,
        name: str,
        kind: str,
        addresses: list[str],
        port: int,
        chain: str | None,
        **git_options: Any,
    ) -> int:
        speaker = git.speaker(**git_options) if kind == "git" else SPEAKERS[kind]
        site = Site(name, speaker, chain)
        for address in addresses:
            site.listen(address, port)
        self.sites.append(site)
        return len(self.sites) - 1

    async def set_answers(self, name: str, sets: list[list[str]]) -> None:
        self.names.set(name, sets)

    async def requests(self, site: int) -> list[Seen]:
        return [arrival.seen() for arrival in self.sites[site].arrivals]

    async def visits(self, site: int) -> list[Visit]:
        return [guest.visit() for guest in self.sites[site].guests]

    async def hellos(self, site: int) -> list[str | None]:
        return self.sites[site].hellos

    async def queries(self) -> list[Query]:
        return self.names.queries

    async def packets(self) -> list[Packet]:
        assert self.sniffer is not None
        self.sniffer.drain()
        return self.sniffer.noted

    async def clear(self) -> None:
        assert self.sniffer is not None
        self.sniffer.drain()
        for log in (self.names.queries, self.sniffer.noted):
            log.clear()
        for site in self.sites:
            site.arrivals.clear()
            site.hellos.clear()
            site.guests.clear()


async def main(control: Connection) -> None:
    world, over = World(), asyncio.Event()
    loop = asyncio.get_running_loop()
    pending: set[asyncio.Task[None]] = set()

    def asked() -> None:
        try:
            verb, given = control.recv()
        except (EOFError, OSError):
            over.set()
            return
        task = loop.create_task(_answer(control, getattr(world, verb), given))
        pending.add(task)
        task.add_done_callback(pending.discard)

    loop.add_reader(control.fileno(), asked)
    control.send("ready")
    await over.wait()


async def _answer(control: Connection, verb: Callable[..., Any], given: dict[str, Any]) -> None:
    try:
        control.send((None, await verb(**given)))
    except Exception as error:
        control.send((f"{type(error).__name__}: {error}", None))


if __name__ == "__main__":
    unshare(CLONE_NEWNET)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(main(Connection(int(sys.argv[1]))))
    # Only a test that was killed leaves this to us.
    shutil.rmtree(sys.argv[2], ignore_errors=True)
