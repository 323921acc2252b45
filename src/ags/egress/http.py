"""Heads of HTTP/1 requests, judged byte by byte before any other parser sees them.

h11 takes bare line feeds, folded lines and a length beside chunks. Two parsers that disagree about
where a request ends are how a second one is smuggled past a policy, so whatever could be read in
two ways is refused here, and what is left goes up written anew.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from ags.egress import reasons
from ags.egress.hosts import BadHost, canonical_host
from ags.egress.model import Decision, Request, Scheme
from ags.egress.wire import MOST_METHOD, NeedMore, Refused
from ags.frozen import frozen
from ags.model import KIB

Header = tuple[bytes, bytes]
Headers = tuple[Header, ...]
Form = Literal["origin", "absolute", "authority", "asterisk"]

MOST_LINE = 32 * KIB
MOST_HEAD = 64 * KIB
MOST_HEADERS = 256

NAME = rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+"
VALUE = rb"[\t\x20-\x7e\x80-\xff]*"
FIELDS = rb"(?:" + NAME + rb":" + VALUE + rb"\r\n)*"
"""Lines of headers, as patterns."""

_METHOD = re.compile(rb"[A-Z][A-Z-]*")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_NAME = re.compile(NAME)
_VALUE = re.compile(VALUE)
# A head in which no line can be wrong, so that none has to be looked at by itself.
_CLEAN = re.compile(
    rb"[A-Z][A-Z-]{0,%d} [\x21\x22\x24-\x7e]+ HTTP/1\.[01]\r\n%s\r\n" % (MOST_METHOD - 1, FIELDS)
)
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_ABSOLUTE = re.compile(r"(https?)://([^/?]*)([^?]*)(\?.*)?", re.IGNORECASE)

_FRAMING = frozenset((b"content-length", b"host", b"transfer-encoding"))
# Said twice, each of these could be read as either.
_SINGLE = _FRAMING | {
    b"authorization",
    b"content-type",
    b"expect",
    b"proxy-authorization",
    b"range",
    b"upgrade",
}
_OF_THE_HOP = frozenset((b"proxy-connection", b"proxy-authorization", b"proxy-authenticate"))


@frozen
class RequestHead:
    """One request's first part, with one meaning only."""

    method: str
    target: str
    """As sent."""
    form: Form
    scheme: str
    """http or https in the absolute form, else empty."""
    host: str
    """Canonical: the target's if it has one, else the Host header's."""
    port: int | None
    """None where the request does not say."""
    path: str
    """As sent, without the query; empty for CONNECT."""
    query: str
    """With its question mark, or empty."""
    version: str
    """1.0 or 1.1."""
    headers: Headers
    """As given, in order, without the space around values."""
    raw: bytes

    def all(self, name: bytes) -> tuple[bytes, ...]:
        """The values of a header, its name in lower case."""
        return tuple([value for given, value in self.headers if given.lower() == name])

    def first(self, name: bytes) -> bytes | None:
        return next(iter(self.all(name)), None)


class _Bad(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        self.refused = Refused(reason, detail)


class HeadReader:
    """Collects one request head, line by line; refuses at the first line that is wrong."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._at = 0
        """Where the line begins that has no end yet."""
        self._scanned = 0
        self._lines: list[bytes] = []
        self._result: RequestHead | Refused | None = None

    @property
    def rest(self) -> bytes:
        """What came after the head: its body, or what follows."""
        return bytes(self._held) if isinstance(self._result, RequestHead) else b""

    def feed(self, data: bytes) -> NeedMore | RequestHead | Refused:
        """Once it is a head or a refusal it stays that."""
        if isinstance(self._result, Refused):
            return self._result
        self._held += data
        if self._result is None:
            try:
                self._result = self._read()
            except _Bad as bad:
                self._result = bad.refused
        return self._result or NeedMore()

    def _read(self) -> RequestHead | None:
        if self._held and not 0x41 <= self._held[0] <= 0x5A:
            raise _Bad("not-http", "what came is not an HTTP request")
        if not self._lines and (raw := self._clean()):
            return _head(raw[:-4].split(b"\r\n"), raw)
        while (end := self._held.find(b"\n", self._scanned)) >= 0:
            self._check_size(end + 1)
            if line := self._line(end):
                self._lines.append(line)
                continue
            raw = bytes(self._held[: end + 1])
            del self._held[: end + 1]
            return _head(self._lines, raw)
        self._scanned = len(self._held)
        self._check_size(self._scanned)
        return None

    def _clean(self) -> bytes:
        """A small head that came in one piece and is right, as nearly all are."""
        end = self._held.find(b"\r\n\r\n") + 4
        if not 4 <= end <= MOST_LINE or not _CLEAN.fullmatch(self._held, 0, end):
            return b""
        raw = bytes(self._held[:end])
        if raw.count(b"\r\n") > MOST_HEADERS:
            return b""
        del self._held[:end]
        return raw

    def _line(self, end: int) -> bytes:
        line = bytes(self._held[self._at : end])
        if not line.endswith(b"\r"):
            raise _Bad("bare-lf", "a line ends without a carriage return")
        self._at = self._scanned = end + 1
        line = line[:-1]
        if self._lines and line:
            _check_header(line)
        elif not self._lines:
            _check_start(line)
        if len(self._lines) > MOST_HEADERS:
            raise _Bad("too-large", f"the request has more than {MOST_HEADERS} headers")
        return line

    def _check_size(self, end: int) -> None:
        if end > MOST_HEAD or end - self._at > MOST_LINE:
            raise _Bad("too-large", "the head of the request is too large")


def _check_bytes(line: bytes) -> None:
    if b"\r" in line:
        raise _Bad("bare-cr", "a carriage return stands alone")
    if not _VALUE.fullmatch(line):
        raise _Bad("control", "a control byte is in the head of the request")


def _check_start(line: bytes) -> None:
    _check_bytes(line)
    if line == b"PRI * HTTP/2.0":
        raise _Bad("http-2", "HTTP/2 is not spoken here")
    parts = line.split(b" ")
    if len(parts) == 2 and not line.endswith(b" "):
        raise _Bad("http-0.9", "the request says no version of HTTP")
    if len(parts) != 3 or not _METHOD.fullmatch(parts[0]) or len(parts[0]) > MOST_METHOD:
        raise _Bad("request-line", "the first line is not one of an HTTP request")
    if parts[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise _Bad("version", "only HTTP/1.1 and HTTP/1.0 are spoken here")
    if not _TARGET.fullmatch(parts[1]) or b"#" in parts[1]:
        raise _Bad("target", "the target of the request has bytes that cannot be in one")


def _check_header(line: bytes) -> None:
    if line[:1] in (b" ", b"\t"):
        raise _Bad("obs-fold", "a header is folded over two lines")
    _check_bytes(line)
    name, colon, _ = line.partition(b":")
    if name != name.rstrip(b" \t"):
        raise _Bad("space-colon", "a space stands before the colon of a header")
    if not colon or not _NAME.fullmatch(name):
        raise _Bad("header", "a line in the head of the request is no header")


def _head(lines: list[bytes], raw: bytes) -> RequestHead:
    method, target, version = (part.decode("ascii") for part in lines[0].split(b" "))
    headers = tuple(_header(line) for line in lines[1:])
    _check_headers(headers, version)
    form, scheme, authority, path, query = _split(method, target)
    host, port = _destination(headers, version, form, scheme, authority)
    version = version.removeprefix("HTTP/")
    return RequestHead(method, target, form, scheme, host, port, path, query, version, headers, raw)


def _header(line: bytes) -> Header:
    name, _, value = line.partition(b":")
    return name, value.strip(b" \t")


def _check_headers(headers: Headers, version: str) -> None:
    found: dict[bytes, bytes] = {}
    for given, value in headers:
        name = given.lower()
        if name in _SINGLE and name in found:
            raise _Bad("duplicate", f"the header {name.decode()} is there twice")
        # Behind many servers a name is turned into a variable's, and both become the same.
        if b"_" in name and name.replace(b"_", b"-") in _SINGLE:
            raise _Bad("look-alike", f"the header {name.decode()} resembles one about framing")
        found.setdefault(name, value)
    _check_length(found.get(b"content-length"), found.get(b"transfer-encoding"), version)
    if found.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise _Bad("expect", "the request expects something unknown")
    if not _FRAMING.isdisjoint(tokens(headers, b"connection")):
        raise _Bad("connection", "the Connection header names one that must arrive")


def _check_length(length: bytes | None, coding: bytes | None, version: str) -> None:
    if length is not None and coding is not None:
        raise _Bad("length-and-chunks", "the request has a length and chunks")
    if length is not None and not _LENGTH.fullmatch(length):
        raise _Bad("content-length", "the length of the request is not a plain number")
    if coding is None:
        return
    if coding.lower() != b"chunked" or version != "HTTP/1.1":
        raise _Bad("transfer-encoding", "the request has an encoding other than plain chunks")


def tokens(headers: Headers, name: bytes) -> tuple[bytes, ...]:
    """The comma-separated words of a header, in lower case."""
    values = [value for given, value in headers if given.lower() == name]
    if not values:
        return ()
    parts = b",".join(values).lower().split(b",")
    return tuple(word for part in parts if (word := part.strip(b" \t")))


def _split(method: str, target: str) -> tuple[Form, str, str, str, str]:
    """The form of a target, then its scheme, authority, path and query."""
    if method == "CONNECT":
        return "authority", "", target, "", ""
    if target.startswith("/"):
        path, mark, query = target.partition("?")
        return "origin", "", "", path, mark + query
    if target == "*" and method == "OPTIONS":
        return "asterisk", "", "", "*", ""
    if found := _ABSOLUTE.fullmatch(target):
        scheme, authority, path, query = found.groups(default="")
        return "absolute", scheme.lower(), authority, path or "/", query
    raise _Bad("target", "the target of the request is neither a path nor an address")


def _destination(
    headers: Headers, version: str, form: Form, scheme: str, authority: str
) -> tuple[str, int | None]:
    said = [value for name, value in headers if name.lower() == b"host"]
    if not said and form == "authority" and version == "HTTP/1.0":
        said = [authority.encode("ascii")]  # Python before 3.12 sends a proxy no Host
    if not said:
        raise _Bad("host-absent", "the request has no Host header")
    host, port = _authority(said[0].decode("latin-1"))
    if form not in ("absolute", "authority"):
        return host, port
    target, target_port = _authority(authority)
    if form == "authority":
        if target_port is None:
            raise _Bad("port", "CONNECT needs a port")
        # Some clients leave the port out of Host here, and it says nothing that is used.
        same = port in (None, target_port)
    else:
        default = 443 if scheme == "https" else 80
        same = (port or default) == (target_port or default)
    if target != host or not same:
        raise _Bad("host-mismatch", "target and Host header name different hosts")
    return target, target_port


def _authority(text: str) -> tuple[str, int | None]:
    name, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        name, colon, port = text, "", ""
    if ":" in name and not (name.startswith("[") and name.endswith("]")):
        raise _Bad("host", "the host of the request is not one")
    if not text.isascii():
        raise _Bad("host", "the host of the request is not ASCII")
    if colon and (not _PORT.fullmatch(port) or int(port) > 65535):
        raise _Bad("port", "the port of the request is not one")
    try:
        return canonical_host(name), int(port) if colon else None
    except BadHost as bad:
        raise _Bad("host", f"the host of the request is not one: {bad.cause}") from None


def misdirected(head: RequestHead, host: str, port: int, scheme: Scheme) -> Refused | None:
    """Why this request does not belong on a connection to that host."""
    if head.form == "authority":
        return Refused("connect", "CONNECT is only for the proxy's own port")
    if head.form == "absolute" and (head.scheme == "https") != (scheme == "tls"):
        return Refused("host-mismatch", "the request is for another scheme than its connection")
    if head.host != host or head.port not in (None, port):
        return Refused("host-mismatch", "the request names another host than its connection")
    return None


def request_of(head: RequestHead, port: int, scheme: Scheme) -> Request:
    return Request(head.host, port, scheme, head.method, head.path)


def origin_target(head: RequestHead) -> str:
    """What goes up: an origin is never sent the absolute form."""
    return head.path + head.query


def is_websocket(head: RequestHead) -> bool:
    """Whether it asks for exactly that upgrade, the only one there is to allow."""
    upgrade = head.first(b"upgrade")
    asked = upgrade is not None and upgrade.lower() == b"websocket"
    return (
        asked
        and head.method == "GET"
        and head.version == "1.1"
        and b"upgrade" in tokens(head.headers, b"connection")
        and head.first(b"sec-websocket-key") is not None
        and head.all(b"content-length") in ((), (b"0",))  # Java says that it has no body
        and not head.all(b"transfer-encoding")
    )


def _host_value(head: RequestHead) -> bytes:
    """In its one spelling, so that the origin reads what was judged."""
    host = f"[{head.host}]" if ":" in head.host else head.host
    return (host if head.port is None else f"{host}:{head.port}").encode("ascii")


def forwarded(head: RequestHead, *, websocket: bool) -> Headers:
    """The headers that go up.

    Every other upgrade is left out rather than refused: Java and curl offer HTTP/2 in each plain
    request, and go on without it when nobody takes the offer up.
    """
    said = {b"host": _host_value(head), b"transfer-encoding": b"chunked"}
    kept = tuple(
        (name, said.get(name.lower(), value))
        for name, value in head.headers
        if name.lower() not in _OF_THE_HOP
    )
    if websocket and is_websocket(head):
        return kept
    dropped = (b"upgrade", b"http2-settings")
    words = [w for w in tokens(kept, b"connection") if w not in dropped]
    connection = ((b"Connection", b", ".join(words)),) if words else ()
    return (*(h for h in kept if h[0].lower() not in (*dropped, b"connection")), *connection)


def refusal(request: Request, decision: Decision, remedy: str = "", *, text: bool = False) -> bytes:
    """A whole 403: who refused, why, and what the person can do.

    The outer shape is the one in which model APIs report errors, so that agents show the message.
    """
    wanted = _wanted(request)
    rule = f" (rule {decision.rule!a} of {decision.layer or 'the policy'})" if decision.rule else ""
    message = (
        f"The network policy of this sandbox (ags) refused {wanted}: {decision.reason}{rule}. "
        f"This is not a network failure{reasons.again(decision.reason)} {remedy}"
    ).rstrip()
    if text:
        return answer(403, "Forbidden", message + "\n", method=request.method)
    fields = {"type": "ags_policy_refusal", "message": message}
    fields |= {"refused_by": "ags network policy", "reason": decision.reason}
    fields |= {"request": wanted, "rule": decision.rule, "layer": decision.layer}
    body = json.dumps({"type": "error", "error": {**fields, "remedy": remedy}}) + "\n"
    return answer(403, "Forbidden", body, method=request.method, kind="application/json")


def _wanted(request: Request) -> str:
    host = f"[{request.host}]" if ":" in request.host else request.host
    scheme = {"tls": "https", "http": "http", "raw": "tcp"}[request.scheme]
    method = f"{request.method} " if request.method else ""
    shown = f"{method}{scheme}://{host}:{request.port}{request.path or ''}"
    return ascii(shown if len(shown) <= 300 else f"{shown[:299]}…")[1:-1]


def bad_request(refused: Refused) -> bytes:
    """A whole 400, for a request that has no single meaning."""
    detail = f"The network fence of this sandbox (ags) refused the request: {refused.detail}"
    return answer(400, "Bad Request", f"{detail} ({refused.reason}).\n")


def bad_gateway(detail: str) -> bytes:
    """A whole 502, for an allowed request whose origin cannot be reached or understood."""
    return answer(502, "Bad Gateway", f"ags allowed the request, but {detail}.\n")


def upgrade_required() -> bytes:
    """A whole 426: a client that came for a WebSocket falls back to plain HTTP at once."""
    said = "The network policy of this sandbox (ags) allows no WebSocket here; use plain HTTP.\n"
    return answer(426, "Upgrade Required", said, extra="Upgrade: HTTP/1.1\r\n", also="upgrade, ")


def answer(
    status: int,
    phrase: str,
    body: str,
    *,
    method: str | None = None,
    kind: str = "text/plain",
    extra: str = "",
    also: str = "",
) -> bytes:
    """A whole response of our own, after which the connection closes."""
    data = body.encode("utf-8", "backslashreplace")
    head = (
        f"HTTP/1.1 {status} {phrase}\r\n"
        f"Content-Type: {kind}; charset=utf-8\r\n"
        f"Content-Length: {len(data)}\r\n"
        "Cache-Control: no-store\r\n"
        # The clients of model APIs heed it.
        "X-Should-Retry: false\r\n"
        f"{extra}Connection: {also}close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if method == "HEAD" else data)
