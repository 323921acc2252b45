"""`ags port`: a server inside a sandbox, opened from here."""

from __future__ import annotations

import asyncio

import click

from ags import runs
from ags.cli.invocation import Invocation, telling
from ags.control import client
from ags.errors import AgsError
from ags.shelf import Shelf
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
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        run_dir = shelf.run_dir(name)
        if (run := runs.load(run_dir)).is_final:
            cause = f"it is not at work: it is {run.state}"
            raise AgsError("publish the port", subject=name, cause=cause)
        asking = client.ask(run_dir, "port", port=port, host_port=host_port)
        print(one_line(str(asyncio.run(asking).get("url"))))
