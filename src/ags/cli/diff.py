"""`ags diff`: what a run changed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

import click

from ags.cli import risks
from ags.cli.invocation import Invocation, engine_of
from ags.cli.pager import page
from ags.errors import AgsError
from ags.paint import Choice, Paint, as_json, cells, columns, cut, padded, paint_for
from ags.review import Review, review
from ags.text import one_line
from ags.workspace.diff import Diff, FileChange, lines

SIGNS = {"context": " ", "added": "+", "removed": "-", "file": "", "note": "  ", "hunk": ""}
STYLES: dict[str, tuple[str, ...]] = {
    "file": ("bold",),
    "note": ("dim",),
    "hunk": ("cyan",),
    "context": (),
    "added": ("green",),
    "removed": ("red",),
}
WIDEST_TABLE = 100


@click.command(short_help="Show what a run changed, and what of it deserves a second look.")
@click.option("--stat", "as_stat", is_flag=True, help="Only how much changed in each file.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object.")
@click.option("--patch", "as_patch", is_flag=True, help="Print a patch that `git apply` takes.")
@click.option("--no-pager", is_flag=True, help="Print all at once, even on a terminal.")
@click.option(
    "--color",
    "choice",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colours. [default: auto, which is on a terminal and without NO_COLOR]",
)
@click.argument("name")
@click.pass_obj
def command(
    invocation: Invocation,
    name: str,
    as_stat: bool,
    as_object: bool,
    as_patch: bool,
    no_pager: bool,
    choice: Choice,
) -> None:
    """Show what the run NAME changed, from the commit it started at.

    \b
      ags diff fix-login
      ags diff --stat fix-login
      ags diff --patch fix-login > fix-login.patch
      ags diff --json fix-login | jq '.risks[].path'

    First come the files that your machine would run or obey later without asking again, such as
    hooks, build files and settings of editors and agents, and what looks like a secret. On a
    terminal it is shown in $PAGER, or in `less`.
    """
    check(name, as_stat=as_stat, as_object=as_object, as_patch=as_patch)
    with engine_of(invocation) as engine:
        if as_patch:
            asyncio.run(engine.gather(name))
            _print_patch(engine.run_dir(name) / "result.patch", name)
            return
        found = asyncio.run(review(engine, name))
    if as_object:
        print(as_json(found.to_json(), indent=1))
        return
    paint = paint_for(sys.stdout, invocation.environ, choice)
    shown = stat(found.diff, paint, invocation.environ) if as_stat else whole(found, paint)
    asyncio.run(page(shown, {"PAGER": ""} if no_pager else invocation.environ))


def check(name: str, *, as_stat: bool, as_object: bool, as_patch: bool) -> None:
    if as_stat + as_object + as_patch > 1:
        raise click.UsageError("--stat, --json and --patch exclude each other")
    # A patch is printed as it is stored; a terminal would obey what an agent put into it.
    if as_patch and sys.stdout.isatty():
        hint = f"`ags diff {name}` shows it; or `ags diff --patch {name} > {name}.patch`"
        raise AgsError("print the patch", subject=name, cause="this is a terminal", hint=hint)


def _print_patch(file: Path, name: str) -> None:
    try:
        with file.open("rb") as patch:
            shutil.copyfileobj(patch, sys.stdout.buffer)
    except FileNotFoundError:
        cause = "none is stored: it has not ended, or did nothing"
        raise AgsError("print the patch", subject=name, cause=cause) from None


async def show(found: Review, out: TextIO, *, pager: bool) -> None:
    """The whole of it, coloured where `out` can."""
    shown = whole(found, paint_for(out, os.environ))
    if pager:
        await page(shown, os.environ)
    else:
        out.writelines(f"{line}\n" for line in shown)


def whole(found: Review, paint: Paint) -> Iterator[str]:
    """What it is, what to look at first, then all of it."""
    run, change = found.run, found.diff
    tip = one_line(run.branch) if run.branch else change.new[:12]
    yield f"{paint(run.name, 'bold')}  {change.old[:12]}..{tip}"
    yield str(change.stat())
    if found.risks:
        yield ""
        yield from risks.rendered(found.risks, paint)
    for row in lines(change.files):
        if row.kind == "file":
            yield ""
        yield paint(f"{SIGNS[row.kind]}{row.text}", *STYLES[row.kind])


def stat(change: Diff, paint: Paint, environ: Mapping[str, str]) -> Iterator[str]:
    """A line for each file, with a bar, as git has it."""
    width = min(columns(sys.stdout, environ), WIDEST_TABLE)
    names = [_name(file) for file in change.files]
    longest = max(map(cells, names), default=0)
    counts = [file.additions + file.deletions for file in change.files]
    digits = len(str(max(counts, default=0)))
    room = min(longest, max(20, width - digits - 24))
    bar = max(10, width - room - digits - 6)
    scale = min(1.0, bar / max([1, *counts]))
    for file, name, count in zip(change.files, names, counts, strict=True):
        shown = padded(cut(name, room), room)
        if file.binary:
            yield f" {shown} | {'Bin':>{digits}} {file.old_size or 0} → {file.new_size or 0} bytes"
        else:
            yield f" {shown} | {count:>{digits}} {_bar(file, scale, paint)}".rstrip()
    yield f" {change.stat()}"


def _name(file: FileChange) -> str:
    name = one_line(file.path)
    return name if file.old_path is None else f"{one_line(file.old_path)} → {name}"


def _bar(file: FileChange, scale: float, paint: Paint) -> str:
    """Whatever changed at all has a mark."""
    plus, minus = (
        max(1, round(count * scale)) if count else 0 for count in (file.additions, file.deletions)
    )
    return paint("+" * plus, "green") + paint("-" * minus, "red")
