"""The door of the server: nothing looks at a request before it came through here.

A page of somebody else's can make the person's browser send us requests. It cannot give them our
token, so they have no authority; they are refused all the same by their Host, Origin and
Sec-Fetch-Site, before anything is done for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ags.frozen import frozen
from ags.server import problems
from ags.server.auth import Keys, Unsure

Headers: TypeAlias = dict[str, list[str]]

MOST_HEADERS = 64
MOST_BODY = 1 << 20
MOST_LOGIN = 1 << 10
"""Bytes of the one body that is taken from anybody."""
BODY_PATIENCE = 30.0
"""Seconds for all of a body to arrive."""
MOST_LET_GO, LET_GO_PATIENCE = 8 << 20, 2.0
"""Bytes and seconds of a refused request that are read and forgotten."""
ONCE = (
    "host", "origin", "authorization", "content-length", "content-type", "transfer-encoding",
    "sec-fetch-site", "sec-fetch-mode",
)  # fmt: skip
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
JSON = re.compile(r"application/json(\s*;\s*charset=\"?utf-8\"?)?\s*", re.IGNORECASE)
# No dot segment, empty segment, backslash, nor any of them encoded; no half of an encoding.
ODD_PATH = re.compile(r"%(?![0-9a-f]{2})|%00|%2e|%2f|%5c|\\|//|/\.{1,2}(/|$)|[^!-~]")
LOGIN = ("POST", "/api/v1/session")
BEARER = "bearer."
"""How a browser's WebSocket brings the token: as a protocol that it would speak."""


def policy(scripts: Iterable[str] = ()) -> str:
    """What a page of ours may do; `scripts` are those that stand in it, besides its files.

    Frames show what an agent serves on a published port: another origin, without our token.
    """
    trusted = " ".join(("'self'", *scripts))
    return (
        f"default-src 'none'; script-src {trusted};"
        " style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:;"
        " font-src 'self'; frame-src http://127.0.0.1:* http://localhost:*; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    )


SECURITY = {
    "Content-Security-Policy": policy(),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_ADDED = [(name.lower().encode(), value.encode()) for name, value in SECURITY.items()]
_NO_STORE = (b"cache-control", b"no-store")


@frozen
class Ours:
    """By which names we are called, and from which pages."""

    hosts: frozenset[str]
    origins: frozenset[str]


class Refused(Exception):
    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status_code)
        self.answer = answer


class Gate:
    """Refuses, or passes on with the body read and who asks in `scope["ags.token"]`."""

    def __init__(
        self, app: ASGIApp, ours: Ours, keys: Keys, is_page: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._ours = ours
        self._keys = keys
        self._is_page = is_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        send = _secured(scope, send)
        sent = Sent(receive)
        try:
            headers = self.check(scope)
            if scope["type"] == "http":
                receive = await _body(scope["method"], headers, sent, _most_body(scope))
        except Refused as refused:
            if scope["type"] == "http":
                await _let_go(scope, sent)
            await _refuse(refused.answer, scope, receive, send)
            return
        await self._app(scope, receive, send)

    def check(self, scope: Scope) -> Headers:
        headers = check_shape(scope)
        check_host(headers, self._ours)
        method = scope.get("method", "GET")
        is_page = scope["type"] == "http" and self._is_page(scope["path"])
        is_page = is_page and method in ("GET", "HEAD")
        check_origin(headers, self._ours)
        check_site(headers, is_page=is_page)
        if method not in METHODS:
            raise _refusal(405, "it cannot be asked in this way")
        if not is_page and (method, scope["path"]) != LOGIN:
            scope["ags.token"] = self._admitted(scope, headers)
        return headers

    def _admitted(self, scope: Scope, headers: Headers) -> str:
        given = list(_tokens(scope, headers))
        try:
            is_good = len(given) == 1 and self._keys.who(given[0]) is not None
        except Unsure as error:
            raise Refused(_closing(problems.of(error))) from error
        if not is_good:
            raise _refusal(
                401,
                "it needs a token that is good" if given else "it needs a token",
                hint="log in by a link of `ags up --link`, or send `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return given[0]


class Sent:
    """What a client sends, and whether that was all."""

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self.is_all = False

    async def part(self) -> Message:
        message = await self.receive()
        self.is_all = not message.get("more_body", False)
        return message


def check_shape(scope: Scope) -> Headers:
    """What no honest client sends, before it is read in any other way."""
    raw = scope["headers"]
    if len(raw) > MOST_HEADERS:
        raise _refusal(431, f"it has more than {MOST_HEADERS} headers")
    headers: Headers = {}
    for name, value in raw:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    for name in ONCE:
        if len(headers.get(name, ())) > 1:
            raise _refusal(400, f"it has more than one {name}")
    if "content-length" in headers and "transfer-encoding" in headers:
        raise _refusal(400, "it has two lengths")
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    if not path.startswith("/") or ODD_PATH.search(path.lower()):
        raise _refusal(400, "its address is not written as ours are")
    return headers


def check_host(headers: Headers, ours: Ours) -> None:
    """A name of somebody else's that leads to us is how a page elsewhere would read our answers."""
    if _only(headers, "host").lower() not in ours.hosts:
        raise _refusal(
            421,
            "it is meant for another host",
            hint="use the address that `ags up` printed; behind a proxy, `--public-url`",
        )


def check_origin(headers: Headers, ours: Ours) -> None:
    if "origin" in headers and _only(headers, "origin") not in ours.origins:
        raise _refusal(403, "it comes from a page of somebody else's")


def check_site(headers: Headers, *, is_page: bool) -> None:
    """Anybody may link to our page; only our page may ask for anything else."""
    site = _only(headers, "sec-fetch-site")
    if site in ("", "same-origin", "none"):
        return
    if not (is_page and _only(headers, "sec-fetch-mode") == "navigate"):
        raise _refusal(403, "it comes from a page of somebody else's")


def _only(headers: Headers, name: str) -> str:
    return headers.get(name, [""])[0]


def _tokens(scope: Scope, headers: Headers) -> Iterator[str]:
    kind, _, token = _only(headers, "authorization").partition(" ")
    if kind.lower() == "bearer":
        yield token.strip()
    if scope["type"] == "websocket":
        for protocol in scope.get("subprotocols", ()):
            if protocol.startswith(BEARER):
                yield protocol.removeprefix(BEARER)


def _most_body(scope: Scope) -> int:
    return MOST_LOGIN if (scope["method"], scope["path"]) == LOGIN else MOST_BODY


async def _body(method: str, headers: Headers, sent: Sent, most: int) -> Receive:
    """All of it, within bounds, and JSON if it is anything; a form of a page elsewhere is not."""
    kind, length = _only(headers, "content-type"), _only(headers, "content-length")
    if not (length or "transfer-encoding" in headers):
        if method not in ("GET", "HEAD"):
            _check_kind(kind, is_empty=True)
        return sent.receive
    _check_kind(kind, is_empty=length == "0")
    if length and (not length.isdecimal() or int(length[:20]) > most):
        raise _too_large(most)
    try:
        async with asyncio.timeout(BODY_PATIENCE):
            body = await _read(sent, most)
    except TimeoutError:
        raise _refusal(408, f"its body took longer than {BODY_PATIENCE:g} s") from None
    _check_kind(kind, is_empty=not body)
    if body:
        check_json(body)
    return _again(body, sent.receive)


def _check_kind(kind: str, *, is_empty: bool) -> None:
    if JSON.fullmatch(kind) or (is_empty and not kind):
        return
    raise _refusal(415, "its body is not announced as application/json")


async def _read(sent: Sent, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while not sent.is_all:
        message = await sent.part()
        if message["type"] == "http.disconnect":
            raise _refusal(400, "it broke off")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
    return b"".join(parts)


def check_json(body: bytes) -> None:
    """What Python takes for JSON and nobody else does is refused, as is what is no text."""
    try:
        json.loads(body.decode(), parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        raise Refused(_closing(problems.unreadable())) from None


def _no_number(text: str) -> object:
    raise ValueError(text)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def _again(body: bytes, receive: Receive) -> Receive:
    """For the next reader: the body as it was read, then whatever comes."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> Message:
        return left.pop() if left else await receive()

    return read


def _refusal(
    status: int, cause: str, hint: str = "", headers: Mapping[str, str] | None = None
) -> Refused:
    title = "Cannot take the request"
    return Refused(
        _closing(problems.answer(status, title, detail=cause, hint=hint, headers=headers))
    )


def _too_large(most: int) -> Refused:
    return _refusal(413, f"its body is larger than {most >> 10} KiB")


def _closing(answer: Response) -> Response:
    """What was not read of a refused request must not be taken for the next one."""
    answer.headers["Connection"] = "close"
    return answer


async def _let_go(scope: Scope, sent: Sent) -> None:
    """Take what is still being sent, within reason: who is cut off never reads why."""
    headers = {name.lower(): value for name, value in scope["headers"]}
    length = headers.get(b"content-length", b"")
    is_short = length.isdigit() and int(length[:20]) <= MOST_LET_GO
    if b"expect" in headers or not (is_short or b"transfer-encoding" in headers):
        return
    left = MOST_LET_GO
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LET_GO_PATIENCE):
            while left > 0 and not sent.is_all:
                left -= len((await sent.part()).get("body", b""))


async def _refuse(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await answer(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        head = {"status": answer.status_code, "headers": answer.raw_headers}
        await send({"type": "websocket.http.response.start", **head})
        await send({"type": "websocket.http.response.body", "body": answer.body})
    else:
        await send({"type": "websocket.close", "code": 1008})


def _secured(scope: Scope, send: Send) -> Send:
    is_api = scope["path"].startswith(("/api/", "/metrics"))

    async def secured(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            there = list(message.get("headers", ()))
            stored = any(name.lower() == b"cache-control" for name, _ in there)
            if is_api or not stored:
                there = [each for each in there if each[0].lower() != b"cache-control"]
                there.append(_NO_STORE)
            # The page has a policy of its own, with its import map; two would both have to agree.
            named = {name.lower() for name, _ in there}
            added = [each for each in _ADDED if each[0] not in named]
            message = {**message, "headers": [*there, *added]}
        await send(message)

    return secured
