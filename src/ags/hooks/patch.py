"""Which files a patch in codex's own format is about."""

from __future__ import annotations

import re

_HEADER = re.compile(
    r"^[ \t]*\*\*\* (?:Add File|Update File|Delete File|Move to):[ \t]*(.+?)[ \t]*$", re.MULTILINE
)


def patched(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_HEADER.findall(text)))
