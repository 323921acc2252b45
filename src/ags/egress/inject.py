"""Secrets on the wire: inside there is only a placeholder, and outside it becomes the secret.

It does so in one header, towards one host, port and scheme. In any other header, in a trailer or in
the request target, where it would be used as a credential, a placeholder is refused and reported.
In a body it is harmless text: it passes unchanged and is noted. What comes back has every echo of
the secret covered.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import string
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from urllib.parse import quote_from_bytes, unquote_to_bytes

from ags.egress.http import Header, Headers
from ags.egress.model import Request, Scheme
from ags.errors import AgsError
from ags.frozen import frozen

LEAST_RANDOM = 16
"""Characters of a placeholder that are its own. With fewer, any text could be taken for one."""
LEAST_COVERED = 6
"""A shorter secret is part of too much innocent text to be covered in answers."""

# What vendors begin every key with is nobody's secret, and programs look for it.
_PREFIXES = (
    *("sk-ant-api03-", "sk-ant-admin01-", "sk-ant-oat01-", "sk-ant-ort01-", "sk-ant-sid01-"),
    *("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-", "sk-ant-", "sk-"),
    *("github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("glpat-", "gldt-", "xoxb-", "xoxp-", "xapp-", "AIza", "ya29.", "GOCSPX-", "AKIA", "ASIA"),
    *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "hf_", "npm_", "dckr_pat_", "SG.", "gsk_"),
    *("pplx-", "xai-", "r8_", "hvs.", "hvb.", "dop_v1_", "lin_api_", "sntrys_", "figd_"),
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_HEX = frozenset(string.hexdigits)


@frozen
class Placeholder:
    """What stands inside for a secret. It is worth nothing, so it may be seen."""

    secret_id: str
    text: str
    own: str
    """The part that nothing else has in common with it, of letters that no encoding changes."""

    @cached_property
    def traces(self) -> frozenset[bytes]:
        """What it looks like on the wire."""
        own = self.own.encode()
        return frozenset((own, *_base64_cores(own)))


@frozen
class Injection:
    """Where a secret may go. Nothing here is a pattern but the star in the template."""

    secret_id: str
    host: str
    """Canonical."""
    port: int
    scheme: Scheme
    header: str
    template: str
    """What the header says, {} being the secret: `{}`, `Bearer {}`, `Basic *:{}`.

    `Basic` goes on with what is encoded, where a star is any text."""


@frozen
class Misused:
    """A placeholder where it has no business. The secret did not leave."""

    reason: str
    secret_id: str
    where: str


class Hidden(bytes):
    """Bytes that no log, error or crash report shows."""

    def __repr__(self) -> str:
        return "<hidden>"

    __str__ = __repr__


@frozen
class Swapped:
    """What goes up, and what must not come back."""

    headers: Headers
    carried: tuple[tuple[Hidden, Hidden], ...]
    """Each secret that goes along, and the value of the header it is in."""
    secret_ids: tuple[str, ...] = ()

    @property
    def covered(self) -> tuple[Hidden, ...]:
        """All that may be an echo; empty if no secret goes along."""
        found = {needle for secret, sent in self.carried for needle in echoes(secret, sent)}
        return tuple(Hidden(needle) for needle in sorted(found, key=_longest_first))


Lookup = Callable[[str], str | None]
"""The value of a secret now, by its id; None if it is gone."""


def placeholder(secret_id: str, secret: str, *, client: str, key: bytes) -> Placeholder:
    """Of the secret's shape: its length, its alphabet, and the prefix its vendor gives every key.

    It hangs on client and id, not on the value: a key that is renewed keeps its placeholder.
    """
    stream = _stream(key, client, secret_id)
    return (
        _token(secret_id, secret, stream)
        or _opaque(secret_id, secret, stream)
        or _made(secret_id, stream)
    )


def _made(secret_id: str, stream: _Stream) -> Placeholder:
    """A shape of our own, for secrets so short that theirs would be found in ordinary text."""
    text = "ags-" + "".join(_draw(stream, string.ascii_lowercase, 28))
    return Placeholder(secret_id, text, text)


class _Stream:
    """Bytes that only the holder of the key can foresee."""

    def __init__(self, key: bytes, context: bytes) -> None:
        self._key, self._context = key, context
        self._count = 0
        self._held = b""

    def byte(self) -> int:
        if not self._held:
            block = self._count.to_bytes(8) + self._context
            self._held = hmac.digest(self._key, block, "sha256")
            self._count += 1
        value, self._held = self._held[0], self._held[1:]
        return value


def _stream(key: bytes, client: str, secret_id: str) -> _Stream:
    if len(key) < 16:
        raise AgsError("make a placeholder", subject=secret_id, cause="its key is too short")
    return _Stream(key, json.dumps([client, secret_id]).encode("ascii"))


def _draw(stream: _Stream, alphabet: str, count: int) -> list[str]:
    limit = 256 - 256 % len(alphabet)
    drawn: list[str] = []
    while len(drawn) < count:
        # Taking the rest of a division would make some letters likelier than others.
        if (value := stream.byte()) < limit:
            drawn.append(alphabet[value % len(alphabet)])
    return drawn


def _token(secret_id: str, secret: str, stream: _Stream) -> Placeholder | None:
    """A signed web token keeps its claims, which agents read; its signature is what counts."""
    head, claims, signature = (*secret.split("."), "", "", "")[:3]
    if secret.count(".") != 2 or not (_is_object(head) and _is_object(claims)):
        return None
    if len(signature) < LEAST_RANDOM:
        return None
    drawn = "".join(_draw(stream, string.ascii_letters + string.digits, len(signature)))
    return Placeholder(secret_id, f"{head}.{claims}.{drawn}", drawn)


def _is_object(part: str) -> bool:
    try:
        data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False


def _opaque(secret_id: str, secret: str, stream: _Stream) -> Placeholder | None:
    prefix = next((p for p in _PREFIXES if secret.startswith(p)), "")
    tail = secret[len(prefix) :]
    kept = _kept(tail)
    if len(tail) - len(kept) < LEAST_RANDOM:
        return None
    drawn = iter(_draw(stream, _alphabet(tail), len(tail) - len(kept)))
    text = "".join(kept[i] if i in kept else next(drawn) for i in range(len(tail)))
    return Placeholder(secret_id, prefix + text, text.rstrip("="))


def _kept(tail: str) -> dict[int, str]:
    """Marks that give a secret its form. Any other could be a letter of it."""
    marks = "-" if _UUID.fullmatch(tail) else "."
    end = len(tail.rstrip("="))
    return {i: c for i, c in enumerate(tail) if c in marks or i >= end}


def _alphabet(tail: str) -> str:
    letters = {c for c in tail if c.isascii() and c.isalnum()}
    lower, upper = any(c.islower() for c in letters), any(c.isupper() for c in letters)
    if lower != upper and letters <= _HEX:
        return string.digits + ("abcdef" if lower else "ABCDEF")
    found = (string.ascii_lowercase if lower else "") + (string.ascii_uppercase if upper else "")
    digits = string.digits if not letters.isdisjoint(string.digits) else ""
    return found + digits or string.ascii_lowercase


def problem(injection: Injection) -> str | None:
    """Why this cannot be meant, for whoever reads the settings."""
    if not _TOKEN.fullmatch(injection.header):
        return f"{injection.header!a} is no name of a header"
    if injection.template.count("{}") != 1:
        return "the template needs one {}, where the secret goes"
    if "*" in injection.template and not injection.template.lower().startswith("basic "):
        return "only a template for Basic has a star"
    return None


def swap(
    headers: Headers,
    target: str,
    request: Request,
    injections: Iterable[Injection],
    placeholders: Mapping[str, Placeholder],
    lookup: Lookup,
) -> Swapped | Misused:
    """The headers with every secret in its place; a placeholder out of place refuses them all."""
    scanner = Scanner(placeholders.values())
    if found := scanner.look_in_target(target):
        return Misused("placeholder", found, "target")
    here = [i for i in injections if _belongs(i, request)]
    out: list[Header] = []
    carried: list[tuple[Hidden, Hidden]] = []
    used: list[str] = []
    for name, value in headers:
        injection = _injection(name, value, here, placeholders)
        if injection is None:
            if found := scanner.look(name + b": " + value):
                return Misused("placeholder", found, _where(name))
            out.append((name, value))
            continue
        secret = lookup(injection.secret_id)
        if secret is None:
            return Misused("secret-gone", injection.secret_id, _where(name))
        filled = _fill(injection.template, value, placeholders[injection.secret_id], secret)
        if filled is None or not _sendable(filled):
            return Misused("secret-unsendable", injection.secret_id, _where(name))
        out.append((name, Hidden(filled)))
        carried.append((Hidden(_bytes(secret)), Hidden(filled)))
        used.append(injection.secret_id)
    if not used:
        return Swapped(tuple(out), ())
    return Swapped(_readable_answer(out), tuple(carried), tuple(used))


def _belongs(injection: Injection, request: Request) -> bool:
    wanted = (injection.host, injection.port, injection.scheme)
    return wanted == (request.host, request.port, request.scheme)


def _injection(
    name: bytes, value: bytes, here: list[Injection], placeholders: Mapping[str, Placeholder]
) -> Injection | None:
    for injection in here:
        stands = placeholders.get(injection.secret_id)
        if stands is None or injection.header.lower().encode() != name.lower():
            continue
        if _fill(injection.template, value, stands, "") is not None:
            return injection
    return None


def _fill(template: str, value: bytes, stands: Placeholder, secret: str) -> bytes | None:
    """The header's value with the secret in it; None if it is not what the template says."""
    scheme, space, inner = template.rpartition(" ")
    given = value
    if space:
        word, _, given = value.partition(b" ")
        if word.lower() != scheme.lower().encode():
            return None
        given = given.strip(b" ")
    basic = scheme.lower() == "basic"
    plain = _decoded(given) if basic else given
    if plain is None:
        return None
    found = _pattern(inner, stands.text).fullmatch(plain)
    if found is None or plain.count(stands.own.encode()) != 1:
        return None
    filled = found["before"] + _bytes(secret) + found["after"]
    sent = base64.b64encode(filled) if basic else filled
    return scheme.encode() + space.encode() + sent


def _bytes(secret: str) -> bytes:
    """As it was in the environment or file it came from, even if that was not UTF-8."""
    return secret.encode("utf-8", "surrogateescape")


@lru_cache(maxsize=256)
def _pattern(inner: str, stands: str) -> re.Pattern[bytes]:
    before, _, after = (re.escape(part).replace(r"\*", ".*?") for part in inner.partition("{}"))
    text = f"(?P<before>{before}){re.escape(stands)}(?P<after>{after})"
    return re.compile(text.encode(), re.DOTALL)


def _decoded(value: bytes) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return None


def _sendable(value: bytes) -> bool:
    """A secret with a line break in it would be a header of its own."""
    return re.fullmatch(rb"[\t\x20-\x7e\x80-\xff]*", value) is not None


def _where(name: bytes) -> str:
    return f"header {name.decode('ascii', 'backslashreplace').lower()}"


def _readable_answer(headers: list[Header]) -> Headers:
    """Asks for an answer in which an echo can be seen: one that is not compressed."""
    dropped = (b"accept-encoding", b"sec-websocket-extensions")
    kept = [header for header in headers if header[0].lower() not in dropped]
    return (*kept, (b"Accept-Encoding", b"identity"))


def echoes(secret: str | bytes, sent: bytes = b"") -> set[bytes]:
    """How a secret may come back: as it is, escaped, encoded, or as the header that carried it."""
    plain = _bytes(secret) if isinstance(secret, str) else bytes(secret)
    quoted = json.dumps(plain.decode("utf-8", "surrogateescape"))[1:-1].encode()
    forms = {plain, quoted, quoted.replace(b"/", b"\\/"), quote_from_bytes(plain, safe="").encode()}
    word = sent.rpartition(b" ")[2]
    if plain not in sent:
        forms |= {word, word.rstrip(b"=")}
    if len(plain) >= LEAST_RANDOM:
        forms |= set(_base64_cores(plain))
    return {form for form in forms if len(form) >= LEAST_COVERED}


def _base64_cores(data: bytes) -> Iterable[bytes]:
    """What base64 makes of these bytes wherever they stand, less the letters shared with others."""
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + data)
        start = (0, 2, 3)[shift]
        end = (shift + len(data)) * 8 // 6
        yield encoded[start:end]
        yield encoded[start:end].replace(b"+", b"-").replace(b"/", b"_")


class Scanner:
    """Looks for placeholders in what goes up, in pieces of any size.

    `look` is for headers and targets, where a placeholder is refused. `feed` is for bodies, where
    it is only noted: an agent that has once printed its environment repeats it in every later
    request to its model, and could never go on if those were refused. A placeholder is worth
    nothing, and none is exchanged for its secret in a body.
    """

    def __init__(self, placeholders: Iterable[Placeholder]) -> None:
        self._placeholders = tuple(placeholders)
        self._tail = b""
        self.passed: set[str] = set()
        """Secrets whose placeholder was in what was fed."""

    # Most requests have no body to look through.
    @cached_property
    def _ids(self) -> dict[bytes, str]:
        return {needle: p.secret_id for p in self._placeholders for needle in p.traces}

    @cached_property
    def _keep(self) -> int:
        return max(map(len, self._ids), default=1) - 1

    @property
    def idle(self) -> bool:
        """There is nothing to look for."""
        return not self._placeholders

    def another(self) -> Scanner:
        """For a second body that goes up at the same time. Both add to one `passed`."""
        made = Scanner(self._placeholders)
        made.passed = self.passed
        return made

    def look(self, data: bytes) -> str | None:
        """The secret whose placeholder is in here."""
        return next((self._ids[needle] for needle in self._ids if needle in data), None)

    def look_in_target(self, target: str) -> str | None:
        sent = target.encode("ascii", "replace")
        return self.look(sent) or self.look(unquote_to_bytes(sent))

    def feed(self, data: bytes) -> None:
        """Note the placeholders in a piece of a body, also those that began in the last piece."""
        joined = self._tail + data
        self._tail = joined[-self._keep :] if self._keep else b""
        self.passed.update(self._ids[needle] for needle in self._ids if needle in joined)


class Redactor:
    """Covers secrets in an answer as it passes, and keeps back only what may be a secret's start.

    Stars are as many as letters, so every length that was announced stays true.
    """

    def __init__(self, covered: Iterable[bytes]) -> None:
        self._needles = sorted({bytes(n) for n in covered if n}, key=_longest_first)
        self._search = re.compile(b"|".join(map(re.escape, self._needles)))
        self._longest = max(map(len, self._needles), default=0)
        self._firsts = bytes({needle[0] for needle in self._needles})
        self._held = b""

    def another(self) -> Redactor:
        """For another answer. To get ready costs more than to cover a short one."""
        made = Redactor.__new__(Redactor)
        vars(made).update(vars(self), _held=b"")
        return made

    def feed(self, data: bytes) -> bytes:
        if not self._needles:
            return data
        return self._pass(self._held + data, last=False)

    def end(self) -> bytes:
        """What is left once nothing more comes."""
        return self._pass(self._held, last=True) if self._needles else b""

    def whole(self, data: bytes) -> bytes:
        """Text that stands by itself, such as a header."""
        return self._search.sub(_stars, data) if self._needles else data

    def headers(self, headers: Iterable[Header]) -> Headers:
        return tuple((self.whole(name), self.whole(value)) for name, value in headers)

    def _pass(self, data: bytes, *, last: bool) -> bytes:
        out: list[bytes] = []
        at = 0
        while True:
            start = len(data) if last else self._unfinished(data, at)
            found = self._find(data, at)
            if found is None or found.start() >= start:
                break
            out += (data[at : found.start()], _stars(found))
            at = found.end()
        self._held = data[start:]
        return b"".join((*out, data[at:start]))

    def _find(self, data: bytes, at: int) -> re.Match[bytes] | None:
        # Looking for one needle after the other is many times as fast as for any of them.
        if not any(data.find(needle, at) >= 0 for needle in self._needles):
            return None
        return self._search.search(data, at)

    def _unfinished(self, data: bytes, at: int) -> int:
        """Where the first needle begins that the data ends within; its end if there is none."""
        first = max(at, len(data) - self._longest + 1)
        tail = data[first:]
        if len(tail.translate(None, self._firsts)) == len(tail):
            return len(data)
        return min((_start(data, needle, first) for needle in self._needles), default=len(data))


def _start(data: bytes, needle: bytes, first: int) -> int:
    at = data.find(needle[:1], max(first, len(data) - len(needle) + 1))
    while at >= 0 and not needle.startswith(data[at:]):
        at = data.find(needle[:1], at + 1)
    return at if at >= 0 else len(data)


def _longest_first(needle: bytes) -> tuple[int, bytes]:
    return -len(needle), needle


def _stars(found: re.Match[bytes]) -> bytes:
    return b"*" * len(found[0])
