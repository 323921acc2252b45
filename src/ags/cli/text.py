"""Text from elsewhere, made safe for a terminal."""

from __future__ import annotations


def plain(text: str) -> str:
    """Control and escape characters become visible; line breaks and tabs stay."""
    return "".join(character if _harmless(character) else _visible(character) for character in text)


def _harmless(character: str) -> bool:
    return character in "\n\t" or character.isprintable()


def _visible(character: str) -> str:
    # Bytes that are no text arrive as lone surrogates, which no terminal can be sent.
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
