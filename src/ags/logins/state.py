"""Which log-in there is for an agent, without a word of its tokens."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ags import clients, records
from ags.egress.wiring import placeholder_key
from ags.errors import AgsError
from ags.frozen import frozen
from ags.logins import document
from ags.logins.base import Form
from ags.logins.broker import Broker
from ags.logins.desk import Desk, Tell
from ags.logins.forms import FORMS
from ags.logins.stands import Stands

Where = Literal["none", "host", "kept"]


@frozen
class Subscription:
    """One maker's log-in."""

    maker: str
    plan: str
    expires: float | None
    """When the access token does; it is renewed by itself."""
    renewable: bool

    def __str__(self) -> str:
        plan = f" ({self.plan})" if self.plan else ""
        over = self.expires is not None and self.expires < time.time()
        return f"{self.maker}{plan}{', expired' if over and not self.renewable else ''}"


@frozen
class Found:
    """What was found for an agent."""

    where: Where = "none"
    path: Path | None = None
    subscriptions: tuple[Subscription, ...] = ()
    trouble: str = ""
    """Why the file is of no use."""

    def __str__(self) -> str:
        if self.where == "none":
            return "none"
        place = "your own log-in" if self.where == "host" else "kept by ags"
        return f"{place}: {self.trouble or ', '.join(map(str, self.subscriptions))}"


@frozen
class Wired:
    """A log-in made ready for a run."""

    desk: Desk
    """For the fence: `egress.wiring.Wiring.desk`."""
    path: str
    """Below the home inside."""
    file: Mapping[str, object]
    """What stands there, as `agents.base.HomeFile.values`."""


def host_path(agent: str, home: Path, environ: Mapping[str, str]) -> Path | None:
    """Where the person's own agent keeps its log-in."""
    form = FORMS.get(agent)
    if form is None:
        return None
    variable, below = form.moved
    folder = environ.get(variable, "") if variable else ""
    return Path(folder) / below if folder.startswith("/") else home / form.path


def kept_path(agent: str, ags_home: Path, client: str) -> Path:
    """What `ags` keeps, for a client or for the person's own work."""
    return clients.logins(ags_home, client) / f"{agent}.json"


def found(agent: str, home: Path, ags_home: Path, client: str, environ: Mapping[str, str]) -> Found:
    """The client's own goes before the person's."""
    form = FORMS.get(agent)
    own = host_path(agent, home, environ)
    if form is None or own is None:
        return Found()
    kept = kept_path(agent, ags_home, client)
    if os.path.lexists(kept):
        return _looked("kept", form, kept)
    return _looked("host", form, own) if os.path.lexists(own) else Found()


def _looked(where: Where, form: Form, path: Path) -> Found:
    broker = Broker(form, path, shared=where == "host")
    try:
        broker.read()
    except AgsError as error:
        return Found(where, path, trouble=error.cause)
    return Found(
        where,
        path,
        tuple(
            Subscription(
                held.account.maker.name, held.plan, held.expires, held.token("refresh") is not None
            )
            for held in broker.current()
        ),
    )


def wire(
    agent: str, path: Path, client: str, ags_home: Path, tell: Tell = lambda text: None
) -> Wired:
    """Make a log-in file ready for a run; an error if it cannot be used.

    A file below `kept_path` is ours alone. Any other may be renewed by the person's own agent too.
    """
    form = FORMS.get(agent)
    if form is None:
        cause = "it has no log-in that can be held outside"
        raise AgsError("use a log-in", subject=agent, cause=cause)
    shared = ags_home / clients.LOGINS not in path.parents
    stands = Stands(agent, client, placeholder_key(ags_home))
    desk = Desk(Broker(form, path, shared=shared), stands, tell)
    return Wired(desk, form.path, desk.inside())


def keep(agent: str, data: bytes, ags_home: Path, client: str) -> Path:
    """Store a log-in for a client, in the agent's own form; one that is there is replaced."""
    form = FORMS[agent]
    try:
        document.read(form, data)
    except document.BadFile as bad:
        raise AgsError("keep the log-in", subject=agent, cause=str(bad)) from None
    path = kept_path(agent, ags_home, client)
    for folder in dict.fromkeys((ags_home / clients.LOGINS, path.parent)):
        records.private_folder(folder)
        folder.chmod(0o700)
    records.replace_file(path, data)
    return path
