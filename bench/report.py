"""The rows as a table for a person, or as one JSON object per line for a program."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.measure import Missing, Row, Series, median

HEAD = ("bench", "case", "ours", "peer", "its figure", "ratio", "mark", "met", "note")


def json_line(row: Row) -> str:
    """What is not known is null; `note` says why."""
    return json.dumps(
        {
            "bench": row.bench,
            "case": row.case,
            "ours": _rounded(median(row.ours)),
            "ours_spread": _spread(row.ours),
            "peer": row.peer.name if row.peer else None,
            "peer_value": _rounded(median(row.peer.figure)) if row.peer else None,
            "peer_spread": _spread(row.peer.figure) if row.peer else None,
            "unit": row.unit,
            "ratio": _rounded(row.ratio),
            "mark": row.mark.text if row.mark else None,
            "met": row.met,
            "note": note(row),
        },
        ensure_ascii=False,
    )


def note(row: Row) -> str:
    """A peer that could not be measured is named as missing, with the reason."""
    for figure in (row.ours, row.peer.figure if row.peer else None):
        if isinstance(figure, Missing):
            return f"missing: {figure.why}"
    return row.note


def cells(row: Row) -> tuple[str, ...]:
    """As HEAD has them."""
    return (
        row.bench,
        row.case,
        _figure(row.ours, row.unit),
        row.peer.name if row.peer else "",
        _figure(row.peer.figure, row.unit) if row.peer else "",
        f"{row.ratio:.2f} ×" if row.ratio is not None else "",
        row.mark.text if row.mark else "",
        {True: "yes", False: "NO", None: "unknown" if row.mark else ""}[row.met],
        note(row),
    )


def show(rows: Sequence[Row], console: Console) -> None:
    """A drawn table on a terminal; aligned columns elsewhere."""
    lines = [cells(row) for row in rows]
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in zip(HEAD, *lines, strict=True)]
        for line in (HEAD, *lines):
            padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            print("  ".join(padded).rstrip(), file=console.file)
        return
    table = Table(*HEAD, caption="Medians, and in brackets where half of all values lie.")
    for line in lines:
        table.add_row(*map(Text, line))  # as text, since a peer's words may look like markup
    console.print(table)


def _figure(figure: Series | Missing, unit: str) -> str:
    if isinstance(figure, Missing):
        return "missing"
    if len(figure.values) == 1:
        return f"{figure.median:g} {unit}"
    low, high = figure.spread
    return f"{figure.median:.1f} {unit} ({low:.1f}–{high:.1f})"


def _spread(figure: Series | Missing) -> list[float | None] | None:
    return None if isinstance(figure, Missing) else [_rounded(value) for value in figure.spread]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
