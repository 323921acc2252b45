"""The escapes of `$'...'`, which `echo -e` and `printf` share."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
          "e": "\x1b", "E": "\x1b"}  # fmt: skip


def ansi_c(text: str) -> str:
    return _ESCAPE.sub(_meaning, text)


def _meaning(found: re.Match[str]) -> str:
    if code := found[1] or found[2] or found[3]:
        number = int(code, 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if found[4]:
        return chr(int(found[4], 8) & 0xFF)
    if found[5]:
        return chr(ord(found[5]) & 0x1F)
    return _SHORT.get(found[6], found[6])
