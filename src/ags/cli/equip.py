"""Before a run: its agent's program is there, or is offered; and whether it can reach its model."""

from __future__ import annotations

import asyncio
import os
import sys

from ags.agents import agent as known
from ags.cli.invocation import Invocation, tell
from ags.cli.question import agreed
from ags.runs import Order


def equip(invocation: Invocation, name: str, order: Order) -> None:
    """On a terminal a missing program is offered; elsewhere it is an error that names the command.

    Loaded only for agents that have one: npm and all that is not what a shell needs.
    """
    if known(name).program is None:
        return
    from ags import programs
    from ags.cli.update_agents import installer

    maker = installer(invocation)
    ask = _ask if os.isatty(0) and os.isatty(2) else None
    asyncio.run(programs.ensure(maker, name, ask))
    if order.network and not _can_talk(invocation, name, order):
        tell(
            f"note: {name} has no key and no log-in that AGS knows of: export its key,"
            f" `ags secret set`, or `ags auth {name}`"
        )


def _ask(question: str) -> bool:
    return agreed(question, default=True, to=sys.stderr)


def _can_talk(invocation: Invocation, name: str, order: Order) -> bool:
    from ags import programs
    from ags.config.load import load
    from ags.logins import state as logins

    environ, home, ags_home = invocation.environ, invocation.home, invocation.ags_home
    settings = load(order.config, environ, home)
    if programs.login_state(name, environ, ags_home, settings).keys or order.login is not None:
        return True
    return logins.found(name, home, ags_home, order.client, environ).where != "none"
