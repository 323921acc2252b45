"""The tables of commands, ready for tests."""

from __future__ import annotations

from tests.hooks import fine_commands, refused_commands


def _cases(text: str) -> list[str]:
    return [case.replace("\0", "\n") for case in text.strip("\n").replace("\n| ", "\0").split("\n")]


REFUSED = _cases(refused_commands.REFUSED)
FINE = _cases(fine_commands.FINE)
