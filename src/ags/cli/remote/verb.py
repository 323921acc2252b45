"""A verb for a server, made from the one that does it here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import click

from ags.cli.invocation import Invocation
from ags.cli.remote.access import There, reach

Does = Callable[..., int | None]


def like(local: click.Command, *more: click.Parameter) -> Callable[[Does], click.Command]:
    """The same words, flags and help. What does it is given `There`, and the flags by name."""

    def made(does: Does) -> click.Command:
        @click.pass_obj
        @functools.wraps(does)
        def call(invocation: Invocation, /, **given: object) -> int | None:
            return does(reach(invocation), **given)

        return click.Command(
            local.name,
            callback=call,
            params=_joined(more, local.params),
            help=local.help,
            short_help=local.short_help,
        )

    return made


def _joined(
    more: Sequence[click.Parameter], local: Sequence[click.Parameter]
) -> list[click.Parameter]:
    """Ours in the place of the local ones of the same name."""
    names = {each.name for each in more}
    return [*more, *(each for each in local if each.name not in names)]


__all__ = ("There", "like")
