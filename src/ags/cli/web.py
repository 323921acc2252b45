"""`ags web`: the page, with the API behind it, and nothing else."""

from __future__ import annotations

from typing import Any

import click

from ags.cli import up
from ags.cli.invocation import Invocation


@click.command(short_help="Start the page alone.")
@click.option("--port", default=up.WEB_PORT, metavar="N", help="Default: 8080.")
@click.option("--open/--no-open", "opens", default=None, help="Whether to open a browser.")
@up.reach_options
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    port: int,
    opens: bool | None,
    **reach: Any,  # noqa: ANN401
) -> None:
    """Start the page on this machine, with the API behind it at the same address.

    \b
      ags web
      ags web --port 9090 --no-open

    Ends with Ctrl-C; runs go on.
    """
    up.run(invocation, {"web": port}, reach, opens=opens)
