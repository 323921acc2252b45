"""A fake internet: DNS, origins, a LAN and a metadata address, in network namespaces of their own.

    with Internet() as world:
        api = world.origin("api.example", tls=True)
        world.run(("curl", "--cacert", str(world.ca_file), "https://api.example/"))
        assert [seen.host for seen in api.requests] == ["api.example"]
        assert {query.name for query in world.queries} == {"api.example"}

Two namespaces, joined by one cable: `place` is where the fence's outside half runs, `serve` is the
rest of the world and answers for every address there is. Neither has a way to the host's network.
Both belong to processes that end with the test, so nothing is left even after a crash.
"""

from __future__ import annotations

from tests.internet.seen import Packet, Query, Seen, Visit, pattern_digest
from tests.internet.world import Internet, Origin, There

__all__ = ["Internet", "Origin", "Packet", "Query", "Seen", "There", "Visit", "pattern_digest"]
