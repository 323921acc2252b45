"""What stands inside for the tokens of a run: those it has now, and those it had before."""

from __future__ import annotations

import hmac

from ags.egress import inject
from ags.egress.inject import Injection, Placeholder
from ags.frozen import frozen
from ags.logins.base import HTTPS, Account, Held, Kind
from ags.secrets import Secret


@frozen
class Known:
    """A token that was given a stand-in."""

    placeholder: Placeholder
    account: Account
    kind: Kind
    secret: Secret


class Stands:
    """Each token has a stand-in of its own, so one that is out of date can be told from the rest.

    They hang on key, client and token: whoever wires the same log-in again gets the same ones.
    """

    def __init__(self, agent: str, client: str, key: bytes) -> None:
        self._agent, self._client, self._key = agent, client, key
        self._known: dict[str, Known] = {}

    def text(self, held: Held, kind: Kind) -> str:
        """The stand-in of one of its tokens."""
        secret = held.token(kind)
        assert secret is not None
        value = secret.reveal()
        tag = hmac.digest(self._key, value.encode(), "sha256").hex()[:12]
        name = f"login:{self._agent}:{held.account.name}:{kind}:{tag}"
        if name not in self._known:
            made = inject.placeholder(name, value, client=self._client, key=self._key)
            self._known[name] = Known(made, held.account, kind, secret)
        return self._known[name].placeholder.text

    def learn(self, held: Held) -> None:
        for kind, _ in held.tokens:
            self.text(held, kind)

    def by_id(self, name: str) -> Known | None:
        return self._known.get(name)

    def by_text(self, text: str) -> Known | None:
        return next((k for k in self._known.values() if k.placeholder.text == text), None)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """All of them, to be covered wherever they show up."""
        return tuple(known.secret for known in self._known.values())

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return tuple(known.placeholder for known in self._known.values())

    @property
    def injections(self) -> tuple[Injection, ...]:
        """An old access token's stand-in stays good: what goes out for it is the current one."""
        return tuple(
            Injection(
                known.placeholder.secret_id,
                host,
                HTTPS,
                "tls",
                known.account.maker.header,
                known.account.maker.template,
            )
            for known in self._known.values()
            if known.kind == "access"
            for host in known.account.maker.hosts
        )
