"""What an agent asks a token endpoint for, and what it is answered. All of it is bytes and values.

A renewal is flat: a handful of plain fields. What has any other shape was not sent by an agent that
renews its log-in, and is refused. Fields that we do not know are not sent on: they might ask for
another kind of token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NoReturn
from urllib.parse import parse_qsl, urlencode

from ags.egress.inject import Redactor, echoes
from ags.frozen import frozen
from ags.logins import document
from ags.logins.base import ANSWERED, Held, Kind, Maker
from ags.secrets import Secret

Fields = dict[str, str | int]

FIELDS = frozenset(
    (
        *("grant_type", "refresh_token", "client_id", "client_secret", "scope", "expires_in"),
        "refresh_reason",
    )
)
ENTRY_FIELDS = frozenset(
    (
        *("grant_type", "code", "code_verifier", "redirect_uri", "state", "client_id"),
        *("client_secret", "scope", "expires_in"),
    )
)
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MOST_FIELD = document.MOST_TOKEN
MOST_FIELDS = 32
MOST_TOLD = 500
DEFAULT_LIFE = 3600.0

_VALUE = re.compile(r"[\x20-\x7e]+")
# It may be a token that we know nothing of; a code such as refresh_token_reused is none.
_LONG_WORD = re.compile(rf"(?![a-z_]+(?:\s|$))\S{{{document.LEAST_TOKEN},}}")
_TOLD = ("error", "error_description", "message", "type", "code")


class Odd(ValueError):
    """Why this is no renewal, in words that quote nothing of it."""


class BadAnswer(ValueError):
    """Why an endpoint's answer is of no use."""


@frozen
class Wanted:
    """A renewal as an agent sends it."""

    fields: Fields
    form: bool

    @property
    def refresh(self) -> str:
        return str(self.fields["refresh_token"])

    def rest(self) -> bytes:
        """All but the refresh token, to be looked through."""
        others = {name: value for name, value in self.fields.items() if name != "refresh_token"}
        return json.dumps(others).encode()

    def filled(self, refresh: Secret) -> bytes:
        """The same with the real token."""
        kept = {name: value for name, value in self.fields.items() if name in FIELDS}
        fields = {**kept, "refresh_token": refresh.reveal()}
        return (urlencode(fields) if self.form else json.dumps(fields)).encode()


def read(content_type: str, body: bytes) -> Wanted:
    """A renewal."""
    form, fields = _read(content_type, body)
    if fields.get("grant_type") != "refresh_token" or not isinstance(
        fields.get("refresh_token"), str
    ):
        raise Odd("it does not ask to renew a log-in")
    return Wanted(fields, form)


def is_entry(content_type: str, body: bytes) -> bool:
    """Whether it is the last step of a log-in that a person makes: a code for tokens."""
    try:
        _, fields = _read(content_type, body)
    except Odd:
        return False
    known = ENTRY_FIELDS.issuperset(fields)
    return known and fields.get("grant_type") == "authorization_code" and "code" in fields


def _read(content_type: str, body: bytes) -> tuple[bool, Fields]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (JSON, FORM):
        raise Odd("its body is neither JSON nor a form")
    fields: Fields = {}
    for name, value in _form(body) if kind == FORM else _json(body):
        if name in fields or len(fields) >= MOST_FIELDS:
            raise Odd("its body has too many fields, or one twice")
        fields[name] = _value(value)
    return kind == FORM, fields


def _value(value: object) -> str | int:
    if type(value) is int and abs(value) < 1 << 53:
        return value
    if isinstance(value, str) and len(value) <= MOST_FIELD and _VALUE.fullmatch(value):
        return value
    raise Odd("a field of its body is no plain text")


def _form(body: bytes) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    with suppress(ValueError):
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict"
        )
    return pairs or _odd("its body is no form")


def _json(body: bytes) -> list[tuple[str, object]]:
    top: object = None
    with suppress(ValueError, RecursionError):
        # Pairs, not a mapping: of a name that is there twice, each reader takes another one.
        top = json.loads(body.decode("utf-8"), object_pairs_hook=_Pairs)
    return top if isinstance(top, _Pairs) else _odd("its body is no JSON object")


class _Pairs(list[tuple[str, object]]):
    """An object, which is not a list."""


def _odd(why: str) -> NoReturn:
    raise Odd(why)


def narrows(wanted: Wanted, held: Held) -> bool:
    """Whether the person would be left with a log-in that may do less."""
    if "scope" not in wanted.fields:
        return False
    needed = held.scopes or frozenset(held.account.maker.scopes)
    return not needed <= document.scopes(wanted.fields["scope"])


@frozen
class Given:
    """What an endpoint gave."""

    tokens: Mapping[Kind, str]
    expires: float
    """Seconds since the epoch."""
    passed: Mapping[str, object]


def given(maker: Maker, body: bytes, now: float) -> Given:
    answer: object = None
    with suppress(ValueError, RecursionError):
        answer = json.loads(body)
    if not isinstance(answer, dict):
        raise BadAnswer("it is no JSON object")
    tokens = {
        kind: value
        for kind, name in ANSWERED.items()
        if (value := document.token(answer.get(name)))
    }
    if "access" not in tokens:
        raise BadAnswer("it has no access token")
    if answer.get("refresh_token") and "refresh" not in tokens:
        raise BadAnswer("its refresh token is none")
    life = answer.get("expires_in")
    plain = isinstance(life, int | float) and not isinstance(life, bool) and 0 <= life < 1e10
    until = now + float(life) if plain else None  # type: ignore[arg-type]
    known = until or document.expiry(tokens["access"]) or now + DEFAULT_LIFE
    passed = document.harmless(answer, ("token_type", "scope", *maker.passes))
    return Given(tokens, known, passed)


def answered(
    held: Held,
    passed: Mapping[str, object],
    now: float,
    stand: Callable[[Held, Kind], str],
    known: Iterable[Secret],
) -> bytes:
    """The answer inside: stand-ins, and how long they are good for."""
    made: dict[str, object] = {"token_type": "Bearer"}
    if held.scopes:
        made["scope"] = " ".join(sorted(held.scopes))
    made |= passed
    made |= {ANSWERED[kind]: stand(held, kind) for kind, _ in held.tokens}
    if held.expires is not None:
        made["expires_in"] = max(0, int(held.expires - now))
    text = json.dumps(made)
    document.check(text, (*known, *(secret for _, secret in held.tokens)))
    return text.encode()


def failed(body: bytes, known: Iterable[Secret]) -> bytes:
    """What an endpoint says of why it failed: the words that programs look for, and no more."""
    told: object = None
    with suppress(ValueError, RecursionError):
        told = json.loads(body)
    covered = Redactor(echo for secret in known for echo in echoes(secret.reveal()))
    made = _told(told, covered) if isinstance(told, dict) else {}
    return json.dumps(made or {"error": "server_error"}).encode()


def _told(told: Mapping[str, object], covered: Redactor, depth: int = 1) -> dict[str, object]:
    made: dict[str, object] = {}
    for name in _TOLD:
        value = told.get(name)
        if isinstance(value, str):
            # Covered before it is cut: half a token is a token that is not recognised.
            shown = covered.whole(value.encode("utf-8", "replace")).decode()
            made[name] = _LONG_WORD.sub("***", shown)[:MOST_TOLD]
        elif isinstance(value, dict) and depth:
            made[name] = _told(value, covered, depth - 1)
    return made
