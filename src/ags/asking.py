"""What runs at work wait to be allowed, and the person's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ags import clients, runs
from ags.control import client
from ags.errors import AgsError, Missing
from ags.frozen import frozen
from ags.logtext import wanted
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


async def asked(shelf: Shelf, run: str | None = None) -> tuple[Asked, ...]:
    """The questions of all runs at work, or of this one."""
    if run is not None:
        run_dir = shelf.run_dir(run)
        return await _asked(run, run_dir)
    at_work = shelf.listing(Filter(states=("running",))).runs
    places = [(each.name, runs.directory(shelf.ags_home, each.id)) for each in at_work]
    return await _asked_of_all(places, shelf.notes)


async def the_one(shelf: Shelf, id_: str, run: str | None = None) -> Asked:
    """The question of this id, be it whose it may."""
    return chosen(await asked(shelf, run), id_)


def chosen(among: Iterable[Asked], id_: str) -> Asked:
    found = [each for each in among if each.id == id_]
    if not found:
        cause = "no run asks this: it was answered, or waited too long"
        raise Missing("answer this", subject=id_, cause=cause, hint="see `ags asks`")
    if len(found) > 1:
        cause = f"several runs ask under this id: {', '.join(each.run for each in found)}"
        raise AgsError("answer this", subject=id_, cause=cause, hint="add --run NAME")
    return found[0]


async def answered(
    one: Asked, verdict: str, seconds: float = 0.0, uses: int | None = None
) -> dict[str, object]:
    """The run takes it from here."""
    most = {} if uses is None else {"uses": uses}
    return await client.ask(
        one.run_dir, "answer", id=one.id, verdict=verdict, seconds=seconds, **most
    )


async def write_down(environ: Mapping[str, str], home: Path, one: Asked) -> None:
    """Into the policy, for `always`. First: what cannot be written down is not allowed either."""
    from ags.egress import edit  # only here is there YAML to read
    from ags.egress.layers import policy_file

    if "rule" not in one.fields:
        cause = "a hook asks about this one call: no policy could answer it"
        hint = f"`ags allow {one.id}` allows it once"
        raise AgsError("allow this always", subject=one.id, cause=cause, hint=hint)
    of_client = clients.policy_file(environ, home, runs.load(one.run_dir).order.client)
    file = of_client or policy_file(environ, home)
    rule = edit.read_rule(str(one.fields.get("rule")))
    await edit.rewrite(file, lambda text: edit.with_entries(text, file, home, (rule,)))


async def granted(run_dir: Path, rule: str, seconds: float) -> dict[str, object]:
    """A rule, as a line of `domains:`, holds in this run for so long."""
    return await client.ask(run_dir, "grant", rule=rule, seconds=seconds)


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
