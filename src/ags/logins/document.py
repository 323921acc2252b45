"""Log-in files as bytes: read, shown inside without a token, and written anew with other tokens.

What goes inside is built from fields that are known to be harmless. A file may hold more than we
know of, such as the log-ins of other services: that stays out.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from ags.egress import inject
from ags.logins.base import Account, Form, Held, Kind
from ags.secrets import Secret

Stand = Callable[[Held, Kind], str]
"""The placeholder of a token."""

MOST = 1 << 20
LEAST_TOKEN, MOST_TOKEN = 20, 16 << 10
MOST_TEXT, MOST_LIST = 512, 64

_TOKEN = re.compile(r"[\x21-\x7e]+")


class BadFile(ValueError):
    """Why a file is no log-in, in words that quote nothing of it."""


class Leak(ValueError):
    """A token would have gone inside."""


def read(form: Form, data: bytes) -> tuple[Held, ...]:
    """The log-ins in a file: at least one, or it is a bad file."""
    top = parsed(data)
    found = tuple(held for account in form.accounts if (held := _held(top, account)))
    if not found:
        raise BadFile("there is no log-in in it")
    return found


def parsed(data: bytes) -> dict[str, object]:
    if len(data) > MOST:
        raise BadFile(f"it is larger than {MOST >> 20} MiB")
    top: object = None
    # The error of JSON would carry the whole text with it.
    with suppress(ValueError, RecursionError):
        top = json.loads(data)
    if not isinstance(top, dict):
        raise BadFile("it is not a JSON object")
    return top


def _held(top: Mapping[str, object], account: Account) -> Held | None:
    entry = _entry(top, account)
    if entry is None or (account.marked and entry.get(account.marked[0]) != account.marked[1]):
        return None
    tokens = tuple(
        (kind, Secret(value)) for kind, name in account.tokens if (value := token(entry.get(name)))
    )
    if "access" not in dict(tokens):
        return None
    access = dict(tokens)["access"].reveal()
    until = _number(entry.get(account.expiry)) if account.expiry else None
    return Held(
        account,
        tokens,
        until / 1000 if until is not None else expiry(access),
        scopes(entry.get(account.scopes)),
        _text(entry.get(account.plan)) or _plan(dict(tokens).get("id")),
    )


def _entry(top: Mapping[str, object], account: Account) -> dict[str, object] | None:
    entry: object = top
    for name in account.within:
        entry = entry.get(name) if isinstance(entry, dict) else None
    return entry if isinstance(entry, dict) else None


def token(value: object) -> str | None:
    """A shorter one could not be told from ordinary text."""
    if not isinstance(value, str) or not LEAST_TOKEN <= len(value) <= MOST_TOKEN:
        return None
    return value if _TOKEN.fullmatch(value) else None


def scopes(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(e for e in value if isinstance(e, str)) if isinstance(value, list) else _NONE


_NONE: frozenset[str] = frozenset()


def expiry(access: str) -> float | None:
    """When a web token says that it expires."""
    return _number(_claims(access).get("exp"))


def _plan(identity: Secret | None) -> str:
    claims = _claims(identity.reveal()) if identity else {}
    inner = claims.get("https://api.openai.com/auth")
    return _text(inner.get("chatgpt_plan_type")) if isinstance(inner, dict) else ""


def _claims(text: str) -> dict[str, object]:
    parts = text.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Whole numbers may be larger than any float.
    return float(value) if abs(value) < 1e18 and math.isfinite(value) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 40 and value.isprintable() else ""


def inside(form: Form, data: bytes, stand: Stand) -> dict[str, object]:
    """The file as the agent finds it. Raises `Leak` rather than give a token away."""
    top = parsed(data)
    logins = read(form, data)
    made: dict[str, object] = harmless(top, form.plain)
    for held in logins:
        account = held.account
        entry = made
        for name in account.within:
            entry = entry.setdefault(name, {})  # type: ignore[assignment]
        found = _entry(top, account) or {}
        entry |= harmless(found, (*account.plain, account.expiry))
        entry |= {name: stand(held, kind) for kind, name in account.tokens if held.token(kind)}
    check(json.dumps(made), (secret for held in logins for _, secret in held.tokens))
    return made


def harmless(entry: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    """Of these fields, those that are plain values or flat lists and objects of such."""
    return {name: entry[name] for name in names if name in entry and _harmless(entry[name])}


def _harmless(value: object, depth: int = 1) -> bool:
    if isinstance(value, list | dict):
        each = value.values() if isinstance(value, dict) else value
        keys = all(len(key) <= MOST_TEXT for key in value) if isinstance(value, dict) else True
        return depth > 0 and keys and len(value) <= MOST_LIST and all(_harmless(e, 0) for e in each)
    if isinstance(value, str):
        return len(value) <= MOST_TEXT
    return value is None or isinstance(value, bool) or _number(value) is not None


def check(text: str, tokens: Iterable[Secret]) -> None:
    """Nothing that leaves for the inside has a token in it, in any spelling we know."""
    shown = text.encode("utf-8", "surrogatepass")
    for secret in tokens:
        if any(echo in shown for echo in inject.echoes(secret.reveal())):
            raise Leak("a token is where none should be")


def renewed(
    form: Form, data: bytes, account: Account, tokens: Mapping[Kind, str], expires: float | None
) -> bytes:
    """The file with these tokens; all else in it stays as it is."""
    top = parsed(data)
    entry = _entry(top, account)
    if entry is None:
        raise BadFile("the log-in is no longer in it")
    entry |= {name: tokens[kind] for kind, name in account.tokens if kind in tokens}
    if account.expiry and expires is not None:
        entry[account.expiry] = int(expires * 1000)
    if form.stamp:
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        top[form.stamp] = now.replace("+00:00", "Z")
    return json.dumps(top, indent=2).encode("utf-8", "surrogatepass") + b"\n"


def exchanged(data: bytes, real: Callable[[str], str | None]) -> bytes:
    """A file from inside, with the token in the place of each stand-in that is one of ours."""

    def each(value: object) -> object:
        if isinstance(value, dict):
            return {name: each(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [each(inner) for inner in value]
        return (real(value) or value) if isinstance(value, str) else value

    top = parsed(data)
    try:
        return json.dumps(each(top), indent=2).encode("utf-8", "surrogatepass") + b"\n"
    except RecursionError:
        raise BadFile("it is nested too deeply") from None
