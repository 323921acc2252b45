"""`ags exec -- true` as a person types it: a new process each time, to its end."""

from __future__ import annotations

from collections.abc import Iterator

from bench.measure import FASTER, Missing, Once, Peer, Row, interleaved, time_command
from bench.peers import Program, containers, sandbox_runtime
from bench.workshop import AGS, Workshop, make_repository, workshop

ROUNDS, QUICK_ROUNDS = 20, 3
OURS = "ags exec -- true"


def rows(*, quick: bool) -> Iterator[Row]:
    """The containers run a program that is smaller than `true`, which is to their advantage."""
    with workshop() as shop, containers() as engines:
        make_repository(shop.workspace, {"README.md": "A small project.\n"})
        contenders: dict[str, Once] = {
            OURS: lambda: time_command(
                (AGS, "exec", "--", "true"), cwd=shop.workspace, env=shop.environ
            )
        }
        peers = engines | {"srt": sandbox_runtime()}
        for name, peer in peers.items():
            if isinstance(peer, Program):
                contenders[name] = _run(peer, shop)
        figures = interleaved(contenders, QUICK_ROUNDS if quick else ROUNDS)
    for name, peer in peers.items():
        found = peer if isinstance(peer, Missing) else figures[name]
        note = "" if isinstance(peer, Missing) else " ".join(peer.flags)
        yield Row("exec", OURS, figures[OURS], peer=Peer(name, found), mark=FASTER, note=note)


def _run(peer: Program, shop: Workshop) -> Once:
    return lambda: time_command(peer.argv, cwd=shop.workspace)
