"""What a person writes for a size, a time or a path, in the settings and in flags alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ags.errors import Unfit
from ags.frozen import frozen

NONE = "none"
MAX_SIZE = 1 << 60
MAX_CPUS = 4096
MAX_PIDS = 1 << 22
"""The kernel has no more process ids than this."""
MAX_SECONDS = 366 * 86400

_UNITS = {unit: 1 << 10 * power for power, unit in enumerate("bkmgtp")}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Patterns are compiled when they are first needed: most starts of ags need none.
_NUMBER = r"([0-9]{1,19})(?:\.([0-9]{1,9}))?"
_SIZE = rf"{_NUMBER} ?(?:(b)|([kmgtp])(?:ib)?)"
_DURATION = rf"{_NUMBER} ?([smhd])"
_PERCENT = r"([0-9]{1,3})%"
_HOME = r"(?:~|\$HOME|\$\{HOME\})(?=/|\Z)"
_VARIABLE = r"\$[A-Za-z_{]"
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"

_SIZE_HINT = 'write it like "8G", "1.5G" or "512MiB"; units are powers of 1024'
_DURATION_HINT = 'write it like "90s", "10m" or "2h"'


@frozen
class Percent:
    """A share of what the machine has."""

    value: int

    def of(self, total: int) -> int:
        return total * self.value // 100


def parse_size(text: str, subject: object = None) -> int:
    """Bytes: `8G`, `1.5G`, `512 MiB`."""
    if not (match := re.fullmatch(_SIZE, text, re.IGNORECASE)):
        raise Unfit("use this size", subject=subject, cause=_is_no(text, "size"), hint=_SIZE_HINT)
    whole, fraction, byte, unit = match.groups()
    size = _scaled(whole, fraction, _UNITS[(byte or unit).lower()])
    if not 0 < size <= MAX_SIZE:
        cause = f"{text} is more than any machine has" if size else f"{text} is nothing at all"
        raise Unfit("use this size", subject=subject, cause=cause, hint=_SIZE_HINT)
    return size


def parse_duration(text: str, subject: object = None) -> float:
    """Seconds: `90s`, `10m`, `2h`, `1.5d`."""
    if not (match := re.fullmatch(_DURATION, text)):
        cause = _is_no(text, "time")
        raise Unfit("use this time", subject=subject, cause=cause, hint=_DURATION_HINT)
    whole, fraction, unit = match.groups()
    seconds = _scaled(whole, fraction, 1000 * _SECONDS[unit]) / 1000
    if not 0 < seconds <= MAX_SECONDS:
        cause = f"{text} is more than a year" if seconds else f"{text} is no time at all"
        raise Unfit("use this time", subject=subject, cause=cause, hint=_DURATION_HINT)
    return seconds


def parse_timeout(text: str, subject: object = None) -> float | None:
    return None if text == NONE else parse_duration(text, subject)


def parse_memory(text: str, subject: object = None) -> int | Percent | None:
    """A size, a percentage of the machine's memory, or `none`."""
    if text == NONE:
        return None
    if not (match := re.fullmatch(_PERCENT, text)):
        return parse_size(text, subject)
    share = int(match[1])
    if not 1 <= share <= 100:
        cause = f"{text} is not between 1% and 100%"
        raise Unfit("use this size", subject=subject, cause=cause)
    return Percent(share)


def parse_cpus(text: str, subject: object = None) -> float | None:
    """How many processors' worth of time: `2`, `0.5`, or `none`."""
    if text == NONE:
        return None
    if not re.fullmatch(_NUMBER, text):
        cause = _is_no(text, "number of processors")
        raise Unfit("use this number", subject=subject, cause=cause, hint="such as 2 or 0.5")
    return checked_cpus(float(text), subject)


def checked_cpus(number: float, subject: object = None) -> float:
    if not 0.01 <= number <= MAX_CPUS:  # so written, it also catches nan
        cause = f"it is not between 0.01 and {MAX_CPUS}"
        raise Unfit("use this number", subject=subject, cause=cause)
    return float(number)


def parse_pids(text: str, subject: object = None) -> int | None:
    """How many processes and threads, or `none`."""
    if text == NONE:
        return None
    if not re.fullmatch(r"[0-9]{1,19}", text):
        cause = _is_no(text, "whole number")
        raise Unfit("use this number", subject=subject, cause=cause, hint="such as 4096")
    return checked_count(int(text), MAX_PIDS, subject)


def checked_count(number: int, most: int, subject: object = None) -> int:
    if not 1 <= number <= most:
        cause = f"it is not between 1 and {most}"
        raise Unfit("use this number", subject=subject, cause=cause)
    return number


def parse_path(text: str, home: Path, subject: object = None) -> Path:
    """An absolute path, `~` and `$HOME` at its start being the home. Links are not looked at."""
    start = re.match(_HOME, text)
    rest = text[start.end() :] if start else text
    whole = f"{home}{rest}" if start else rest
    cause, hint = "", ""
    if control_character(text):
        cause = "it has a control character"
    elif not whole.startswith("/"):
        cause, hint = f"{shown(text)} is not absolute", "start it with / or ~/"
    elif re.search(_VARIABLE, rest):
        cause, hint = f"{shown(text)} has a variable", "only ~ and $HOME at the start are known"
    elif ".." in PurePosixPath(whole).parts:
        cause, hint = f"{shown(text)} has a ..", "write the path without it"
    if cause:
        raise Unfit("use this path", subject=subject, cause=cause, hint=hint)
    # Two slashes at the start would survive in a Path, and compare equal to nothing.
    return Path("/" + whole.lstrip("/"))


def parse_relative(text: str, subject: object = None) -> PurePosixPath:
    """A path below the workspace."""
    path = PurePosixPath(text)
    if control_character(text):
        raise Unfit("use this path", subject=subject, cause="it has a control character")
    if path.is_absolute() or ".." in path.parts or not path.parts or text.startswith("~"):
        cause = f"{shown(text)} is not below the workspace"
        hint = 'write it relative to the workspace, like "config/prod"'
        raise Unfit("use this path", subject=subject, cause=cause, hint=hint)
    return path


def matching(pattern: str, noun: str, hint: str = "") -> Callable[[str], str]:
    """Of texts, only those that match as a whole."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise Unfit(f"use this {noun}", cause=_is_no(text, noun), hint=hint)
        return text

    return parse


def control_character(text: str) -> bool:
    return re.search(_CONTROL, text) is not None


def shown(text: str) -> str:
    """Short, in quotes, and harmless on a terminal."""
    return repr(text if len(text) <= 60 else f"{text[:59]}…")


def _is_no(text: str, noun: str) -> str:
    return f"{shown(text)} is not a {noun}"


def _scaled(whole: str, fraction: str | None, unit: int) -> int:
    digits = fraction or ""
    scale: int = 10 ** len(digits)
    return int(whole + digits) * unit // scale
