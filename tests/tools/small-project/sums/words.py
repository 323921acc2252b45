"""From text to words."""

from __future__ import annotations

import re
from collections.abc import Iterator

WORD = re.compile(r"\s*(?:(\d+)|([-+*/()]))")


def words(text: str) -> Iterator[str]:
    place = 0
    while text[place:].strip():
        match = WORD.match(text, place)
        if match is None:
            raise ValueError(f"not understood: {text[place:]!r}")
        yield match[1] or match[2]
        place = match.end()
