"""`ags port`: a server inside a sandbox, opened from here."""

from __future__ import annotations

import asyncio

import click

from ags.cli.invocation import Invocation, engine_of
from ags.text import one_line


@click.command(short_help="Bring a port of a run's sandbox to this machine's loopback.")
@click.option(
    "--host-port",
    type=int,
    default=0,
    metavar="N",
    help="The port here; by default the same, or any if that is taken.",
)
@click.argument("name")
@click.argument("port", type=int)
@click.pass_obj
def command(invocation: Invocation, name: str, port: int, host_port: int) -> None:
    """Open PORT of the sandbox of the run NAME on 127.0.0.1, for as long as the run lasts.

    \b
      ags port fix-login 5173
      ags port fix-login 5173 --host-port 8090
    """
    with engine_of(invocation) as engine:
        made = asyncio.run(engine.publish(name, port, host_port))
    print(one_line(str(made.get("url"))))
