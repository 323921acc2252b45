"""One decision of the fence, as a line for a person."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ags.egress.policy import meaning
from ags.paint import Paint
from ags.text import one_line

UNITS = ("B", "K", "M", "G", "T")


def shown(record: Mapping[str, object], paint: Paint) -> str:
    """Of a line of the log, whatever it holds."""
    if "dropped" in record:
        return paint(f"{_word(record, 'dropped')} more were not kept: the log was full", "yellow")
    allowed = record.get("allowed") is True
    verdict = paint("allowed", "green") if allowed else paint("refused", "red")
    what = _word(record, "method") or _word(record, "scheme")
    where = f"{_host(_word(record, 'host'))}:{_word(record, 'port')}{_word(record, 'path')}"
    return f"{_time(record)}  {verdict}  {what} {where}  {paint(_why(record, allowed), 'dim')}"


def _why(record: Mapping[str, object], allowed: bool) -> str:
    reason, rule, layer = (_word(record, name) for name in ("reason", "rule", "layer"))
    by = f"`{rule}` ({layer})" if rule else ""
    if not allowed:
        return "; ".join(filter(None, (one_line(meaning(reason)), by)))
    carried = f"up {_size(record, 'sent')}, down {_size(record, 'received')}"
    ended = "" if reason == "allowed" else one_line(reason)
    return "; ".join(filter(None, (by, carried, ended)))


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _word(record: Mapping[str, object], name: str) -> str:
    value = record.get(name)
    return "" if value is None else one_line(str(value))[:300]


def _time(record: Mapping[str, object]) -> str:
    at = record.get("time")
    try:
        return time.strftime("%H:%M:%S", time.localtime(at)) if isinstance(at, int | float) else "?"
    except (OverflowError, ValueError, OSError):
        return "?"


def _size(record: Mapping[str, object], name: str) -> str:
    value = record.get(name)
    size = float(value) if isinstance(value, int) and 0 <= value < 1 << 60 else 0.0
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f}{unit}" if unit == "B" else f"{size:.1f}{unit}"
