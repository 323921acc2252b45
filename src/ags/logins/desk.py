"""Answers in the place of token endpoints, for one run and one log-in file."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ags.egress.desk import Answer, Asked, Post
from ags.egress.inject import Hidden, Injection, Placeholder
from ags.egress.model import Request
from ags.errors import AgsError
from ags.logins import document, grant
from ags.logins.base import HTTPS, Account, Endpoint, Held
from ags.logins.broker import QUIET, Broker, Renewed
from ags.logins.stands import Known, Stands
from ags.secrets import Secret

Tell = Callable[[str], None]

REFUSED = "log-in"
"""The reason of what is refused here."""
SETTLING = 45.0


class _Failed(Exception):
    """The endpoint said no, or nothing of use."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


class Desk:
    """As `egress.desk.Desk`."""

    def __init__(self, broker: Broker, stands: Stands, tell: Tell = lambda text: None) -> None:
        """`tell` gets what the person may want to know."""
        self._broker, self._stands, self._tell = broker, stands, tell
        self._given: dict[str, Secret] = {}
        """The access token of each account whose stand-in was given inside last."""
        self._failures: dict[bytes, tuple[float, Answer]] = {}
        self._renewing: set[asyncio.Task[Answer]] = set()

    def inside(self) -> dict[str, object]:
        """The log-in file for the inside."""
        data = self._broker.read()
        try:
            made = document.inside(self._broker.form, data, self._stands.text)
        except (document.Leak, document.BadFile) as error:
            raise _unusable(self._broker, error) from None
        for held in self._broker.current():
            self._note(held)
        return made

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return self._stands.placeholders

    @property
    def injections(self) -> tuple[Injection, ...]:
        return self._stands.injections

    @property
    def hosts(self) -> frozenset[tuple[str, int]]:
        makers = [account.maker for account in self._broker.form.accounts]
        ends = (end.host for maker in makers for end in maker.endpoints)
        return frozenset((host, HTTPS) for host in (*(h for m in makers for h in m.hosts), *ends))

    def lookup(self, secret_id: str) -> str | None:
        """The access token as it is now, for each stand-in that there ever was of one."""
        known = self._stands.by_id(secret_id)
        if known is None or known.kind != "access":
            return None
        held = self._broker.held(known.account)
        if held is None:
            return None
        # Another one's renewal: an answer must not bring its tokens inside either.
        self._stands.learn(held)
        access = held.token("access")
        return access.reveal() if access else None

    def covered(self) -> tuple[Hidden, ...]:
        return tuple(Hidden(secret.reveal().encode()) for secret in self._stands.secrets)

    def serves(self, request: Request) -> bool:
        if (request.port, request.scheme, request.method) != (HTTPS, "tls", "POST"):
            return False
        wanted = Endpoint(request.host, request.path or "")
        return any(wanted in each.maker.endpoints for each in self._broker.form.accounts)

    def gave(self, asked: Asked) -> bool:
        """Whether what is to be renewed there is of this desk."""
        try:
            wanted = grant.read(asked.first(b"content-type"), asked.body)
        except grant.Odd:
            return False
        return self._known(wanted, asked.request) is not None

    async def answer(self, asked: Asked, post: Post) -> Answer:
        try:
            wanted = grant.read(asked.first(b"content-type"), asked.body)
        except grant.Odd as odd:
            named = asked.look(asked.body)
            return _refused(str(odd), "placeholder" if named else REFUSED)
        known = self._known(wanted, asked.request)
        if known is None:
            named = asked.look(asked.body)
            detail = "what it wants to renew is not the log-in of this run"
            return _refused(detail, "placeholder" if named else REFUSED)
        if found := asked.look(wanted.rest()):
            return _refused(f"the placeholder of {found} is in its body", "placeholder")
        held = self._broker.held(known.account)
        if held is not None and grant.narrows(wanted, held):
            return _refused("it would leave the person with a log-in that may do less")
        # Once begun, it is carried to its end, even if nobody inside waits for it any more.
        task = asyncio.create_task(self._renewed(known, wanted, asked, post))
        self._renewing.add(task)
        task.add_done_callback(self._renewing.discard)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait for renewals that are under way, before the process ends."""
        if self._renewing:
            await asyncio.wait(self._renewing, timeout=SETTLING)

    def _known(self, wanted: grant.Wanted, request: Request) -> Known | None:
        known = self._stands.by_text(wanted.refresh)
        if known is None or known.kind != "refresh":
            return None
        here = Endpoint(request.host, request.path or "")
        return known if here in known.account.maker.endpoints else None

    async def _renewed(
        self, known: Known, wanted: grant.Wanted, asked: Asked, post: Post
    ) -> Answer:
        def stale(held: Held) -> bool:
            """Neither another run nor the person's own agent has been here."""
            last = self._given.get(held.account.name)
            return held.token("refresh") == known.secret and held.token("access") == last

        async def ask(refresh: Secret) -> grant.Given:
            return await self._asked(known.account, wanted, refresh, asked, post)

        try:
            done = await self._broker.renew(known.account, stale, ask)
            if done.given:
                self._tell(f"the log-in for {known.account.maker.name} was renewed")
            return self._told(done)
        except _Failed as failed:
            return failed.answer
        except (AgsError, document.BadFile, document.Leak) as error:
            cause = str(getattr(error, "cause", "") or error)
            self._tell(f"the log-in for {known.account.maker.name} was not renewed: {cause}")
            return _trouble(503, cause)

    async def _asked(
        self, account: Account, wanted: grant.Wanted, refresh: Secret, asked: Asked, post: Post
    ) -> grant.Given:
        mark = refresh.reveal().encode()
        then, before = self._failures.get(mark, (0.0, None))
        if before is not None and time.monotonic() - then < QUIET:
            raise _Failed(before)
        body = Hidden(wanted.filled(refresh))
        answer = await reached(post(replace(asked, body=body)))
        if answer.status != 200:
            told = grant.failed(answer.body, (*self._stands.secrets, refresh))
            answer = Answer(answer.status, Hidden(told))
            if 400 <= answer.status < 500:
                self._failures = {mark: (time.monotonic(), answer)}
            hint = f"if it stays so, log in anew: `ags auth {self._broker.form.agent}`"
            maker = account.maker.name
            self._tell(f"{maker} did not renew the log-in (status {answer.status}); {hint}")
            raise _Failed(answer)
        try:
            return grant.given(account.maker, answer.body, time.time())
        except grant.BadAnswer as bad:
            raise _Failed(_trouble(502, f"the answer of the token endpoint: {bad}")) from None

    def _told(self, done: Renewed) -> Answer:
        self._note(done.held)
        passed = done.given.passed if done.given else {}
        secrets = self._stands.secrets
        body = grant.answered(done.held, passed, time.time(), self._stands.text, secrets)
        return Answer(200, Hidden(body))

    def _note(self, held: Held) -> None:
        self._stands.learn(held)
        access = held.token("access")
        if access is not None:
            self._given[held.account.name] = access


async def reached(answer: Awaitable[Answer]) -> Answer:
    """What was answered, or that nothing was."""
    try:
        return await answer
    except (AgsError, OSError, TimeoutError):
        return _trouble(502, "the token endpoint cannot be reached or understood")


def _refused(detail: str, reason: str = REFUSED) -> Answer:
    told = f"The fence of this sandbox (ags) refused this request to a token endpoint: {detail}."
    body = {"error": "invalid_request", "error_description": told}
    return Answer(403, Hidden(json.dumps(body).encode()), reason, detail)


def _trouble(status: int, cause: str) -> Answer:
    told = f"ags could not renew the log-in: {cause}"
    body = {"error": "temporarily_unavailable", "error_description": told}
    return Answer(status, Hidden(json.dumps(body).encode()))


def _unusable(broker: Broker, error: Exception) -> AgsError:
    return AgsError("use the log-in", subject=broker.path, cause=str(error))
