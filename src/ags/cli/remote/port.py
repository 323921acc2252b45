"""`ags --server URL port`."""

from __future__ import annotations

from ags.cli import port as local
from ags.cli.invocation import tell
from ags.cli.remote.verb import There, like
from ags.text import one_line


@like(local.command)
def command(there: There, name: str, port: int, host_port: int) -> None:
    made = there.client.publish(name, port, host_port=host_port)
    print(one_line(made["url"]))
    if not there.is_here:
        at = made["host_port"]
        tell(f"note: that is on the server's machine: `ssh -L {at}:127.0.0.1:{at} HOST` brings it")
