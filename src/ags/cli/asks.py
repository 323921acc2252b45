"""`ags asks`: what runs at work wait to be allowed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ags import runs
from ags.cli.invocation import Invocation, telling
from ags.cli.paint import Paint, as_json, paint_for, short_time
from ags.control import client
from ags.errors import AgsError
from ags.frozen import frozen
from ags.shelf import Shelf
from ags.store import Filter
from ags.text import one_line

PATIENCE = 5.0
"""Seconds for a run to say what it asks: one that hangs must not hide the others'."""


@frozen
class Asked:
    """One question of one run."""

    run: str
    run_dir: Path
    fields: dict[str, Any]

    @property
    def id(self) -> str:
        return one_line(str(self.fields.get("id")))

    def __str__(self) -> str:
        """`fix-login: POST https://api.example:443/v1/messages`"""
        return f"{self.run}: {wanted(self.fields)}"


@click.command(short_help="Show what runs at work wait to be allowed.")
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array.")
@click.pass_obj
def command(invocation: Invocation, as_array: bool) -> None:
    """Show which requests of runs at work were held back, and wait for your word.

    \b
      ags asks
      ags allow ID --for 1h
      ags deny ID

    One that nobody answers is refused after a while.
    """
    shelf = Shelf(invocation.ags_home)
    with telling(shelf.notes):
        found = asked(shelf)
        if as_array:
            print(as_json([{"run": each.run, **each.fields} for each in found], indent=1))
        elif found:
            paint = paint_for(sys.stdout, invocation.environ)
            print("\n".join(_line(each, paint) for each in found))
            print(paint("`ags allow ID [--for 1h|--always]`, `ags deny ID`", "dim"))
        else:
            print("no run asks for anything")


def the_one(shelf: Shelf, id_: str, run: str | None) -> Asked:
    """The question of this id, be it whose it may."""
    found = [each for each in asked(shelf, run) if each.id == id_]
    if not found:
        cause = "no run asks this: it was answered, or waited too long"
        raise AgsError("answer this", subject=id_, cause=cause, hint="see `ags asks`")
    if len(found) > 1:
        cause = f"several runs ask under this id: {', '.join(each.run for each in found)}"
        raise AgsError("answer this", subject=id_, cause=cause, hint="add --run NAME")
    return found[0]


def asked(shelf: Shelf, run: str | None = None) -> tuple[Asked, ...]:
    """The questions of all runs at work, or of this one."""
    if run is not None:
        run_dir = shelf.run_dir(run)
        return asyncio.run(_asked(run, run_dir))
    at_work = shelf.listing(Filter(states=("running",))).runs
    places = [(each.name, runs.directory(shelf.ags_home, each.id)) for each in at_work]
    return asyncio.run(_asked_of_all(places, shelf.notes))


def answered(one: Asked, verdict: str, seconds: float = 0.0, uses: int | None = None) -> None:
    """The run takes it from here."""
    most = {} if uses is None else {"uses": uses}
    asking = client.ask(one.run_dir, "answer", id=one.id, verdict=verdict, seconds=seconds, **most)
    asyncio.run(asking)


def wanted(fields: dict[str, Any]) -> str:
    scheme = {"tls": "https", "http": "http"}.get(str(fields.get("scheme")), "tcp")
    method = f"{fields['method']} " if fields.get("method") else ""
    path = fields.get("path") or ""
    return one_line(f"{method}{scheme}://{fields.get('host')}:{fields.get('port')}{path}")


async def _asked_of_all(places: Sequence[tuple[str, Path]], notes: list[str]) -> tuple[Asked, ...]:
    said = await asyncio.gather(*(_asked(*each) for each in places), return_exceptions=True)
    found: list[Asked] = []
    for (name, _), each in zip(places, said, strict=True):
        if isinstance(each, AgsError):
            notes.append(f"{name} does not say what it asks: {each.cause}")
        elif isinstance(each, BaseException):
            raise each
        else:
            found += each
    return tuple(found)


async def _asked(name: str, run_dir: Path) -> tuple[Asked, ...]:
    answer = await client.ask(run_dir, "asks", patience=PATIENCE)
    said = answer.get("asks")
    listed = said if isinstance(said, list) else []
    return tuple(Asked(name, run_dir, each) for each in listed if isinstance(each, dict))


def _line(one: Asked, paint: Paint) -> str:
    waited, left = (short_time(float(one.fields.get(name, 0))) for name in ("waited", "left"))
    times = paint(f"waits {waited}, {left} left", "dim")
    return f"{paint(one.id, 'yellow', 'bold')}  {one.run}  {wanted(one.fields)}  {times}"
