"""`ags allow`: a run may do what it asked for."""

from __future__ import annotations

import click

from ags import clients, runs
from ags.cli.asks import Asked, answered, the_one
from ags.cli.invocation import Invocation, telling
from ags.cli.paint import exact_time
from ags.config.values import parse_duration
from ags.shelf import Shelf


@click.command(short_help="Let a run do what it asks for.")
@click.option("--once", is_flag=True, help="One connection or request; the default.")
@click.option("--for", "time", metavar="TIME", help="For so long in this run, such as 30m or 1h.")
@click.option("--uses", type=click.IntRange(1), metavar="N", help="With --for: so often at most.")
@click.option(
    "--always",
    is_flag=True,
    help="In all runs, of this client if it has one: add it to policy.yaml.",
)
@click.option("--run", metavar="NAME", help="The run that asks, if several ask under this id.")
@click.argument("id_", metavar="ID")
@click.pass_obj
def command(
    invocation: Invocation,
    id_: str,
    once: bool,
    time: str | None,
    uses: int | None,
    always: bool,
    run: str | None,
) -> None:
    """Let a run do what it asks for under ID, as `ags asks` shows it, and nothing else.

    \b
      ags allow kfw1
      ags allow kfw1 --for 1h
      ags allow kfw1 --for 1h --uses 3
      ags allow kfw1 --always
    """
    if once + (time is not None) + always > 1:
        raise click.UsageError("--once, --for and --always exclude each other")
    if uses is not None and time is None:
        raise click.UsageError("--uses goes with --for")
    seconds = parse_duration(time, "--for") if time is not None else 0.0
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        one = the_one(shelf, id_, run)
        if always:
            # First: what cannot be written down is not allowed either.
            _write_down(invocation, one)
            answered(one, "always")
            shelf.notes.append("other runs at work take it up with `ags policy reload`")
        else:
            answered(one, "for" if seconds else "once", seconds, uses)
        extent = "always" if always else f"for {exact_time(seconds)}" if seconds else "once"
        print(f"allowed {extent}: {one}")


def _write_down(invocation: Invocation, one: Asked) -> None:
    from ags.egress import edit  # only here is there YAML to read
    from ags.egress.document import read_document
    from ags.egress.layers import policy_file
    from ags.egress.rules import rules_in

    home = invocation.home
    client = runs.load(one.run_dir).order.client
    of_client = clients.policy_file(invocation.environ, home, client)
    file = of_client or policy_file(invocation.environ, home)
    rules = rules_in(read_document(f"- {one.fields.get('rule')}", "the run's rule"), denial=False)
    edit.rewrite(file, lambda text: edit.with_entries(text, file, home, rules))
