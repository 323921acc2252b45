"""Text from elsewhere, made safe for a terminal and for JSON."""

from __future__ import annotations

UNSEEN = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters that count as printable and show as nothing."""


def plain(text: str) -> str:
    """Control and escape characters become visible; line breaks and tabs stay."""
    return "".join(c if c in "\n\t" or _is_seen(c) else visible(c) for c in text)


def one_line(text: str) -> str:
    """As `plain`, for a name: a line break or tab in it becomes visible too."""
    return "".join(c if _is_seen(c) else visible(c) for c in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() and character not in UNSEEN


def utf8(text: str) -> str:
    """Only what has no UTF-8 becomes visible: the bytes of a name or line that is no text."""
    if text.isascii():
        return text
    return "".join(visible(c) if "\ud800" <= c <= "\udfff" else c for c in text)


def visible(character: str) -> str:
    # Bytes that are no text arrive as lone surrogates, which no terminal can be sent.
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def decode(data: bytes) -> str:
    """Bytes of git or of a file system; what is not UTF-8 in them comes back by `encode`."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
