"""bin/ags-bench: measures what is named, or everything, and reports it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence

import click
from rich.console import Console

from ags.errors import AgsError
from ags.text import plain
from bench import report
from bench.measure import Row

# A module of this package each, with `rows(quick=...)`.
BENCHES = {
    "start": "from the library call to the first instruction inside",
    "exec": "`ags exec -- true` as a person types it",
    "verbs": "the verbs that only look something up",
    "inside": "what work costs inside",
    "workspace": "a workspace of its own for a run",
    "collect": "from the end of a run to its stored diff",
    "tunnel": "through the fence to an allowed host",
    "intercept": "through the fence to a host that is sent a secret",
    "log": "what one run can write to its log, and a reader can follow",
    "fleet": "many runs at once under one server",
    "diff": "a long diff in the page",
}


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    """The benches of these names, each once; all of them if none is named."""
    for name in names:
        if name not in BENCHES:
            raise AgsError(
                "measure",
                subject=name,
                cause="there is no bench by that name",
                hint=f"one or more of: {', '.join(BENCHES)}",
                exit_code=2,
            )
    return tuple(dict.fromkeys(names)) or tuple(BENCHES)


def measured(name: str, *, quick: bool) -> Iterator[Row]:
    """The rows of one bench, as they become known."""
    # No moving display: it would be a thread that takes time from what is measured.
    print(f"ags-bench: {name}: {BENCHES[name]} ...", file=sys.stderr, flush=True)
    yield from importlib.import_module(f"bench.{name}").rows(quick=quick)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Benches: " + "; ".join(f"{name}: {what}" for name, what in BENCHES.items()) + ".",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("--quick", is_flag=True, help="Few repetitions: to see that it works, not how fast.")
def cli(names: tuple[str, ...], as_json: bool, quick: bool) -> None:
    """Measure AGS beside its peers, in one run. A peer that is not there is named as missing."""
    rows = []
    for name in chosen(names):
        for row in measured(name, quick=quick):
            rows.append(row)
            if as_json:
                print(report.json_line(row), flush=True)
    if not as_json:
        report.show(rows, Console())


def main() -> int:
    try:
        cli.main(prog_name="ags-bench", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except AgsError as error:
        print(f"ags-bench: {plain(str(error))}", file=sys.stderr)
        if error.hint:
            print(f"  try: {plain(error.hint)}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
