"""`ags server`: the API alone."""

from __future__ import annotations

from typing import Any

import click

from ags.cli import up
from ags.cli.invocation import Invocation


@click.command(short_help="Start the API alone.")
@click.option("--port", default=up.API_PORT, metavar="N", help="Default: 8000.")
@up.reach_options
@click.pass_obj
def command(invocation: Invocation, /, port: int, **reach: Any) -> None:  # noqa: ANN401
    """Start the API on this machine, for programs and for `ags --server`.

    \b
      ags server
      printf 'Authorization: Bearer %s' "$(cat ~/.ags/server/token)" |
        curl -H @- 127.0.0.1:8000/api/v1/health

    Ends with Ctrl-C; runs go on.
    """
    up.run(invocation, {"api": port}, reach)
