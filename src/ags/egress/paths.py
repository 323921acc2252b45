"""Paths of requests: judged in one reading, or not at all."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_PATH = 8192

OVERRIDE_HEADERS = frozenset(
    (
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-original-uri",
        "x-rewrite-url",
        "x-override-url",
        "x-forwarded-uri",
        "x-forwarded-path",
        "x-forwarded-prefix",
        "x-envoy-original-path",
    )
)
"""With these an origin may act on another method or path than the one that was judged."""

# Space, query, fragment, backslash and path parameters (`/..;/` is `/../` to some) are left out.
_PLAIN = frozenset(map(chr, range(0x21, 0x7F))) - frozenset('?#\\;%"<>')
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
# They may stay encoded: an origin decodes them to what no path is cut by.
_STAYS = frozenset(' ?#"<>')
_DECODES = _PLAIN - {"/"}


def normal_path(path: str) -> str | None:
    """The path with only those encodings that it needs; None if it has a second reading.

    Dot segments, double and encoded slashes, backslashes, encoded percent signs, parameters and
    control bytes: origins differ on them, so what a rule says of them is worth nothing.
    """
    if not path.startswith("/") or len(path) > MAX_PATH:
        return None
    pieces = _ENCODED.split(path)
    if any(not _PLAIN.issuperset(plain) for plain in pieces[::2]):
        return None
    decoded = [_decoded(code) for code in pieces[1::2]]
    if None in decoded or not _one_reading(path):
        return None
    pieces[1::2] = [text or "" for text in decoded]
    normal = "".join(pieces)
    segments = normal[1:].split("/")
    if "//" in normal or "." in segments or ".." in segments:
        return None
    return normal


def bad_pattern(pattern: str) -> str | None:
    """Why a path cannot be written like this in a rule; None if it can."""
    if not pattern.startswith("/"):
        return "a path starts with a slash"
    # More would take a matcher exponentially long on a path made for it.
    if any(segment.count("*") > 1 for segment in pattern.split("/")):
        return "a part of a path has at most one *"
    return None if normal_path(pattern) == pattern else "no path that is sent is judged as this"


def path_matches(pattern: str, path: str, denial: bool = False) -> bool:
    """Whether a normal path is one of the pattern's; a denial is also of all below, in any case."""
    flags = re.IGNORECASE if denial else 0
    below = "(?:/.*)?" if denial else ""
    return re.fullmatch(_expression(pattern) + below, path, flags) is not None


def override(headers: Iterable[str]) -> str | None:
    """The first of these header names that makes a method or path rule void."""
    spelled = ((name, name.lower().replace("_", "-")) for name in headers)
    return next((name for name, low in spelled if low in OVERRIDE_HEADERS), None)


def _decoded(code: str) -> str | None:
    value = int(code, 16)
    if value >= 0x80:
        return f"%{code.upper()}"
    character = chr(value)
    if character in _STAYS:
        return f"%{code.upper()}"
    return character if character in _DECODES else None


def _one_reading(path: str) -> bool:
    """Bytes beyond ASCII are UTF-8, and no letter of them folds to one that paths are cut by."""
    data = _ENCODED.sub(lambda match: chr(int(match[1], 16)), path).encode("latin-1")
    if data.isascii():
        return True
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    folded = unicodedata.normalize("NFKC", text)
    return all(text.count(mark) == folded.count(mark) for mark in "/\\.;%?#")


def _expression(pattern: str) -> str:
    start = pattern.removesuffix("*")
    inner = "[^/]+".join(re.escape(part) for part in start.split("*"))
    return inner if start == pattern else f"{inner}.*"
