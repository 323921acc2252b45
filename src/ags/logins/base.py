"""What a log-in is: whose tokens, where they are in an agent's file, and where they may go."""

from __future__ import annotations

from typing import Literal

from ags.frozen import frozen
from ags.secrets import Secret

Kind = Literal["access", "refresh", "id"]
ANSWERED: dict[Kind, str] = {
    "access": "access_token",
    "refresh": "refresh_token",
    "id": "id_token",
}
"""As OAuth names them in requests and answers."""

HTTPS = 443


@frozen
class Endpoint:
    """Where tokens are renewed: exactly there."""

    host: str
    path: str


@frozen
class Maker:
    """Who gave the tokens."""

    name: str
    hosts: tuple[str, ...]
    """These are sent the access token."""
    endpoints: tuple[Endpoint, ...] = ()
    header: str = "authorization"
    template: str = "Bearer {}"
    passes: tuple[str, ...] = ()
    """What else of an endpoint's answer is no secret, and is of use inside."""
    scopes: tuple[str, ...] = ()
    """A renewal that asks for less than these would leave the person with less."""


@frozen
class Account:
    """One maker's tokens, and where they are in the file."""

    maker: Maker
    within: tuple[str, ...]
    """The object that has them."""
    tokens: tuple[tuple[Kind, str], ...]
    """Their names there."""
    marked: tuple[str, str] | None = None
    """A field that has to say this, or it is something else."""
    expiry: str = ""
    """The field with the milliseconds at which the access token expires; or the token says."""
    scopes: str = ""
    plan: str = ""
    """The field that names the subscription."""
    plain: tuple[str, ...] = ()
    """Fields that are shown inside as they are. Any other is left out."""

    @property
    def name(self) -> str:
        return ".".join((*self.within, self.maker.name)) if self.within else self.maker.name


@frozen
class Form:
    """The file in which an agent keeps its log-ins."""

    agent: str
    path: str
    """Below the home."""
    accounts: tuple[Account, ...]
    moved: tuple[str, str] = ("", "")
    """A variable that names another folder, and the path below that."""
    plain: tuple[str, ...] = ()
    """Fields at the top that are shown inside as they are."""
    stamp: str = ""
    """The field at the top that has the time of the last renewal."""
    claims: Literal["", "file", "folder"] = ""
    """What the agent itself locks on the host while it renews, by a folder of that name + .lock."""


@frozen
class Held:
    """An account's tokens, as the file has them."""

    account: Account
    tokens: tuple[tuple[Kind, Secret], ...]
    expires: float | None
    """Seconds since the epoch; None if nothing says."""
    scopes: frozenset[str] = frozenset()
    plan: str = ""

    def token(self, kind: Kind) -> Secret | None:
        return dict(self.tokens).get(kind)
