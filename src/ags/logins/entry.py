"""A log-in that a person makes in a sandbox: even then its tokens stay outside.

The agent inside trades the person's code for tokens, gets stand-ins, and writes its file with them.
Exchanged for what they stand for, that is the real file, in the agent's own form.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from ags.egress.desk import Answer, Asked, Post
from ags.egress.inject import Hidden
from ags.egress.wiring import placeholder_key
from ags.errors import AgsError
from ags.logins import document, grant
from ags.logins.base import Account, Endpoint, Held
from ags.logins.broker import Broker
from ags.logins.desk import Desk, reached
from ags.logins.forms import FORMS
from ags.logins.stands import Stands
from ags.logins.state import keep, kept_path
from ags.secrets import Secret


class Entry(Desk):
    """The desk of a sandbox in which nothing happens but a log-in."""

    def __init__(self, agent: str, client: str, ags_home: Path) -> None:
        self._agent, self._client, self._ags_home = agent, client, ags_home
        stands = Stands(agent, client, placeholder_key(ags_home))
        path = kept_path(agent, ags_home, client)
        super().__init__(Broker(FORMS[agent], path, shared=False), stands)

    def lookup(self, secret_id: str) -> str | None:
        known = self._stands.by_id(secret_id)
        if known is None or known.kind != "access":
            return None
        return self._given[known.account.name].reveal()

    async def answer(self, asked: Asked, post: Post) -> Answer:
        account = self._account(asked)
        if account is None or not grant.is_entry(asked.first(b"content-type"), asked.body):
            return await super().answer(asked, post)
        if asked.look(asked.body):
            return await super().answer(asked, post)
        return await reached(self._entered(account, asked, post))

    def _account(self, asked: Asked) -> Account | None:
        here = Endpoint(asked.request.host, asked.request.path or "")
        accounts = self._broker.form.accounts
        return next((each for each in accounts if here in each.maker.endpoints), None)

    async def _entered(self, account: Account, asked: Asked, post: Post) -> Answer:
        answer = await post(asked)
        if answer.status != 200:
            return Answer(answer.status, Hidden(grant.failed(answer.body, self._stands.secrets)))
        try:
            given = grant.given(account.maker, answer.body, time.time())
            tokens = tuple((kind, Secret(value)) for kind, value in given.tokens.items())
            held = Held(account, tokens, given.expires)
            self._note(held)
            known = self._stands.secrets
            body = grant.answered(held, given.passed, time.time(), self._stands.text, known)
        except (grant.BadAnswer, document.Leak) as error:
            told = {"error": "server_error", "error_description": str(error)}
            return Answer(502, Hidden(json.dumps(told).encode()))
        return Answer(200, Hidden(body))

    def adopt(self, data: bytes) -> Path:
        """Keep the file that the agent wrote inside, for its client."""
        try:
            made = document.exchanged(data, self._real)
            held = document.read(self._broker.form, made)
        except document.BadFile as bad:
            raise AgsError("keep the log-in", subject=self._agent, cause=str(bad)) from None
        ours = self._stands.secrets
        if not all(secret in ours for login in held for _, secret in login.tokens):
            cause = "it has tokens that nobody gave"
            raise AgsError("keep the log-in", subject=self._agent, cause=cause)
        return keep(self._agent, made, self._ags_home, self._client)

    def _real(self, text: str) -> str | None:
        known = self._stands.by_text(text)
        return known.secret.reveal() if known else None
