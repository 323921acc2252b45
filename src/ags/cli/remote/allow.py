"""`ags --server URL allow`."""

from __future__ import annotations

from ags.cli import allow as local
from ags.cli.invocation import telling
from ags.cli.remote.asks import the_one
from ags.cli.remote.verb import There, like


@like(local.command)
def command(
    there: There,
    id_: str,
    once: bool,
    time: str | None,
    uses: int | None,
    always: bool,
    run: str | None,
) -> None:
    verdict, seconds = local.extent(once=once, time=time, uses=uses, always=always)
    one = the_one(there.client, id_, run)
    there.client.answer(one.run, one.id, verdict, seconds=seconds or None, uses=uses)
    with telling([local.ELSEWHERE] if always else []):
        print(local.told(one, verdict, seconds))
